package schema

import "time"

// Error is the error body of the unified API: what a caller reads when a
// request was not answered. It carries no HTTP status; the surface that writes
// it knows which status its code has.
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

// Types of errors. Faults of the request use the first four, states of the
// gateway and of its backends the others.
const (
	TypeInvalidRequest     = "invalid_request_error"
	TypeAuthentication     = "authentication_error"
	TypePermission         = "permission_error"
	TypeNotFound           = "not_found_error"
	TypeAPI                = "api_error"
	TypeRateLimit          = "rate_limit_exceeded"
	TypeServiceUnavailable = "service_unavailable"
	TypeCircuitBreakerOpen = "circuit_breaker_open"
	TypeInternal           = "internal_error"
)

// Codes of errors: one for each cause that a program may want to tell apart.
const (
	CodeInvalidJSON        = "invalid_json"
	CodeInvalidValue       = "invalid_value"
	CodeMissingParameter   = "missing_parameter"
	CodeInvalidBody        = "invalid_body"
	CodeInvalidHTTP        = "invalid_http"
	CodeRequestTimeout     = "request_timeout"
	CodeRequestTooLarge    = "request_too_large"
	CodeInvalidAPIKey      = "invalid_api_key"
	CodeTooManyAttempts    = "too_many_failed_attempts"
	CodePermissionDenied   = "permission_denied"
	CodeUnknownEndpoint    = "unknown_endpoint"
	CodeModelNotFound      = "model_not_found"
	CodeMethodNotAllowed   = "method_not_allowed"
	CodeUnsupportedMedia   = "unsupported_media_type"
	CodeServiceUnavailable = "service_unavailable"
	CodeCircuitBreakerOpen = "circuit_breaker_open"
	CodeNoSlot             = "concurrency_limit_reached"
	CodeOverloaded         = "overloaded"
	CodeRateLimitExceeded  = "rate_limit_exceeded"
	CodeUpstreamError      = "upstream_error"
	CodeUpstreamAuth       = "upstream_auth_failed"
	CodeUpstreamRateLimit  = "upstream_rate_limited"
	CodeUpstreamTimeout    = "upstream_timeout"
	CodeUpstreamTruncated  = "upstream_stream_truncated"
	CodeLedgerUnavailable  = "quota_ledger_unavailable"
	CodeLoopDetected       = "loop_detected"
	CodeInternal           = "internal_error"
)

// InvalidValue says that a field of the request has a value it may not have.
func InvalidValue(param, message string) *Error {
	return &Error{Message: message, Type: TypeInvalidRequest, Param: &param, Code: CodeInvalidValue}
}

// MissingParameter says that a required field of the request is absent.
func MissingParameter(param string) *Error {
	return &Error{
		Message: "Missing required parameter: '" + param + "'.",
		Type:    TypeInvalidRequest,
		Param:   &param,
		Code:    CodeMissingParameter,
	}
}
