package dialect

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// Failure is an error that a backend reports: a reply with an error status, or an
// error inside an answer that began as a success.
type Failure struct {
	// Status is the status of the reply, 200 for an error inside an answer.
	Status int
	// Message holds the backend's own words, not yet fit to be shown: see Target.Clean.
	Message string
	// Code and Type come from the error where they are strings in OpenAI's shape.
	Code, Type string
	// DetailCode is details.error_code of an error in Anthropic's shape, or empty.
	// Clients of that API decide by it how to go on.
	DetailCode string
}

// Error returns a text for logs; the backend's own words are not in it.
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
		f.Message = FailureMessage(doc.Root())
		f.readKind(doc.Root())
	case body[0] == '<':
		f.Message = "(an HTML page)"
	case utf8.Valid(body):
		f.Message = string(body)
	}
	return f
}

// FailureIn returns the *Failure that an answer reports, or nil.
func FailureIn(root jsonscan.Value) error {
	if root.Kind() == jsonscan.Array {
		root = root.First() // some wrap their errors in a list
	}
	v := root.Get("error")
	if !v.Given() && !root.Is("object", "error") {
		return nil
	}
	f := &Failure{Status: 200, Message: FailureMessage(root)}
	f.readKind(root)
	return f
}

// readKind reads code and type of the error.
func (f *Failure) readKind(root jsonscan.Value) {
	v := root.Get("error")
	f.Code, f.Type = string(v.TextOf("code")), string(v.TextOf("type"))
	if code := v.Get("details").TextOf("error_code"); isCodeWord(code) {
		f.DetailCode = string(code)
	}
}

// longestCode is how long a code may be that is passed on as the backend wrote it.
const longestCode = 64

// isCodeWord reports whether a text consists of lower-case letters, digits and
// underscores, as codes do. Other text might hold things that callers must not see.
func isCodeWord(text []byte) bool {
	return len(text) > 0 && len(text) <= longestCode &&
		len(bytes.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789_")) == 0
}

// Failure returns the error that an event is by its name, whatever its data
// look like, or nil.
func (e Event) Failure() error {
	if string(e.Name) != "error" {
		return nil
	}
	return ReadFailure(200, e.Data)
}

// LooksLikeFailure reports whether an object has a member that backends use for the
// text of an error, although it does not call itself an error.
func LooksLikeFailure(root jsonscan.Value) bool {
	for _, name := range errorMembers {
		if root.Get(name).Given() {
			return true
		}
	}
	return false
}

// errorMembers are the names that backends use for the text of an error.
var errorMembers = [...]string{"error", "message", "detail", "msg"}

// FailureMessage finds the text in the shapes of errors that backends use:
// {"error":{"message":…}}, {"error":"…"}, {"message":…}, {"detail":…}, "…".
func FailureMessage(v jsonscan.Value) string {
	if v.Kind() == jsonscan.String {
		return string(v.Text())
	}
	if first := v.First(); v.Kind() == jsonscan.Array && first.Get("error").Given() {
		return FailureMessage(first) // some wrap their errors in a list
	}
	for _, name := range errorMembers {
		if inner := v.Get(name); inner.Given() {
			return FailureMessage(inner)
		}
	}
	return string(v.Raw())
}
