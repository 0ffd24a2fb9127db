package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

var contentJSON = []string{"application/json"}

// WriteJSON answers with a value as JSON.
func WriteJSON(w http.ResponseWriter, status int, value any) {
	body, err := Encode(value)
	if err != nil {
		// The gateway made the value: this is a bug.
		status = http.StatusInternalServerError
		body = schema.CodedError(schema.CodeInternal, "call.unencoded").Body()
	}
	header := w.Header()
	header["Content-Type"] = contentJSON
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that left does not need it
}

// StreamJSON answers with a value that writes itself piece by piece. A long reply is never
// whole in memory.
func StreamJSON(w http.ResponseWriter, value json.MarshalerTo) {
	w.Header()["Content-Type"] = contentJSON
	w.WriteHeader(http.StatusOK)
	// Writing fails if the client has left, which needs no handling.
	_ = json.MarshalWrite(w, value, jsontext.AllowInvalidUTF8(true))
}

// Encode encodes a reply. Invalid UTF-8, which clients can put into a path or a name,
// becomes the replacement character.
func Encode(value any) ([]byte, error) {
	return json.Marshal(value, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
}

// Envelope is the shape of the management API's replies.
type Envelope struct {
	Success bool   `json:"success"`
	Message string `json:"message"`
	Data    any    `json:"data"`
}

// Fault is an error of the management API. Its data is null.
type Fault struct {
	Success bool           `json:"success" doc:"Always false."`
	Message string         `json:"message"`
	Data    any            `json:"data" doc:"Always null."`
	Said    []say.Sentence `json:"said,omitzero" doc:"The message as codes and values, asked for by X-Patchbay-Said."`
	// ErrorCode is for the few errors that programs tell apart.
	ErrorCode string `json:"errorCode,omitzero" enum:"RESTART_REQUIRED,INVALID_REQUEST,audit_rate_limited"`
	ErrorType string `json:"errorType,omitzero" enum:"rate_limit_exceeded"`
}

// Succeed answers with data in an envelope.
func Succeed(w http.ResponseWriter, status int, message string, data any) {
	WriteJSON(w, status, Envelope{Success: true, Message: message, Data: data})
}

// Refuse answers with an error in an envelope.
func Refuse(w http.ResponseWriter, status int, said say.Sentence) {
	WriteJSON(w, status, Fault{Message: said.String(), Said: SaidTo(w, said)})
}

var errSwitch = say.Error("field.switch")

// Switch is the type of a query parameter that Flag reads.
type Switch bool

// Flag reads a boolean query parameter. The case of its name does not matter, a
// parameter without a value is true, and of several values one that is true is enough:
// a misspelt ?dryRun must not become a change.
func Flag(r *http.Request, name string) (bool, error) {
	on := false
	for key, values := range r.URL.Query() {
		if !strings.EqualFold(key, name) {
			continue
		}
		for _, value := range values {
			this, err := strconv.ParseBool(value)
			if err != nil && value != "" {
				return false, errSwitch
			}
			on = on || this || value == ""
		}
	}
	return on, nil
}

// Errors of ReadBody.
var (
	ErrBodyTooLarge = say.Error("manage.body_large")
	ErrBodyTooSlow  = say.Error("manage.body_late")
)

// maxBody is far more than any configuration that a person writes.
const maxBody = 1 << 20

// ReadBody returns the body of a request to the management API. If it does not read the
// body to its end, the connection is closed after the reply. Otherwise the rest would be
// taken for another request.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, unread(w, http.StatusRequestEntityTooLarge, ErrBodyTooLarge)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, unread(w, http.StatusRequestTimeout, ErrBodyTooSlow)
	case err != nil:
		return nil, BadInput("body", "manage.body_unread")
	case len(body) > maxBody:
		return nil, unread(w, http.StatusRequestEntityTooLarge, ErrBodyTooLarge)
	}
	return body, nil
}

func unread(w http.ResponseWriter, status int, cause error) error {
	w.Header().Set("Connection", "close")
	return &RequestError{Status: status, Why: say.From(cause), cause: cause}
}

// NoOperation is the message of a reply to a path that has no route.
func NoOperation(r *http.Request) say.Sentence {
	return say.New("manage.no_operation", "operation", Shorten(r.Method+" "+r.URL.Path))
}

// NoMethod is the message of a reply to a path that has routes for other methods only.
func NoMethod(r *http.Request, allow string) say.Sentence {
	return say.New("manage.no_method", "method", Shorten(r.Method), "allowed", allow)
}

// Time formats a time as replies have it: in UTC, with milliseconds.
func Time(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// TimeOrNil is Time for an event that may not have happened yet.
func TimeOrNil(t time.Time) *string {
	if t.IsZero() {
		return nil
	}
	text := Time(t)
	return &text
}
