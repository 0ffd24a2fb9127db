package proxy

import (
	"context"

	"github.com/patchbay-ai/patchbay/internal/admit"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Request is a request that comes from admission, or is on its way there.
type Request = admit.Request

// Step stands between admission and routing, such as a cache or a guard. It may answer a
// request by itself, refuse it with a *schema.Error, or call next, once, and return what
// that answers, as it is or wrapped in an Answer of its own. A request that a step answers
// is limited, counted and recorded like any other. A step must not keep the request.
type Step func(ctx context.Context, r *Request, next Next) (Answer, error)

// Next calls the step that follows or, after the last one, an instance.
type Next func(ctx context.Context) (Answer, error)

// Answer is an answer that has begun. It is read part by part, by one goroutine.
type Answer interface {
	// Form tells what the client is told before the first part.
	Form() Form
	// Next returns the next part, which is valid until the following call, and io.EOF
	// after the last part of a complete answer.
	Next() ([]byte, error)
	// IsComplete reports whether the part that Next returned last completes the answer in
	// the eyes of the client.
	IsComplete() bool
	// Usage returns the tokens that are known so far.
	Usage() schema.Usage
}

// Form is the form of an answer.
type Form struct {
	ContentType string
	// Length is that of all parts together, -1 where it is not known because the answer is
	// streamed.
	Length int
	// Events says that the parts are events. They are server-sent events, with the mark of
	// their end, where Framed says so, and else the data of such events.
	Events, Framed bool
}

// request is what the steps of routing share.
type request struct {
	*Request
	proxy *Proxy
	// noRoom tells that there was no free slot at some time, and shedAs how that is
	// counted if the request is refused.
	noRoom bool
	shedAs metrics.Shed
}

// retryBudget returns the retry budget of the request's service type.
func (r *request) retryBudget() *retryBudget { return &r.proxy.retryBudgets[r.Record.Service] }

// shed notes that there was no free slot for the request. It is counted if the request is
// refused in the end.
func (r *request) shed(how metrics.Shed) { r.noRoom, r.shedAs = true, how }

// countShed counts a request that was refused because there was no free slot.
func (r *request) countShed() {
	if r.noRoom {
		r.proxy.recorder.Shed(r.Record.Service, r.shedAs)
	}
}
