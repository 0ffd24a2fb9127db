package reply

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/breaker"
	"github.com/patchbay-ai/patchbay/internal/route/resume"
)

// Fault is why an attempt failed.
type Fault struct {
	Err      *schema.Error   // the error for the caller
	Outcome  breaker.Outcome // how the attempt counts for the instance's breaker
	Failover bool            // whether another instance may do better
	TooLong  bool            // whether the request is too long for the model
	Unsent   bool            // whether the instance did not get the request
	Ending   Ending          // whether the call may have ended the backend
	// Overload is how long the instance is avoided because it is overloaded.
	Overload time.Duration
}

// Classifier turns the errors of one attempt into faults.
type Classifier struct {
	Instance *backend.Instance
	Request  *schema.Request // nil once the request was returned to its owner
}

// Classify returns the fault for an error of a call, or of an answer that has
// begun.
func (c Classifier) Classify(err error, begun bool) *Fault {
	var known *schema.Error
	var status *statusError
	var failure *dialect.Failure
	var count *dialect.CountError
	var unusable *unusableError
	switch {
	case errors.As(err, &known): // the dialect cannot express the request
		return neutralFault(known)
	case errors.As(err, &status):
		return c.classifyStatus(status).markTooLong(status.Failure)
	case errors.As(err, &failure):
		return c.classifyReported(failure).markTooLong(failure)
	case errors.As(err, &count):
		return wrongCount(count)
	case errors.As(err, &unusable):
		known = APIError(schema.CodeUpstreamError, "The backend's answer could not be understood: "+unusable.reason+".")
		known.Details = unusable.details
		return backendFault(known)
	case errors.Is(err, resume.ErrDiverged):
		return neutralFault(APIError(schema.CodeUpstreamTruncated, streamBroke))
	case errors.Is(err, dialect.ErrFormat):
		return neutralFault(APIError(schema.CodeUpstreamError,
			"The backend's answer has another form than the one that was asked for"+reasonIn(err)+"."))
	case errors.Is(err, errReplyTooLarge):
		return neutralFault(APIError(schema.CodeUpstreamError,
			fmt.Sprintf("The backend's answer is larger than the %d MiB that the gateway takes in whole.",
				maxReply>>20)))
	case errors.Is(err, transport.ErrInvalidCall):
		return neutralFault(APIError(schema.CodeInternal, "The gateway could not put the request to the backend."))
	case errors.Is(err, transport.ErrTimeout):
		return backendFault(wireError(schema.CodeUpstreamTimeout, "The backend did not answer in time.", err))
	case errors.Is(err, dialect.ErrTruncated):
		return backendFault(APIError(schema.CodeUpstreamTruncated,
			"The backend's stream ended before the answer was complete."))
	case errors.Is(err, transport.ErrConnect):
		message := "The backend could not be reached: " + transport.CauseOf(err).Text() + "."
		return connectionFault(schema.CodeUpstreamError, message, err)
	case errors.Is(err, transport.ErrProtocol):
		return backendFault(wireError(schema.CodeUpstreamError, "The backend's answer could not be understood.", err))
	case errors.Is(err, dialect.ErrInvalid), errors.Is(err, dialect.ErrEventTooLarge):
		return backendFault(APIError(schema.CodeUpstreamError, "The backend's answer could not be understood."))
	}
	if begun {
		return connectionFault(schema.CodeUpstreamTruncated, streamBroke, err)
	}
	failed := connectionFault(schema.CodeUpstreamError, "The connection to the backend broke.", err)
	failed.NoteEnding()
	return failed
}

// markTooLong notes that a backend refused the request because it is too long. The
// backend is well, whatever its status, and so are the others.
func (f *Fault) markTooLong(failure *dialect.Failure) *Fault {
	if f.Outcome.Failed() || f.Failover || !failure.TooLong() {
		return f
	}
	f.TooLong = true
	return f
}

// streamBroke is the message for callers of an answer that broke off.
const streamBroke = "The backend's stream broke before the answer was complete."

// connectionFault is the fault of a connection that could not be made or that
// broke. The breaker distinguishes an address without a listener from a backend
// that broke the connection.
func connectionFault(code, message string, err error) *Fault {
	f := backendFault(wireError(code, message, err))
	switch transport.CauseOf(err) {
	case transport.CauseRefused, transport.CauseUnreachable:
		f.Outcome = breaker.Refused
	case transport.CauseReset, transport.CauseClosed:
		f.Outcome = breaker.Reset
	}
	return f
}

// NoteEnding notes that the call may have ended the backend if the connection broke. It is
// for calls without any content from a model.
func (f *Fault) NoteEnding() {
	if f.Outcome == breaker.Reset {
		f.Ending = BrokeOff
	}
}

// wireError returns an error of the connection to the backend. It names the cause,
// which contains no address.
func wireError(code, message string, err error) *schema.Error {
	known := APIError(code, message)
	if cause := transport.CauseOf(err); cause != transport.CauseNone {
		known.Cause = string(cause)
		known.Details = map[string]any{"cause": cause, "reason": cause.Text()}
	}
	return known
}

// backendFault is a failure of the instance that another one may not have.
func backendFault(err *schema.Error) *Fault {
	return &Fault{Err: err, Outcome: breaker.Failure, Failover: true}
}

// neutralFault is a fault that does not count against the instance and that every
// other instance would have as well.
func neutralFault(err *schema.Error) *Fault { return &Fault{Err: err, Outcome: breaker.Cancelled} }

// reasonIn returns the part of a dialect's error after the text of ErrFormat. The
// gateway wrote that text, not the backend, so it can be shown to callers.
func reasonIn(err error) string {
	_, reason, _ := strings.Cut(err.Error(), dialect.ErrFormat.Error())
	return reason
}

// APIError returns an error that is the fault of neither the request nor its caller.
func APIError(code, message string) *schema.Error {
	return &schema.Error{Message: message, Type: schema.TypeAPI, Code: code}
}

// NoMemory says that too little memory for bodies is left for an answer of a size;
// most is the limit of a caller.
func NoMemory(verdict memory.Verdict, size, most int64) *schema.Error {
	known := &schema.Error{
		Message: "The gateway has no memory left for the backend's answer; try again shortly.",
		Type:    schema.TypeServiceUnavailable, Code: schema.CodeOverloaded, RetryAfter: time.Second,
	}
	switch {
	case size > most:
		known.Message = fmt.Sprintf("The backend's answer takes more memory than the %d bytes "+
			"that one caller may have for bodies (a third of limits.memory).", most)
		known.NoRetry = true
	case verdict == memory.ShareUsed:
		known.Message = "This caller's requests have as much of the gateway's memory as one caller may have now, " +
			"and the backend's answer needs more; try again when some of them have ended."
	}
	return known
}

// StatusError returns the error for an answer with a status.
func StatusError(status int, body []byte) error {
	return &statusError{Failure: dialect.ReadFailure(status, body)}
}

// statusError is a response with an error status.
type statusError struct {
	*dialect.Failure
	retryAfter time.Duration
}

// maxErrorBody is how much of an error response is read; error texts are short.
const maxErrorBody = 64 << 10

// readErrorStatus returns the error for a response with another status than 2xx.
func (r *Reply) readErrorStatus() error {
	status := r.from.Status
	if status < 400 || status > 599 {
		// Redirects are not followed: the instance's key must not be sent to an
		// address that a backend chooses.
		if status >= 300 && status < 400 {
			return unusableStatus(status, "and redirects are not followed")
		}
		return unusableStatus(status, "which is not the status of an answer")
	}
	retryAfter := parseRetryAfter(r.from.Header, time.Now())
	// A body that cannot be read whole still leaves the status to report.
	r.body = r.body[:0]
	_ = r.readBody(maxErrorBody)
	text := decompressText(r.body, encodingOf(r.from.Encoding))
	return &statusError{Failure: dialect.ReadFailure(status, text), retryAfter: retryAfter}
}

// unusableError is a response that its head alone rules out. The gateway wrote its text,
// and its details contain nothing that the backend chose freely: callers see both.
type unusableError struct {
	reason  string
	details map[string]any
}

func (e *unusableError) Error() string { return dialect.ErrInvalid.Error() + ": " + e.reason }
func (e *unusableError) Unwrap() error { return dialect.ErrInvalid }

func unusableStatus(status int, why string) error {
	reason := fmt.Sprintf("its status is %d, %s", status, why)
	return &unusableError{reason, map[string]any{"upstream_status": status, "reason": reason}}
}

func unusableEncoding(encoding string) error {
	switch encoding {
	case "gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress":
	default:
		encoding = "unknown"
	}
	reason := "it is compressed (" + encoding + "), which was not asked for"
	return &unusableError{reason, map[string]any{"upstream_encoding": encoding, "reason": reason}}
}

// encodingOf returns the compression that a Content-Encoding field names, in lower
// case; empty means that the body is not compressed.
func encodingOf(field string) string {
	if strings.EqualFold(field, "identity") {
		return ""
	}
	return strings.ToLower(field)
}

// decompressText returns the text of an error that a backend sent compressed,
// though the gateway did not ask for that. Errors while decompressing are ignored,
// because only people read the text.
func decompressText(body []byte, encoding string) []byte {
	switch encoding {
	case "":
		return body
	case "gzip", "x-gzip":
		from, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return body // Content-Encoding is wrong
		}
		text, _ := io.ReadAll(io.LimitReader(from, maxErrorBody))
		return text
	}
	return []byte("(a compressed text)")
}

// classifyStatus decides the meaning of an error status.
func (c Classifier) classifyStatus(answer *statusError) *Fault {
	status := answer.Status
	err := c.upstreamError(fmt.Sprintf("The backend answered with status %d", status), answer.Failure)
	switch {
	case isLoop(answer.Failure):
		err.Code, err.NoRetry = schema.CodeLoopDetected, true
		return neutralFault(err)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		// The refused credential belongs to the gateway: the caller can neither see nor
		// change it.
		err.Message = "The backend refused the gateway's credentials."
		err.Code = schema.CodeUpstreamAuth
		return neutralFault(err)
	case status == http.StatusTooManyRequests:
		err.Message = c.withReason("The backend's own rate limit was reached", answer.Failure)
		err.Type, err.Code = schema.TypeRateLimit, schema.CodeUpstreamRateLimit
		err.RetryAfter = max(answer.retryAfter, time.Second)
		return &Fault{Err: err, Outcome: breaker.Cancelled, Failover: true}
	case status < 500:
		err.Type, err.Status = schema.TypeInvalidRequest, status
		c.addTokenIDHint(err)
		return neutralFault(err)
	}
	err.Status = status
	err.RetryAfter = answer.retryAfter
	if status == http.StatusServiceUnavailable {
		err.RetryAfter = max(answer.retryAfter, time.Second)
	}
	failed := c.byMeaning(err, answer.Failure, answer.retryAfter)
	if failed.Ending == SaidError {
		failed.Failover = failsOver(status)
		if status != http.StatusInternalServerError {
			failed.Ending = NoEnding
		}
	}
	return failed
}

// classifyReported decides the meaning of an error that a backend reported inside
// an answer with a successful status.
func (c Classifier) classifyReported(failure *dialect.Failure) *Fault {
	return c.byMeaning(c.upstreamError("The backend reported an error in its answer", failure), failure, 0)
}

// byMeaning returns the fault of an error by its meaning at backends of this kind. An
// overloaded one may have asked to be avoided for a time.
func (c Classifier) byMeaning(err *schema.Error, failure *dialect.Failure, asked time.Duration) *Fault {
	switch c.Instance.Kind.Meaning(failure) {
	case dialect.RequestFault:
		// Whichever status the backend chose for it: another instance would answer the same.
		err.Type, err.Status, err.RetryAfter = schema.TypeInvalidRequest, http.StatusBadRequest, 0
		return neutralFault(err)
	case dialect.Overload:
		return overloaded(err, asked)
	case dialect.EngineDeath:
		return &Fault{Err: err, Outcome: breaker.Failure, Failover: true, Ending: SaidDeath}
	case dialect.BackendFault:
	}
	return &Fault{Err: err, Outcome: breaker.Errored, Failover: true, Ending: SaidError}
}

// An overloaded instance is avoided for as long as its Retry-After asks, within
// these bounds.
const (
	shortestOverload = time.Second
	longestOverload  = 30 * time.Second
)

// overloaded is the fault of a backend that works and is overloaded. Like a rate
// limit, it counts neither for nor against the instance.
func overloaded(err *schema.Error, asked time.Duration) *Fault {
	wait := min(max(asked, shortestOverload), longestOverload)
	err.RetryAfter = max(err.RetryAfter, wait)
	return &Fault{Err: err, Outcome: breaker.Cancelled, Failover: true, Overload: wait}
}

// wrongCount is the fault of an answer with another number of results than were
// asked for.
func wrongCount(count *dialect.CountError) *Fault {
	text := count.Error()
	err := APIError(schema.CodeUpstreamError, strings.ToUpper(text[:1])+text[1:]+".")
	if count.Harmless {
		return neutralFault(err)
	}
	return backendFault(err)
}

// failsOver reports whether a request that was answered with the status is tried at
// another instance.
func failsOver(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return true
	}
	return false
}

// upstreamError returns the error that passes on the words of a backend. The
// message is given without its full stop.
func (c Classifier) upstreamError(message string, f *dialect.Failure) *schema.Error {
	err := APIError(schema.CodeUpstreamError, c.withReason(message, f))
	details := map[string]any{}
	if f.Status != http.StatusOK {
		details["upstream_status"] = f.Status
	}
	if text := c.Instance.Target.Clean(f.Message); text != "" {
		details["upstream_message"] = text
	}
	if f.DetailCode != "" {
		details["error_code"] = f.DetailCode
	}
	err.Details = details
	return err
}

// withReason adds the backend's own reason to a message, because many clients show
// only the message of an error.
func (c Classifier) withReason(message string, f *dialect.Failure) string {
	if reason := c.Instance.Target.Reason(f.Message); reason != "" {
		return message + ": " + reason
	}
	return message + "."
}

// addTokenIDHint tells a caller who sent token ids to a backend that refused the
// request how to send text instead. Some client libraries send token ids by default.
func (c Classifier) addTokenIDHint(err *schema.Error) {
	if c.Request.Service == schema.Embedding && c.Request.HasTokenIDs() {
		err.Message = strings.TrimSuffix(err.Message, ".") +
			". The input is token ids, which this backend may not take. " + dialect.TokenIDsHint
	}
}

// parseRetryAfter returns the wait that a backend asks for: in milliseconds, which
// some send, in seconds, or as a date. It returns 0 where the backend asks for none.
func parseRetryAfter(header func(string) string, now time.Time) time.Duration {
	const longest = 1e9 // seconds, which a time.Duration can hold; callers are told much less
	if ms, err := strconv.ParseFloat(header("Retry-After-Ms"), 64); err == nil && ms > 0 && !math.IsInf(ms, 0) {
		return time.Duration(min(ms/1000, longest) * float64(time.Second))
	}
	value := strings.TrimSpace(header("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 && !math.IsInf(seconds, 0) {
		return time.Duration(min(seconds, longest) * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}

// Ending is how a call failed that may have ended its backend.
type Ending uint8

const (
	// NoEnding means that the failure says nothing about that.
	NoEnding Ending = iota
	// BrokeOff means that the connection broke before any content from a model.
	BrokeOff
	// SaidError means that the backend reported an error of its own. Some engines say
	// nothing after that.
	SaidError
	// SaidDeath means that the backend reported the end of its engine, after which it stops
	// listening.
	SaidDeath
)

// isLoop reports whether a backend is a gateway that found a loop.
func isLoop(f *dialect.Failure) bool {
	return f.Status == http.StatusLoopDetected && f.Code == schema.CodeLoopDetected
}

// Reason returns why an attempt failed, if a fallback can help.
func (f *Fault) Reason() (naming.Reason, bool) {
	switch {
	case f.TooLong:
		return naming.Context, true
	case !f.Failover:
		return 0, false
	case f.Outcome == breaker.Cancelled:
		return naming.Overloaded, true
	}
	return naming.Unavailable, true
}
