package schema

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Error is the error body of the unified API: a caller reads it when a request was not
// answered.
type Error struct {
	// Message is the text of Said.
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
	Details any     `json:"details,omitzero"`

	// Said is the message as a code and values, for people who look after the gateway.
	Said say.Sentence `json:"-"`
	// Status is set only where a backend decided it; zero means that Code does.
	Status int `json:"-"`
	// RetryAfter tells the caller when to come back; zero means that nothing is known.
	RetryAfter time.Duration `json:"-"`
	// Spread says that many callers may be told this wait at the same moment: each is
	// told a little more, and they do not come back together.
	Spread bool `json:"-"`
	// Cause is the stable word for why a backend could not be reached, for logs and
	// records; empty after other faults.
	Cause string `json:"-"`
	// Of names the owner of the limit or budget that refused the request, for records: key/…,
	// tenant/…, service/…, model/… or instances/… (the instances of a model), and a name;
	// empty where none did.
	Of string `json:"-"`
	// UnknownModel is the caller's name of a model that nobody serves; empty for all other
	// errors.
	UnknownModel string `json:"-"`
	// Tokens and Window are the length of a prompt that is too long for a context window, 0 if unknown.
	// Every API has words of its own for that.
	Tokens, Window int64 `json:"-"`
	// NoRetry tells clients that repeating the same request is pointless.
	NoRetry bool `json:"-"`
}

// Error makes an *Error an error; the text is the caller's message.
func (e *Error) Error() string { return e.Message }

// NewError returns the error of a code, with the type that the code has.
func NewError(code string, said say.Sentence) *Error {
	return &Error{Message: said.String(), Said: said, Type: classOf(code).Type, Code: code}
}

// CodedError is NewError with the sentence of a code and values.
func CodedError(code string, said say.Code, pairs ...any) *Error {
	return NewError(code, say.New(said, pairs...))
}

// ModelNotFound returns the error for a model that does not exist, in the words of an API.
func ModelNotFound(said say.Code, model string) *Error {
	known := CodedError(CodeModelNotFound, said, "model", model)
	known.NoRetry = true
	return known
}

// Reword replaces the message.
func (e *Error) Reword(code say.Code, pairs ...any) {
	e.Said = say.New(code, pairs...)
	e.Message = e.Said.String()
}

// In returns the error in the words of an API for a prompt that is too long: those of a code for a
// window that is known. Any other error is returned as it is.
func (e *Error) In(code say.Code) *Error {
	if e.Code != CodeContextLength || e.Window == 0 {
		return e
	}
	worded := *e
	worded.Reword(code, "tokens", e.Tokens, "window", e.Window)
	return &worded
}

// HTTPStatus returns the status of the answer with the error.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	return classOf(e.Code).Status
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

// InvalidValue says that a field of the request has a value it may not have, in a whole
// sentence.
func InvalidValue(param string, said say.Sentence) *Error {
	err := NewError(CodeInvalidValue, said)
	err.Param = &param
	return err
}

// Invalid says what is wrong with the value of a field of the request.
func Invalid(param string, fault say.Sentence) *Error {
	return InvalidValue(param, say.New("call.field", "field", param, "why", fault))
}

// BadField is Invalid with the sentence of a code and values.
func BadField(param string, fault say.Code, pairs ...any) *Error {
	return Invalid(param, say.New(fault, pairs...))
}

// MissingParameter says that a required field of the request is absent.
func MissingParameter(param string) *Error {
	err := CodedError(CodeMissingParameter, "call.missing", "field", param)
	err.Param = &param
	return err
}

// Hint adds a hint to an error of MissingParameter.
func (e *Error) Hint(hint say.Code) {
	e.Reword("call.missing_hint", "field", *e.Param, "hint", say.New(hint))
}

// Inside puts an error about a value of an element into the element at the given place.
func (e *Error) Inside(place string) *Error {
	if e.Param != nil && *e.Param != "" {
		place += "." + *e.Param
	}
	if e.Code == CodeMissingParameter {
		return MissingParameter(place)
	}
	placed := *e
	placed.Param = &place
	return &placed
}

// Within is Inside for an error of Invalid: its message names the value by its whole place.
func (e *Error) Within(place string) *Error {
	placed := e.Inside(place)
	if fault := e.Fault(); fault.Is() {
		placed.Reword("call.field", "field", *placed.Param, "why", fault)
	}
	return placed
}

// InsideElement is Inside for the element of a list at an index.
func (e *Error) InsideElement(list string, index int) *Error { return e.Inside(Element(list, index)) }

// WithinElement is Within for the element of a list at an index.
func (e *Error) WithinElement(list string, index int) *Error { return e.Within(Element(list, index)) }

// Element returns the place of the element of a list at an index.
func Element(list string, index int) string { return list + "[" + strconv.Itoa(index) + "]" }

// Fault returns what is wrong with the value, of an error of Invalid.
func (e *Error) Fault() say.Sentence { return e.Said.Inner["why"] }

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
	TypeInsufficientQuota  = "insufficient_quota"
)

// Codes of errors: one for each cause that a program may want to tell apart.
const (
	CodeInvalidJSON        = "invalid_json"
	CodeInvalidValue       = "invalid_value"
	CodeMissingParameter   = "missing_parameter"
	CodeMemberNotAllowed   = "member_not_allowed"
	CodeInvalidBody        = "invalid_body"
	CodeInvalidHTTP        = "invalid_http"
	CodeRequestTimeout     = "request_timeout"
	CodeRequestTooLarge    = "request_too_large"
	CodeInvalidAPIKey      = "invalid_api_key"
	CodeInvalidToken       = "invalid_token"
	CodeTooManyAttempts    = "too_many_failed_attempts"
	CodePermissionDenied   = "permission_denied"
	CodeUnknownEndpoint    = "unknown_endpoint"
	CodeModelNotFound      = "model_not_found"
	CodeResponseNotFound   = "response_not_found"
	CodePreviousNotFound   = "previous_response_not_found"
	CodeStorageFull        = "storage_full"
	CodeStorageUnavailable = "storage_unavailable"
	CodeMethodNotAllowed   = "method_not_allowed"
	CodeUnsupportedMedia   = "unsupported_media_type"
	CodeServiceUnavailable = "service_unavailable"
	CodeCircuitBreakerOpen = "circuit_breaker_open"
	CodeNoSlot             = "concurrency_limit_reached"
	CodeOverloaded         = "overloaded"
	CodeUploadsFull        = "uploads_full"
	CodeRateLimitExceeded  = "rate_limit_exceeded"
	CodeKeyRateLimited     = "key_rate_limited"
	CodeAuditRateLimited   = "audit_rate_limited"
	CodeBudgetExceeded     = "budget_exceeded"
	CodeBudgetReserved     = "budget_reserved"
	CodeContextLength      = "context_length_exceeded"
	CodeUpstreamError      = "upstream_error"
	CodeUpstreamAuth       = "upstream_auth_failed"
	CodeUpstreamRateLimit  = "upstream_rate_limited"
	CodeUpstreamTimeout    = "upstream_timeout"
	CodeUpstreamTruncated  = "upstream_stream_truncated"
	CodeLedgerUnavailable  = "quota_ledger_unavailable"
	CodeLoopDetected       = "loop_detected"
	CodeStopped            = "stopped_by_operator"
	CodeInternal           = "internal_error"
	// CodeCancelled is for logs and records of requests after their client
	// disconnected. It is never sent.
	CodeCancelled = "client_cancelled"
)

// StatusCancelled is the status in logs of a request after its client disconnected. It
// is never sent.
const StatusCancelled = 499

// Result is how a request ended, as it is counted and recorded.
type Result uint8

// The results. Results from ResultInvalid on are rejections: no backend saw the
// request. ResultOverloaded is counted as shed, not as rejected.
const (
	ResultSuccess Result = iota
	ResultFailed
	ResultTimedOut
	ResultBreakerOpen
	ResultInvalid
	ResultUnauthorized
	ResultForbidden
	ResultTooLarge
	ResultBodyTimeout
	ResultUnsupportedMedia
	ResultRateLimited
	ResultNoSlot
	ResultOverloaded

	// ResultCount sizes arrays that are indexed by Result.
	ResultCount = int(ResultOverloaded) + 1
)

var resultNames = [ResultCount]string{
	"success", "error", "timeout", "circuit_breaker", "invalid_request", "unauthorized", "forbidden", "too_large",
	"body_timeout", "unsupported_media", "rate_limit", "concurrency_limit", "overload",
}

// String returns the value that labels of metrics have for the result.
func (r Result) String() string { return resultNames[r] }

// Rejected reports whether the request was turned away before a backend saw it.
func (r Result) Rejected() bool { return r >= ResultInvalid }

// ErrorClass is the meaning of the code of an error.
type ErrorClass struct {
	Code, Type string
	// Status is the HTTP status, if no backend decided it.
	Status int
	Result Result
	// Stops reports whether the error ends calls that are under way, for an operator.
	Stops bool
}

// classes are the meanings of codes. A code that is not there is taken for CodeInternal.
var classes = map[string]ErrorClass{}

func init() { Declare(errorClasses[:]...) }

// Declare adds codes of errors. A wing calls it while it is initialized, for its own.
func Declare(list ...ErrorClass) {
	for _, class := range list {
		classes[class.Code] = class
	}
}

// errorClasses is the table of the core's errors: one row for each code.
var errorClasses = [...]ErrorClass{
	{CodeInternal, TypeInternal, http.StatusInternalServerError, ResultFailed, false},
	{CodeInvalidJSON, TypeInvalidRequest, http.StatusBadRequest, ResultInvalid, false},
	{CodeInvalidValue, TypeInvalidRequest, http.StatusBadRequest, ResultInvalid, false},
	{CodeMissingParameter, TypeInvalidRequest, http.StatusBadRequest, ResultInvalid, false},
	{CodeMemberNotAllowed, TypeInvalidRequest, http.StatusBadRequest, ResultInvalid, false},
	{CodeInvalidBody, TypeInvalidRequest, http.StatusBadRequest, ResultInvalid, false},
	{CodeInvalidHTTP, TypeInvalidRequest, http.StatusBadRequest, ResultInvalid, false},
	{CodeRequestTimeout, TypeInvalidRequest, http.StatusRequestTimeout, ResultBodyTimeout, false},
	{CodeRequestTooLarge, TypeInvalidRequest, http.StatusRequestEntityTooLarge, ResultTooLarge, false},
	{CodeInvalidAPIKey, TypeAuthentication, http.StatusUnauthorized, ResultUnauthorized, false},
	{CodeInvalidToken, TypeAuthentication, http.StatusUnauthorized, ResultUnauthorized, false},
	{CodeTooManyAttempts, TypeRateLimit, http.StatusTooManyRequests, ResultInvalid, false},
	{CodePermissionDenied, TypePermission, http.StatusForbidden, ResultForbidden, false},
	{CodeUnknownEndpoint, TypeNotFound, http.StatusNotFound, ResultInvalid, false},
	{CodeModelNotFound, TypeNotFound, http.StatusNotFound, ResultFailed, false},
	{CodeResponseNotFound, TypeNotFound, http.StatusNotFound, ResultInvalid, false},
	{CodeStorageFull, TypeServiceUnavailable, http.StatusInsufficientStorage, ResultOverloaded, false},
	{CodeStorageUnavailable, TypeServiceUnavailable, http.StatusServiceUnavailable, ResultFailed, false},
	{CodePreviousNotFound, TypeInvalidRequest, http.StatusBadRequest, ResultInvalid, false},
	{CodeMethodNotAllowed, TypeInvalidRequest, http.StatusMethodNotAllowed, ResultInvalid, false},
	{CodeUnsupportedMedia, TypeInvalidRequest, http.StatusUnsupportedMediaType, ResultUnsupportedMedia, false},
	{CodeServiceUnavailable, TypeServiceUnavailable, http.StatusServiceUnavailable, ResultFailed, false},
	{CodeCircuitBreakerOpen, TypeCircuitBreakerOpen, http.StatusServiceUnavailable, ResultBreakerOpen, false},
	{CodeNoSlot, TypeRateLimit, http.StatusTooManyRequests, ResultNoSlot, false},
	{CodeOverloaded, TypeServiceUnavailable, http.StatusServiceUnavailable, ResultOverloaded, false},
	{CodeUploadsFull, TypeServiceUnavailable, http.StatusServiceUnavailable, ResultOverloaded, false},
	{CodeRateLimitExceeded, TypeRateLimit, http.StatusTooManyRequests, ResultRateLimited, false},
	{CodeKeyRateLimited, TypeRateLimit, http.StatusTooManyRequests, ResultRateLimited, false},
	{CodeAuditRateLimited, TypeRateLimit, http.StatusTooManyRequests, ResultRateLimited, false},
	{CodeBudgetExceeded, TypeInsufficientQuota, http.StatusTooManyRequests, ResultRateLimited, false},
	{CodeBudgetReserved, TypeRateLimit, http.StatusTooManyRequests, ResultRateLimited, false},
	// 400 is the one status that agents neither try again nor replace by words of their own.
	{CodeContextLength, TypeInvalidRequest, http.StatusBadRequest, ResultFailed, false},
	{CodeUpstreamError, TypeAPI, http.StatusBadGateway, ResultFailed, false},
	{CodeUpstreamAuth, TypeAPI, http.StatusBadGateway, ResultFailed, false},
	{CodeUpstreamRateLimit, TypeRateLimit, http.StatusTooManyRequests, ResultFailed, false},
	{CodeUpstreamTimeout, TypeAPI, http.StatusGatewayTimeout, ResultTimedOut, false},
	{CodeUpstreamTruncated, TypeAPI, http.StatusBadGateway, ResultFailed, false},
	{CodeLedgerUnavailable, TypeServiceUnavailable, http.StatusServiceUnavailable, ResultFailed, false},
	{CodeStopped, TypeServiceUnavailable, http.StatusServiceUnavailable, ResultFailed, true},
	{CodeLoopDetected, TypeAPI, http.StatusLoopDetected, ResultFailed, false},
	{CodeCancelled, TypeAPI, StatusCancelled, ResultFailed, false},
}

// ErrorClasses returns the meanings of all codes.
func ErrorClasses() []ErrorClass { return slices.Collect(maps.Values(classes)) }

// classOf returns the meaning of a code. Only requests that fail ask for it.
func classOf(code string) ErrorClass {
	if class, has := classes[code]; has {
		return class
	}
	return classes[CodeInternal]
}

// Stops reports whether the error of a code ends calls that are under way, for an operator.
func Stops(code string) bool { return classOf(code).Stops }

// ResultOf returns how a request is counted that ended with the error of a code.
func ResultOf(code string) Result { return classOf(code).Result }
