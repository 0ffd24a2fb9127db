package proxy

import (
	"fmt"
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

// classifyStatus decides what an error status means.
func (r *Reply) classifyStatus(refusal *refused) *fault {
	status := refusal.Status
	err := r.upstream(fmt.Sprintf("The backend answered with status %d", status), refusal.Failure)
	switch {
	case isLoop(refusal.Failure):
		err.Code, err.NoRetry = schema.CodeLoopDetected, true
		return unserved(err)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		// The caller can neither see nor mend the credential that was refused.
		err.Message = "The backend refused the gateway's credentials."
		err.Code = schema.CodeUpstreamAuth
		return unserved(err)
	case status == http.StatusTooManyRequests:
		err.Message = r.withReason("The backend's own rate limit was reached", refusal.Failure)
		err.Type, err.Code = schema.TypeRateLimit, schema.CodeUpstreamRateLimit
		err.RetryAfter = max(refusal.retryAfter, time.Second)
		return &fault{err: err, outcome: breaker.Cancelled, elsewhere: true}
	case status < 500:
		err.Type, err.Status = schema.TypeInvalidRequest, status
		r.addRemedy(err)
		return unserved(err)
	}
	err.Status = status
	err.RetryAfter = refusal.retryAfter
	if status == http.StatusServiceUnavailable {
		err.RetryAfter = max(refusal.retryAfter, time.Second)
	}
	switch r.Instance.Kind.Meaning(refusal.Failure) {
	case dialect.RequestFault:
		return requestFault(err)
	case dialect.Overload:
		return overloaded(err, refusal.retryAfter)
	}
	return &fault{err: err, outcome: breaker.Failure, elsewhere: failsOver(status)}
}

// classifyInside decides what an error means that came inside an answer which
// began as a success.
func (r *Reply) classifyInside(failure *dialect.Failure) *fault {
	err := r.upstream("The backend reported an error in its answer", failure)
	switch r.Instance.Kind.Meaning(failure) {
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
	return unserved(err)
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
		return unserved(err)
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
func (r *Reply) upstream(message string, f *dialect.Failure) *schema.Error {
	err := apiError(schema.CodeUpstreamError, r.withReason(message, f))
	details := map[string]any{}
	if f.Status != http.StatusOK {
		details["upstream_status"] = f.Status
	}
	if text := r.Instance.Target.Clean(f.Message); text != "" {
		details["upstream_message"] = text
	}
	err.Details = details
	return err
}

// withReason adds the backend's own reason to a message: many clients show nothing
// of an error but that.
func (r *Reply) withReason(message string, f *dialect.Failure) string {
	if reason := r.Instance.Target.Reason(f.Message); reason != "" {
		return message + ": " + reason
	}
	return message + "."
}

// addRemedy tells a caller whose token ids a backend did not take, perhaps because
// of that, what to do. Its client may have sent them without being asked to.
func (r *Reply) addRemedy(err *schema.Error) {
	if r.req.Service == schema.Embedding && r.req.HasTokenIDs() {
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
