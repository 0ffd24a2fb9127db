package proxy

import (
	"context"
	"errors"

	"github.com/patchbay-ai/patchbay/internal/admit"
	"github.com/patchbay-ai/patchbay/internal/allowance"
	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
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

// Sink is the client's side of a request, to which the proxy sends the answer. Its
// methods are called in the order in which they stand here: Route once, Head at most
// once, then Write and Send any number of times. Calls never overlap, but they may
// come from different goroutines. An error means that the client has left.
type Sink interface {
	// Route tells where the request went. It is called before the head of an
	// answer, or before Do returns an error in place of an answer.
	Route(route Route)
	// Head begins a successful answer.
	Head(head Head)
	// Write adds to the body. What is written may be buffered until Send, or until
	// Do returns. Write must not keep p.
	Write(p []byte) (int, error)
	// Send adds to the body and sends it, with what was buffered. The proxy calls it
	// before it waits for the backend. Send must not keep p.
	Send(p []byte) error
}

// Route is where a request went.
type Route struct {
	// Model is the configured name of the model. It is empty where no model has the
	// name that the client asked for. Asked is that name if it is not that of Model.
	Model, Asked string
	// Instance is the one that was called last, nil where none was.
	Instance *backend.Instance
	// Attempts is how many instances were called.
	Attempts int
	// Cache is what the cache of answers did.
	Cache metrics.Cached
	// Limit is the state of the rate limit that applies to the request, if any does.
	Limit ratelimit.Decision
	// KeyRequests and KeyTokens are the states of the limits of the key and its tenant
	// that have the least left; their Limit is 0 where there are none.
	KeyRequests, KeyTokens allowance.State
}

// Head is what a client is told before the body of an answer.
type Head struct {
	ContentType string
	// Length is the length of the body, -1 where it is not known because the
	// answer is streamed.
	Length int
	// Events says that the body is a stream of events, which proxies between the
	// gateway and the client should neither buffer nor cache.
	Events bool
	// Probe sends the client a comment, to find out whether it is still there; nil
	// where the form of the body has no comments. Any goroutine may call it at any
	// time.
	Probe func()
}

// The content types of replies of the unified API.
const (
	TypeJSON   = "application/json"
	TypeEvents = "text/event-stream; charset=utf-8"
)

// ErrBrokenOff means that an answer broke off whose form cannot carry an error. The
// client can be told only by closing the connection before the body is complete.
var ErrBrokenOff = errors.New("the answer broke off")
