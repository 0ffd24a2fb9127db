package proxy

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/shares"
	"github.com/patchbay-ai/patchbay/internal/transport"
)

// fault is why an attempt failed.
type fault struct {
	err      *schema.Error   // what the caller is told
	outcome  breaker.Outcome // how the attempt counts for the instance's breaker
	failover bool            // whether another instance may do better
	tooLong  bool            // whether the request is too long for the model
	unsent   bool            // whether the instance did not get the request
	// overload is how long the instance is avoided because it is overloaded.
	overload time.Duration
}

// classifier turns the errors of one attempt into faults.
type classifier struct {
	instance *backend.Instance
	req      *schema.Request // nil once the request was returned to its owner
}

// classify returns the fault for an error of a call, or of an answer that has
// begun.
func (c classifier) classify(err error, begun bool) *fault {
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
		known = apiError(schema.CodeUpstreamError, "The backend's answer could not be understood: "+unusable.reason+".")
		known.Details = unusable.details
		return backendFault(known)
	case errors.Is(err, dialect.ErrFormat):
		return neutralFault(apiError(schema.CodeUpstreamError, "The backend's answer has another form than the one that was asked for"+reasonIn(err)+"."))
	case errors.Is(err, errReplyTooLarge):
		return neutralFault(apiError(schema.CodeUpstreamError, fmt.Sprintf("The backend's answer is larger than the %d MiB that the gateway takes in whole.", maxReply>>20)))
	case errors.Is(err, transport.ErrInvalidCall):
		return neutralFault(apiError(schema.CodeInternal, "The gateway could not put the request to the backend."))
	case errors.Is(err, transport.ErrTimeout):
		return backendFault(wireError(schema.CodeUpstreamTimeout, "The backend did not answer in time.", err))
	case errors.Is(err, dialect.ErrTruncated):
		return backendFault(apiError(schema.CodeUpstreamTruncated, "The backend's stream ended before the answer was complete."))
	case errors.Is(err, transport.ErrConnect):
		cause := transport.CauseOf(err)
		return connectionFault(wireError(schema.CodeUpstreamError, "The backend could not be reached: "+cause.Text()+".", err), err)
	case errors.Is(err, transport.ErrProtocol):
		return backendFault(wireError(schema.CodeUpstreamError, "The backend's answer could not be understood.", err))
	case errors.Is(err, dialect.ErrInvalid), errors.Is(err, dialect.ErrEventTooLarge):
		return backendFault(apiError(schema.CodeUpstreamError, "The backend's answer could not be understood."))
	}
	message, code := "The connection to the backend broke.", schema.CodeUpstreamError
	if begun {
		message, code = "The backend's stream broke before the answer was complete.", schema.CodeUpstreamTruncated
	}
	return connectionFault(wireError(code, message, err), err)
}

// markTooLong notes that a backend refused the request because it is too long. Whichever
// status it chose for that, it is well, and so are the others.
func (f *fault) markTooLong(failure *dialect.Failure) *fault {
	if f.outcome.Failed() || f.failover || !failure.TooLong() {
		return f
	}
	f.tooLong = true
	return f
}

// connectionFault is the fault of a connection that could not be made or that
// broke. The breaker distinguishes an address at which nothing listens from a
// backend that broke the connection.
func connectionFault(known *schema.Error, err error) *fault {
	f := backendFault(known)
	switch transport.CauseOf(err) {
	case transport.CauseRefused, transport.CauseUnreachable:
		f.outcome = breaker.Refused
	case transport.CauseReset, transport.CauseClosed:
		f.outcome = breaker.Reset
	}
	return f
}

// wireError returns an error of the connection to the backend. It names the cause,
// which contains no address.
func wireError(code, message string, err error) *schema.Error {
	known := apiError(code, message)
	if cause := transport.CauseOf(err); cause != transport.CauseNone {
		known.Cause = string(cause)
		known.Details = map[string]any{"cause": cause, "reason": cause.Text()}
	}
	return known
}

// backendFault is a failure of the instance that another one may not have.
func backendFault(err *schema.Error) *fault {
	return &fault{err: err, outcome: breaker.Failure, failover: true}
}

// neutralFault is a fault that does not count against the instance and that every
// other instance would have as well.
func neutralFault(err *schema.Error) *fault { return &fault{err: err, outcome: breaker.Cancelled} }

// reasonIn returns what a dialect's error says after the text of ErrFormat. The
// gateway wrote that text, not the backend, so it can be shown to callers.
func reasonIn(err error) string {
	_, reason, _ := strings.Cut(err.Error(), dialect.ErrFormat.Error())
	return reason
}

func apiError(code, message string) *schema.Error {
	return &schema.Error{Message: message, Type: schema.TypeAPI, Code: code}
}

// noMemoryForReply says that there is too little memory for bodies left for an answer of
// a size, where a caller may have so much of it at most.
func noMemoryForReply(verdict shares.Verdict, size, most int64) *schema.Error {
	known := &schema.Error{
		Message: "The gateway has no memory left for the backend's answer; try again shortly.",
		Type:    schema.TypeServiceUnavailable, Code: schema.CodeOverloaded, RetryAfter: time.Second,
	}
	switch {
	case size > most:
		known.Message = fmt.Sprintf("The backend's answer takes more memory than the %d bytes that one caller may have for bodies (a third of limits.memory).", most)
		known.NoRetry = true
	case verdict == shares.ShareUsed:
		known.Message = "This caller's requests have as much of the gateway's memory as one caller may have now, and the backend's answer needs more; try again when some of them have ended."
	}
	return known
}

// defaultRetryAfter is the wait that callers are told where the real one is not
// known, such as until a slot becomes free.
const defaultRetryAfter = 800 * time.Millisecond

// noSlot says that all slots are taken, and that the request cannot wait or has
// waited too long.
func noSlot(pool *routing.Pool) *schema.Error {
	return &schema.Error{
		Message:    fmt.Sprintf("All slots of the model %q are taken.", pool.Model),
		Type:       schema.TypeRateLimit,
		Code:       schema.CodeNoSlot,
		RetryAfter: defaultRetryAfter,
		Spread:     true,
	}
}
