package adapter

import (
	"bytes"
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
)

// Failure is a backend's own complaint: a reply with an error status, or an
// error inside an answer that began as a success.
type Failure struct {
	// Status is the status of the reply, 200 for an error inside an answer.
	Status int
	// Message is what the backend said, not yet fit to be shown: see Target.Clean.
	Message string
}

// Error returns what a log may say; the backend's own words are not in it.
func (f *Failure) Error() string {
	if f.Status == 200 {
		return "the backend reported an error inside its answer"
	}
	return fmt.Sprintf("the backend answered with status %d", f.Status)
}

// ReadFailure reads a reply with an error status, whatever its shape.
func ReadFailure(status int, body []byte) *Failure {
	f := &Failure{Status: status}
	body = bytes.TrimSpace(body)
	var doc jsonscan.Document
	doc.AllowDuplicateKeys = true
	switch {
	case len(body) == 0:
	case doc.Parse(body) == nil:
		f.Message = messageOf(doc.Root())
	case body[0] == '<':
		f.Message = "(an HTML page)"
	case utf8.Valid(body):
		f.Message = string(body)
	}
	return f
}

// complaint returns the error that an answer carries, or nil.
func complaint(root jsonscan.Value) error {
	if root.Kind() == jsonscan.Array {
		root = root.First() // some wrap their errors in a list
	}
	v := root.Get("error")
	if !v.Given() && string(root.Get("object").Text()) != "error" {
		return nil
	}
	return &Failure{Status: 200, Message: messageOf(root)}
}

// complaint returns the error that an event is by its name, whatever its data
// look like, or nil.
func (e Event) complaint() error {
	if string(e.Name) != "error" {
		return nil
	}
	return ReadFailure(200, e.Data)
}

// complains reports whether an object speaks as errors do, without calling
// itself one.
func complains(root jsonscan.Value) bool {
	for _, name := range faultNames {
		if root.Get(name).Given() {
			return true
		}
	}
	return false
}

// faultNames are the names under which backends tell what went wrong.
var faultNames = [...]string{"error", "message", "detail", "msg"}

// messageOf finds the text in the shapes of errors that backends use:
// {"error":{"message":…}}, {"error":"…"}, {"message":…}, {"detail":…}, "…".
func messageOf(v jsonscan.Value) string {
	if v.Kind() == jsonscan.String {
		return string(v.Text())
	}
	if first := v.First(); v.Kind() == jsonscan.Array && first.Get("error").Given() {
		return messageOf(first) // some wrap their errors in a list
	}
	for _, name := range faultNames {
		if inner := v.Get(name); inner.Given() {
			return messageOf(inner)
		}
	}
	return string(v.Raw())
}

// maxMessage is how much of a backend's text a caller gets to see.
const maxMessage = 500

// secretText matches what must not be shown wherever it comes from: bearer
// tokens, keys in the usual shapes, and addresses.
var secretText = regexp.MustCompile(`(?i)bearer\s+\S+|\b(?:sk|pk|rk|gsk|hf|xai|key|pat|ghp|AIza)[-_][A-Za-z0-9_\-]{8,}|AIza[0-9A-Za-z_\-]{16,}|\b[a-z][a-z0-9+.-]*://\S+|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b`)

const hidden = "[hidden]"

// shortestSecret is the length below which a value is not looked for: it would
// hide half of every text.
const shortestSecret = 4

// secretsOf lists what no caller may read of an endpoint, the longest first, so
// that what contains another is hidden whole.
func secretsOf(base *url.URL, e Endpoint) []string {
	list := []string{e.BaseURL, base.Host, e.APIKey}
	if name := base.Hostname(); strings.ContainsAny(name, ".:") {
		list = append(list, name) // a bare word may be the name of a model, too
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
	for i := range list {
		list[i] = oneLine(list[i])
	}
	list = slices.DeleteFunc(list, func(s string) bool { return len(s) < shortestSecret })
	slices.SortFunc(list, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
	return slices.Compact(list)
}

// Clean makes a backend's text fit for callers: one line, cut, and without the
// instance's secrets or addresses.
func (t *Target) Clean(text string) string {
	text = oneLine(text)
	for _, secret := range t.secrets {
		text = strings.ReplaceAll(text, secret, hidden)
	}
	text = secretText.ReplaceAllString(text, hidden)
	if utf8.RuneCountInString(text) > maxMessage {
		text = string([]rune(text)[:maxMessage-1]) + "…"
	}
	return text
}

// oneLine makes every run of space and control characters one space.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}
