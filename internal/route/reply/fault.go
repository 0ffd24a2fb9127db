package reply

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/resume"
)

// Fault is why an attempt failed.
type Fault struct {
	Err      *schema.Error   // the error for the caller
	Outcome  breaker.Outcome // how the attempt counts for the instance's breaker
	Failover bool            // whether another instance may do better
	TooLong  bool            // whether the request is too long for the model
	Unsent   bool            // whether the instance did not get the request
	Unasked  bool            // whether no call was made, through no fault of the instance
	Ending   Ending          // whether the call may have ended the backend
	Diverged bool            // whether the instance began another answer than the one to go on with
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
		return c.markTooLong(c.classifyStatus(status), status.Failure)
	case errors.As(err, &failure):
		return c.markTooLong(c.classifyReported(failure), failure)
	case errors.As(err, &count):
		return wrongCount(count)
	case errors.As(err, &unusable):
		known = APIError(schema.CodeUpstreamError, say.New("call.not_understood_why", "why", unusable.reason))
		known.Details = unusable.details
		return backendFault(known)
	case errors.Is(err, resume.ErrDiverged):
		diverged := neutralFault(APIError(schema.CodeUpstreamTruncated, say.New("call.stream_broke")))
		diverged.Diverged = true
		return diverged
	case errors.Is(err, dialect.ErrFormat):
		said := say.New("call.other_form")
		if reason := reasonIn(err); reason != "" {
			said = say.New("call.other_form_why", "why", reason)
		}
		return neutralFault(APIError(schema.CodeUpstreamError, said))
	case errors.Is(err, errReplyTooLarge):
		return neutralFault(APIError(schema.CodeUpstreamError,
			say.New("call.answer_too_large", "size", maxReply>>20)))
	case errors.Is(err, transport.ErrInvalidCall):
		return neutralFault(APIError(schema.CodeInternal, say.New("call.not_put")))
	case errors.Is(err, transport.ErrTimeout):
		return backendFault(wireError(schema.CodeUpstreamTimeout, say.New("call.timeout"), err))
	case errors.Is(err, dialect.ErrTruncated):
		return backendFault(APIError(schema.CodeUpstreamTruncated,
			say.New("call.stream_ended")))
	case errors.Is(err, transport.ErrConnect):
		said := say.New("call.unreached", "cause", transport.CauseOf(err).Said())
		return connectionFault(schema.CodeUpstreamError, said, err)
	case errors.Is(err, transport.ErrProtocol):
		return backendFault(wireError(schema.CodeUpstreamError, say.New("call.not_understood"), err))
	case errors.Is(err, dialect.ErrInvalid), errors.Is(err, dialect.ErrEventTooLarge):
		return backendFault(APIError(schema.CodeUpstreamError, say.New("call.not_understood")))
	}
	if begun {
		return connectionFault(schema.CodeUpstreamTruncated, say.New("call.stream_broke"), err)
	}
	failed := connectionFault(schema.CodeUpstreamError, say.New("call.broke"), err)
	failed.NoteEnding()
	return failed
}

// markTooLong notes that a backend refused the request because it is too long. The
// backend is well, whatever its status, and so are the others. The caller gets the words of
// its API for that, with the backend's figures or else those that are known here.
func (c Classifier) markTooLong(f *Fault, failure *dialect.Failure) *Fault {
	if f.Err.Code != schema.CodeUpstreamError || !failure.TooLong() {
		return f
	}
	var tokens int64
	if c.Request != nil {
		prompt, _ := estimate.PromptOf(c.Request, nil, false)
		tokens = prompt.Likely
	}
	told, window := lengths(failure.Message)
	if known := c.Instance.Sizes().Window; known > 0 {
		window = known
	}
	if told > window {
		tokens = told
	}
	err := f.Err
	if window > 0 {
		err.Tokens, err.Window = max(tokens, window+1), window
		err.Reword("call.too_long", "tokens", err.Tokens, "window", window)
	}
	err.Code, err.Type, err.Status, err.RetryAfter, err.NoRetry = schema.CodeContextLength, schema.TypeInvalidRequest,
		http.StatusBadRequest, 0, true
	return &Fault{Err: err, Outcome: breaker.Cancelled, TooLong: true}
}

// connectionFault is the fault of a connection that could not be made or that
// broke. The breaker distinguishes an address without a listener from a backend
// that broke the connection.
func connectionFault(code string, said say.Sentence, err error) *Fault {
	f := backendFault(wireError(code, said, err))
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
func wireError(code string, said say.Sentence, err error) *schema.Error {
	known := APIError(code, said)
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
	_, reason, _ := strings.Cut(err.Error(), dialect.ErrFormat.Error()+": ")
	return reason
}

// APIError returns an error that is the fault of neither the request nor its caller.
func APIError(code string, said say.Sentence) *schema.Error {
	known := schema.NewError(code, said)
	known.Type = schema.TypeAPI
	return known
}

// NoMemory says that too little memory for bodies is left for an answer of a size;
// most is the limit of a caller.
func NoMemory(verdict memory.Verdict, size, most int64) *schema.Error {
	known := schema.CodedError(schema.CodeOverloaded, "call.no_memory_answer")
	known.RetryAfter = time.Second
	switch {
	case size > most:
		known.Reword("call.answer_memory", "size", most)
		known.NoRetry = true
	case verdict == memory.ShareUsed:
		known.Reword("call.answer_share")
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
			return unusable("answer.redirect", "status", status)
		}
		return unusable("answer.status", "status", status)
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
	reason  say.Sentence
	details map[string]any
}

func (e *unusableError) Error() string { return dialect.ErrInvalid.Error() + ": " + e.reason.String() }
func (e *unusableError) Unwrap() error { return dialect.ErrInvalid }

// unusable returns the error of a response that its status or encoding rules out.
func unusable(code say.Code, what string, value any) error {
	reason := say.New(code, what, value)
	return &unusableError{reason, map[string]any{"upstream_" + what: value, "reason": reason.String()}}
}

func unusableEncoding(encoding string) error {
	switch encoding {
	case "gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress":
	default:
		encoding = "unknown"
	}
	return unusable("answer.compressed", "encoding", encoding)
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
	err := c.upstreamError("call.status", answer.Failure)
	switch {
	case isLoop(answer.Failure):
		err.Code, err.NoRetry = schema.CodeLoopDetected, true
		return neutralFault(err)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		// The refused credential belongs to the gateway: the caller can neither see nor
		// change it.
		err.Reword("call.credentials")
		err.Code = schema.CodeUpstreamAuth
		return neutralFault(err)
	case status == http.StatusTooManyRequests:
		c.sayReason(err, "call.their_limit", answer.Failure)
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
	return c.byMeaning(c.upstreamError("call.reported", failure), failure, 0)
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
	err := APIError(schema.CodeUpstreamError, count.Said())
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

// upstreamError returns the error that passes on the words of a backend.
func (c Classifier) upstreamError(code say.Code, f *dialect.Failure) *schema.Error {
	err := APIError(schema.CodeUpstreamError, say.Sentence{})
	c.sayReason(err, code, f)
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

// sayReason says the sentence of a code, with the backend's own reason if it gave one,
// because many clients show only the message of an error.
func (c Classifier) sayReason(err *schema.Error, code say.Code, f *dialect.Failure) {
	values := []any{}
	if code == "call.status" {
		values = append(values, "status", f.Status)
	}
	if reason := c.Instance.Target.Reason(f.Message); reason != "" {
		code, values = code+"_said", append(values, "words", reason)
	}
	err.Reword(code, values...)
}

// addTokenIDHint tells a caller who sent token ids to a backend that refused the
// request how to send text instead. Some client libraries send token ids by default.
func (c Classifier) addTokenIDHint(err *schema.Error) {
	if c.Request.Service == schema.Embedding && c.Request.HasTokenIDs() {
		said := err.Said
		said.Code = "call.token_ids_plain"
		if words, has := said.Values["words"]; has {
			said = say.New("call.token_ids", "status", said.Values["status"], "words", strings.TrimSuffix(words, "."))
		}
		err.Said, err.Message = said, said.String()
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
