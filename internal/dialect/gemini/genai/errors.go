package genai

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ErrorBody is the body of an error, in the shape of Google's APIs.
type ErrorBody struct {
	Error ErrorValue `json:"error"`
}

// ErrorValue describes the fault.
type ErrorValue struct {
	Code    int         `json:"code"`
	Message string      `json:"message"`
	Status  string      `json:"status"`
	Details []ErrorInfo `json:"details"`
}

// ErrorInfo has the code of the unified API as the reason.
type ErrorInfo struct {
	Type   string `json:"@type" const:"type.googleapis.com/google.rpc.ErrorInfo"`
	Reason string `json:"reason"`
	Domain string `json:"domain" const:"patchbay"`
}

// NotFound says in the words of Google's API that there is no such model.
func NotFound(model string) *schema.Error { return schema.ModelNotFound("call.no_model_gemini", model) }

// Error writes the body of an error.
func Error(known *schema.Error, _ string) []byte {
	known = known.In("call.too_long_gemini")
	status := known.HTTPStatus()
	var w jsonwrite.Writer
	w.Open(`{"error":{"code":`).Int(int64(status))
	w.Name("message").Text([]byte(known.Message))
	w.Name("status").Plain(statusName(status))
	w.Open(`"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":`).Text([]byte(known.Code))
	w.Close(`,"domain":"patchbay"}]}}`)
	return w.Out
}

// statusName returns the name that Google's APIs have for a status of HTTP.
func statusName(status int) string {
	if name := statusNames[status]; name != "" {
		return name
	}
	if status < http.StatusInternalServerError {
		return "INVALID_ARGUMENT"
	}
	return "INTERNAL"
}

// statusNames are the names of some statuses.
var statusNames = map[int]string{
	http.StatusUnauthorized: "UNAUTHENTICATED", http.StatusForbidden: "PERMISSION_DENIED",
	http.StatusNotFound: "NOT_FOUND", http.StatusTooManyRequests: "RESOURCE_EXHAUSTED",
	http.StatusServiceUnavailable: "UNAVAILABLE", http.StatusBadGateway: "UNAVAILABLE",
	http.StatusGatewayTimeout: "DEADLINE_EXCEEDED",
}
