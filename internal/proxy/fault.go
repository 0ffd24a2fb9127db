package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/adapter"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/transport"
)

// fault is why an attempt failed: what the caller is told, what it means for
// the instance, and whether another instance may do better.
type fault struct {
	err       *schema.Error
	outcome   breaker.Outcome
	elsewhere bool
}

// refused is a response with an error status.
type refused struct {
	*adapter.Failure
	retryAfter time.Duration
}

// classify turns what went wrong in an attempt or a stream into a fault.
func (r *Reply) classify(err error) *fault {
	var mistake *schema.Error
	var refusal *refused
	var failure *adapter.Failure
	switch {
	case errors.As(err, &mistake): // the request cannot be said in the backend's dialect
		return unserved(mistake)
	case errors.As(err, &refusal):
		return r.classifyStatus(refusal)
	case errors.As(err, &failure):
		return backendFault(r.upstream("The backend reported an error in its answer.", failure))
	case errors.Is(err, adapter.ErrFormat):
		return unserved(apiError(schema.CodeUpstreamError, "The backend's answer has another form than the one that was asked for"+reasonIn(err)+"."))
	case errors.Is(err, errReplyTooLarge):
		return unserved(apiError(schema.CodeUpstreamError, fmt.Sprintf("The backend's answer is larger than the %d MiB that the gateway takes in whole.", maxReply>>20)))
	case errors.Is(err, transport.ErrInvalidCall):
		return unserved(apiError(schema.CodeInternal, "The gateway could not put the request to the backend."))
	case errors.Is(err, transport.ErrTimeout):
		return backendFault(wireError(schema.CodeUpstreamTimeout, "The backend did not answer in time.", err))
	case errors.Is(err, adapter.ErrTruncated):
		return backendFault(apiError(schema.CodeUpstreamTruncated, "The backend's stream ended before the answer was complete."))
	case errors.Is(err, transport.ErrConnect):
		cause := transport.CauseOf(err)
		return lost(wireError(schema.CodeUpstreamError, "The backend could not be reached: "+cause.Text()+".", err), err)
	case errors.Is(err, transport.ErrProtocol):
		return backendFault(wireError(schema.CodeUpstreamError, "The backend's answer could not be understood.", err))
	case errors.Is(err, adapter.ErrInvalid), errors.Is(err, adapter.ErrEventTooLarge):
		return backendFault(apiError(schema.CodeUpstreamError, "The backend's answer could not be understood."))
	}
	message, code := "The connection to the backend broke.", schema.CodeUpstreamError
	if r.events != nil {
		message, code = "The backend's stream broke before the answer was complete.", schema.CodeUpstreamTruncated
	}
	return lost(wireError(code, message, err), err)
}

// lost is a fault of a connection. Whether nobody was there, or somebody who broke
// it, matters to the breaker.
func lost(known *schema.Error, err error) *fault {
	f := backendFault(known)
	switch transport.CauseOf(err) {
	case transport.CauseRefused, transport.CauseUnreachable:
		f.outcome = breaker.Refused
	case transport.CauseReset, transport.CauseClosed:
		f.outcome = breaker.Reset
	}
	return f
}

// wireError is an error of the way to the backend. It names the cause, which holds
// no address.
func wireError(code, message string, err error) *schema.Error {
	known := apiError(code, message)
	if cause := transport.CauseOf(err); cause != transport.CauseNone {
		known.Cause = string(cause)
		known.Details = map[string]any{"cause": cause, "reason": cause.Text()}
	}
	return known
}

func backendFault(err *schema.Error) *fault {
	return &fault{err: err, outcome: breaker.Failure, elsewhere: true}
}

// unserved is a fault that says nothing against the instance and that another
// one would have as well.
func unserved(err *schema.Error) *fault { return &fault{err: err, outcome: breaker.Cancelled} }

// reasonIn returns what an adapter says beyond ErrFormat; its texts are ours.
func reasonIn(err error) string {
	_, reason, _ := strings.Cut(err.Error(), adapter.ErrFormat.Error())
	return reason
}

func apiError(code, message string) *schema.Error {
	return &schema.Error{Message: message, Type: schema.TypeAPI, Code: code}
}

// classifyStatus decides what an error status means.
func (r *Reply) classifyStatus(refusal *refused) *fault {
	status := refusal.Status
	err := r.upstream(fmt.Sprintf("The backend answered with status %d.", status), refusal.Failure)
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		// The caller can neither see nor mend the credential that was refused.
		err.Message = "The backend refused the gateway's credentials."
		err.Code = schema.CodeUpstreamAuth
		return unserved(err)
	case status == http.StatusTooManyRequests:
		err.Message = "The backend's own rate limit was reached."
		err.Type, err.Code = schema.TypeRateLimit, schema.CodeUpstreamRateLimit
		err.RetryAfter = max(refusal.retryAfter, time.Second)
		return &fault{err: err, outcome: breaker.Cancelled, elsewhere: true}
	case status < 500:
		err.Type, err.Status = schema.TypeInvalidRequest, status
		return unserved(err)
	}
	err.Status = status
	err.RetryAfter = refusal.retryAfter
	if status == http.StatusServiceUnavailable {
		err.RetryAfter = max(refusal.retryAfter, time.Second)
	}
	return &fault{err: err, outcome: breaker.Failure, elsewhere: failsOver(status)}
}

// failsOver lists the statuses that another instance may not answer with.
func failsOver(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// upstream makes the error that passes on what a backend said.
func (r *Reply) upstream(message string, f *adapter.Failure) *schema.Error {
	err := apiError(schema.CodeUpstreamError, message)
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

// unknownModel says that nobody serves the model, and which names come near.
func unknownModel(service *routing.Service, serviceType schema.ServiceType, name string) *schema.Error {
	var known []string
	if service != nil {
		for _, pool := range service.Pools {
			known = append(known, pool.Model)
		}
	}
	err := &schema.Error{
		Message: fmt.Sprintf("No instance serves the model %q for %s.", name, serviceType),
		Type:    schema.TypeServiceUnavailable,
		Code:    schema.CodeServiceUnavailable,
		NoRetry: true,
	}
	const shown = 5
	near := schema.Nearest(name, known, shown)
	switch {
	case len(known) == 0:
		err.Message += fmt.Sprintf(" No instances are configured for %s.", serviceType)
	case len(near) > 0:
		err.Message += " Did you mean " + quotedList(near) + "?"
	default:
		near = known[:min(shown, len(known))]
		err.Message += " Configured are, for example, " + quotedList(near) + "."
	}
	err.Details = map[string]any{"model": name, "nearest": near}
	return err
}

// unknownPause is the wait that callers are told where nobody knows how long it
// takes, such as until a slot becomes free: about a second.
const unknownPause = 800 * time.Millisecond

// noSlot says that all slots are taken and that waiting did not help.
func noSlot(pool *routing.Pool) *schema.Error {
	return &schema.Error{
		Message:    fmt.Sprintf("All slots of the model %q are taken.", pool.Model),
		Type:       schema.TypeRateLimit,
		Code:       schema.CodeNoSlot,
		RetryAfter: unknownPause,
		Spread:     true,
	}
}

// overLimit says that a rate limit is reached.
func overLimit(d ratelimit.Decision) *schema.Error {
	return &schema.Error{
		Message:    fmt.Sprintf("The rate limit of %d requests is reached; the next one is allowed in %s.", d.Limit, d.RetryAfter.Round(time.Millisecond)),
		Type:       schema.TypeRateLimit,
		Code:       schema.CodeRateLimitExceeded,
		RetryAfter: max(d.RetryAfter, time.Millisecond),
		Spread:     true,
	}
}

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}
