package access

import (
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// UserHeaderPattern describes the name of a header, as a regular expression of JSON schema.
const UserHeaderPattern = "^[A-Za-z0-9_-]*$"

// maxUserHeader bounds the name of a header.
const maxUserHeader = 64

// secretHeaders carry credentials; the names have the canonical form. Their values must not
// become the name of a user, which is stored and shown.
var secretHeaders = []string{"Authorization", "Proxy-Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie"}

// quotedName is the one header of Open WebUI with a value that is escaped as in a URL.
const quotedName = "X-Openwebui-User-Name"

func checkUserHeader(path, name string, report say.Report) {
	isForeign := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '_' && r != '-'
	}
	switch {
	case name == "":
	case len(name) > maxUserHeader || strings.ContainsFunc(name, isForeign):
		report(path, say.New("field.user_header"))
	case slices.Contains(secretHeaders, textproto.CanonicalMIMEHeaderKey(name)):
		report(path, say.New("field.user_secret"))
	}
}

// UserOf returns the user that a request names in the header which the key trusts. It is
// empty if the key trusts none or the header is not there: then the body names the user. It
// refuses a header that is given more than once, because a proxy that adds its own header
// to the client's leaves open which one is true.
func (g *Grant) UserOf(header http.Header) (string, *schema.Error) {
	if g.IsVisitor() {
		return g.visitor.User, nil
	}
	if g == nil || g.userHeader == "" {
		return "", nil
	}
	values := header[g.userHeader]
	if len(values) == 0 {
		return "", nil
	}
	if len(values) > 1 {
		return "", schema.CodedError(schema.CodeInvalidValue, "call.user_twice", "header", g.UserHeader)
	}
	user := strings.TrimSpace(values[0])
	if g.userHeader == quotedName {
		if plain, err := url.PathUnescape(user); err == nil {
			user = plain
		}
	}
	return user, nil
}
