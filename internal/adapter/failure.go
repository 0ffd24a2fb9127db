package adapter

import (
	"bytes"
	"fmt"
	"regexp"
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
	v := root.Get("error")
	if !v.Given() && string(root.Get("object").Text()) != "error" {
		return nil
	}
	return &Failure{Status: 200, Message: messageOf(root)}
}

// messageOf finds the text in the shapes of errors that backends use:
// {"error":{"message":…}}, {"error":"…"}, {"message":…}, {"detail":…}, "…".
func messageOf(v jsonscan.Value) string {
	if v.Kind() == jsonscan.String {
		return string(v.Text())
	}
	for _, name := range []string{"error", "message", "detail", "msg"} {
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
var secretText = regexp.MustCompile(`(?i)bearer\s+\S+|\b(?:sk|pk|rk|gsk|hf|xai|key|pat|ghp|AIza)[-_][A-Za-z0-9_\-]{8,}|AIza[0-9A-Za-z_\-]{16,}|\bhttps?://\S+|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b`)

// Clean makes a backend's text fit for callers: one line, cut, and without the
// instance's secrets or addresses.
func (t *Target) Clean(text string) string {
	for _, secret := range t.secrets {
		if len(secret) >= 4 {
			text = strings.ReplaceAll(text, secret, "[hidden]")
		}
	}
	text = secretText.ReplaceAllString(text, "[hidden]")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) > maxMessage {
		text = string([]rune(text)[:maxMessage]) + "…"
	}
	return text
}
