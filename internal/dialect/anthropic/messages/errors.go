package messages

import (
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ErrorBody is the body of an error in the Messages API. Code, param and details come
// from the unified error.
type ErrorBody struct {
	Type      string     `json:"type" const:"error"`
	Error     ErrorValue `json:"error"`
	RequestID string     `json:"request_id"`
}

// ErrorValue describes the fault.
type ErrorValue struct {
	Type    ErrorType `json:"type"`
	Message string    `json:"message"`
	Code    string    `json:"code"`
	Param   *string   `json:"param,omitzero"`
	Details any       `json:"details,omitzero"`
}

// ErrorType is the type of an error of the API.
type ErrorType string

// Names returns all types.
func (ErrorType) Names() []string {
	return []string{"invalid_request_error", "authentication_error", "billing_error", "permission_error",
		"not_found_error", "request_too_large", "rate_limit_error", "overloaded_error", "api_error"}
}

// Error writes the body of an error.
func Error(known *schema.Error, requestID string) []byte {
	known = known.In("call.too_long_messages")
	body := ErrorBody{
		Type: "error", RequestID: requestID,
		Error: ErrorValue{Type: errorType(known), Message: known.Message, Code: known.Code,
			Param: known.Param, Details: known.Details},
	}
	encoded, err := json.Marshal(body, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil { // the details are the only part that can be more than text
		plain := *known
		plain.Details = nil
		return Error(&plain, requestID)
	}
	return encoded
}

// ofRuns begins the codes of errors that end the run of an agent.
const ofRuns = "run_"

// errorType returns the type of an error. Claude Code sends a call that is invalid five times
// more, each time with fewer features; it shows an error about money at once.
func errorType(known *schema.Error) ErrorType {
	if strings.HasPrefix(known.Code, ofRuns) {
		return "billing_error"
	}
	status := known.HTTPStatus()
	if kind := errorTypes[status]; kind != "" {
		return kind
	}
	if status < http.StatusInternalServerError {
		return "invalid_request_error"
	}
	return "api_error"
}

// errorTypes are the types that errors of some statuses have.
var errorTypes = map[int]ErrorType{
	http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
	http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests: "rate_limit_error", http.StatusServiceUnavailable: "overloaded_error",
	statusOverloaded: "overloaded_error",
}

// statusOverloaded is the provider's own status for too much load.
const statusOverloaded = 529
