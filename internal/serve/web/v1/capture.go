package v1

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// maxHeaders is the number of headers of a request that are kept, and maxHeaderValue the
// length that is kept of a value.
const (
	maxHeaders     = 64
	maxHeaderValue = 512
)

// maskedHeaders returns the headers of a request for people who look into its record:
// every secret is masked.
func maskedHeaders(header http.Header) []calls.Header {
	key, authorization := access.KeyIn(header), web.FirstOf(header, "Authorization")
	if _, token, hasScheme := strings.Cut(authorization, " "); hasScheme {
		authorization = strings.TrimSpace(token)
	}
	headers := make([]calls.Header, 0, min(len(header), maxHeaders))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			if len(headers) == maxHeaders {
				return headers
			}
			h := calls.Header{Name: name, Value: value}
			if value != "" && (isSecretHeader(name) || isCredential(value) || contains(value, key) ||
				contains(value, authorization)) {
				h.Value, h.IsMasked = access.Mask(value), true
			}
			if len(h.Value) > maxHeaderValue {
				h.Value = h.Value[:maxHeaderValue] + "…"
			}
			// Copies, because a part of a text keeps the whole text in memory: the head of
			// the request, secrets included.
			h.Name, h.Value = strings.Clone(strings.ToValidUTF8(h.Name, "?")),
				strings.Clone(strings.ToValidUTF8(h.Value, "?"))
			headers = append(headers, h)
		}
	}
	return headers
}

// isSecretHeader reports whether headers of this name may hold a secret. It rather takes
// one too many for secret.
func isSecretHeader(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"auth", "cookie", "key", "token", "secret", "passw", "credential", "session",
		"signature", "assertion", "jwt"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// isCredential reports whether a value is a credential by its form: it begins with a scheme
// of HTTP authentication, or is a JSON web token.
func isCredential(value string) bool {
	scheme, rest, _ := strings.Cut(value, " ")
	switch strings.ToLower(scheme) {
	case "bearer", "basic", "digest", "negotiate":
		return rest != ""
	}
	return strings.HasPrefix(value, "eyJ") && strings.Count(value, ".") == 2
}

// contains reports whether a value repeats a secret that came in another header.
func contains(value, secret string) bool { return secret != "" && strings.Contains(value, secret) }

// listForm returns the fields of a form, one in each line, with the sizes and the types
// of its files in place of these.
func listForm(form *schema.Form) []byte {
	var list []byte
	for _, part := range form.Parts {
		if file := part.File; file != nil {
			list = fmt.Appendf(list, "%s: %q, %d bytes of %s\n", part.Name, file.Filename, file.Size, file.ContentType)
		} else {
			list = fmt.Appendf(list, "%s: %s\n", part.Name, part.Value)
		}
	}
	return list
}
