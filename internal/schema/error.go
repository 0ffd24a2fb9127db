package schema

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Error is the error body of the unified API: what a caller reads when a
// request was not answered.
type Error struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
	Details any     `json:"details,omitzero"`

	// Status is set only where a backend decided it; zero means that Code does.
	Status int `json:"-"`
	// RetryAfter tells the caller when to come back; zero means that nothing is known.
	RetryAfter time.Duration `json:"-"`
	// Spread says that many callers may be told this wait at the same moment: each
	// is told a little more, so that they do not come back together.
	Spread bool `json:"-"`
	// Cause is the stable word for why a backend could not be reached, for logs and
	// records; empty where that is not what went wrong.
	Cause string `json:"-"`
	// NoRetry tells clients that repeating the same request is pointless.
	NoRetry bool `json:"-"`
}

// Error makes an *Error an error; the text is the caller's message.
func (e *Error) Error() string { return e.Message }

// NewError returns the error of a code, with the type that the code has.
func NewError(code, message string) *Error {
	return &Error{Message: message, Type: classOf(code).typ, Code: code}
}

// HTTPStatus returns the status with which the error is sent.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	return classOf(e.Code).status
}

// Body encodes the error as clients of the unified API read it. Bytes that are no
// text, which clients can have put into a path or a name, become the sign for that.
func (e *Error) Body() []byte {
	type body struct {
		Error *Error `json:"error"`
	}
	encoded, err := json.Marshal(body{e}, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil { // the details are the only part that can be more than text
		plain := *e
		plain.Details = nil
		return plain.Body()
	}
	return encoded
}

// InvalidValue says that a field of the request has a value it may not have.
func InvalidValue(param, message string) *Error {
	err := NewError(CodeInvalidValue, message)
	err.Param = &param
	return err
}

// MissingParameter says that a required field of the request is absent.
func MissingParameter(param string) *Error {
	err := NewError(CodeMissingParameter, "Missing required parameter: '"+param+"'.")
	err.Param = &param
	return err
}
