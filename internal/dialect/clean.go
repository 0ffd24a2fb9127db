package dialect

import (
	"net/url"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect/redact"
)

const (
	// maxMessage is how many characters of a backend's text a caller gets to see
	// in the details of an error, maxReason how many in its message.
	maxMessage = 500
	maxReason  = 300
)

// secretsOf returns the values of an endpoint that callers must not see.
func secretsOf(base *url.URL, e Endpoint) redact.Secrets {
	list := []string{e.BaseURL, base.Host, e.APIKey}
	if name := base.Hostname(); strings.ContainsAny(name, ".:") {
		list = append(list, name) // a name without a dot may also be the name of a model
	}
	if password, ok := base.User.Password(); ok {
		list = append(list, password)
	}
	for _, value := range e.Headers {
		list = append(list, value)
		if _, token, ok := strings.Cut(value, " "); ok {
			list = append(list, token) // a credential without its scheme
		}
	}
	return redact.Of(list)
}

// Clean makes a backend's text safe to be shown to callers; see redact.Secrets.
func (t *Target) Clean(text string) string { return t.secrets.Clean(text, maxMessage) }

// Reason is Clean for the message of an error, which is shorter.
func (t *Target) Reason(text string) string { return t.secrets.Clean(text, maxReason) }
