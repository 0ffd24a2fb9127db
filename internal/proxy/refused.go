package proxy

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// refused is a response with an error status.
type refused struct {
	*dialect.Failure
	retryAfter time.Duration
}

// maxErrorBody is how much of an error reply is read; its text is short.
const maxErrorBody = 64 << 10

// readRefusal reads a response whose status is no success.
func (r *reply) readRefusal() error {
	status := r.from.Status
	if status < 400 || status > 599 {
		// Redirects are not followed: the key must not go where a backend points.
		return fmt.Errorf("%w: status %d", dialect.ErrInvalid, status)
	}
	retryAfter := parseRetryAfter(r.from.Header, time.Now())
	// A body that cannot be read whole still leaves the status to report.
	r.body = r.body[:0]
	_ = r.readBody(maxErrorBody)
	text := decompressed(r.body, encodingOf(r.from.Header("Content-Encoding")))
	return &refused{Failure: dialect.ReadFailure(status, text), retryAfter: retryAfter}
}

// encodingOf reads how a body is compressed; empty means that it is not.
func encodingOf(field string) string {
	if strings.EqualFold(field, "identity") {
		return ""
	}
	return strings.ToLower(field)
}

// decompressed returns what an error says that came compressed, unasked. Nothing
// depends on it, so the beginning is enough.
func decompressed(body []byte, encoding string) []byte {
	switch encoding {
	case "":
		return body
	case "gzip", "x-gzip":
		from, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return body // it only says so
		}
		text, _ := io.ReadAll(io.LimitReader(from, maxErrorBody))
		return text
	}
	return []byte("(a compressed text)")
}

// classifyStatus decides what an error status means.
func (a *attempt) classifyStatus(refusal *refused) *fault {
	status := refusal.Status
	err := a.upstream(fmt.Sprintf("The backend answered with status %d", status), refusal.Failure)
	switch {
	case isLoop(refusal.Failure):
		err.Code, err.NoRetry = schema.CodeLoopDetected, true
		return neutralFault(err)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		// The caller can neither see nor mend the credential that was refused.
		err.Message = "The backend refused the gateway's credentials."
		err.Code = schema.CodeUpstreamAuth
		return neutralFault(err)
	case status == http.StatusTooManyRequests:
		err.Message = a.withReason("The backend's own rate limit was reached", refusal.Failure)
		err.Type, err.Code = schema.TypeRateLimit, schema.CodeUpstreamRateLimit
		err.RetryAfter = max(refusal.retryAfter, time.Second)
		return &fault{err: err, outcome: breaker.Cancelled, elsewhere: true}
	case status < 500:
		err.Type, err.Status = schema.TypeInvalidRequest, status
		a.addRemedy(err)
		return neutralFault(err)
	}
	err.Status = status
	err.RetryAfter = refusal.retryAfter
	if status == http.StatusServiceUnavailable {
		err.RetryAfter = max(refusal.retryAfter, time.Second)
	}
	switch a.instance.Kind.Meaning(refusal.Failure) {
	case dialect.RequestFault:
		return requestFault(err)
	case dialect.Overload:
		return overloaded(err, refusal.retryAfter)
	}
	return &fault{err: err, outcome: breaker.Failure, elsewhere: failsOver(status)}
}

// classifyInside decides what an error means that came inside an answer which
// began as a success.
func (a *attempt) classifyInside(failure *dialect.Failure) *fault {
	err := a.upstream("The backend reported an error in its answer", failure)
	switch a.instance.Kind.Meaning(failure) {
	case dialect.RequestFault:
		return requestFault(err)
	case dialect.Overload:
		return overloaded(err, 0)
	}
	return backendFault(err)
}

// requestFault is what a backend says against the request itself, whichever status
// it chose for that: another instance would say the same.
func requestFault(err *schema.Error) *fault {
	err.Type, err.Status, err.RetryAfter = schema.TypeInvalidRequest, http.StatusBadRequest, 0
	return neutralFault(err)
}

// The time for which an instance that has too much to do is left alone: as long
// as it asks for, within bounds.
const (
	shortestOverload = time.Second
	longestOverload  = 30 * time.Second
)

// overloaded is what a backend says that is well and has too much to do. Like a
// rate limit, it counts neither for nor against the instance.
func overloaded(err *schema.Error, asked time.Duration) *fault {
	wait := min(max(asked, shortestOverload), longestOverload)
	err.RetryAfter = max(err.RetryAfter, wait)
	return &fault{err: err, outcome: breaker.Cancelled, elsewhere: true, overload: wait}
}

// wrongCount is an answer with another number of parts than were asked for.
func wrongCount(count *dialect.CountError) *fault {
	text := count.Error()
	err := apiError(schema.CodeUpstreamError, strings.ToUpper(text[:1])+text[1:]+".")
	if count.Harmless {
		return neutralFault(err)
	}
	return backendFault(err)
}

// failsOver lists the statuses that another instance may not answer with.
func failsOver(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// upstream makes the error that passes on what a backend said. The message is
// given without its full stop.
func (a *attempt) upstream(message string, f *dialect.Failure) *schema.Error {
	err := apiError(schema.CodeUpstreamError, a.withReason(message, f))
	details := map[string]any{}
	if f.Status != http.StatusOK {
		details["upstream_status"] = f.Status
	}
	if text := a.instance.Target.Clean(f.Message); text != "" {
		details["upstream_message"] = text
	}
	err.Details = details
	return err
}

// withReason adds the backend's own reason to a message: many clients show nothing
// of an error but that.
func (a *attempt) withReason(message string, f *dialect.Failure) string {
	if reason := a.instance.Target.Reason(f.Message); reason != "" {
		return message + ": " + reason
	}
	return message + "."
}

// addRemedy tells a caller whose token ids a backend did not take, perhaps because
// of that, what to do. Its client may have sent them without being asked to.
func (a *attempt) addRemedy(err *schema.Error) {
	if a.req.Service == schema.Embedding && a.req.HasTokenIDs() {
		err.Message = strings.TrimSuffix(err.Message, ".") + ". The input is token ids, which this backend may not take. " + dialect.TokenIDsRemedy
	}
}

// parseRetryAfter reads the wait that a backend asks for: in the precise form
// that some send, in seconds, or as a date.
func parseRetryAfter(header func(string) string, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(header("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	value := strings.TrimSpace(header("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds > 0 && seconds < 1e9 {
		return time.Duration(seconds * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return at.Sub(now)
	}
	return 0
}
