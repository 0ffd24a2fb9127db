package proxy

import (
	"errors"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
)

// Sink is the client's side of a request, to which the proxy sends the answer. It
// is called by one goroutine at a time, in the order of its methods. An error means
// that the client has left.
type Sink interface {
	// Route tells where the request went: before the head of an answer, or before
	// Do returns an error in place of one.
	Route(route Route)
	// Head begins a successful answer.
	Head(head Head)
	// Write adds to the body. What is written may be held back until Flush, or
	// until Do returns. The memory is good until Write returns.
	Write(p []byte) (int, error)
	// Flush sends what was held back: the proxy is about to wait for the backend.
	Flush() error
}

// Route is where a request went.
type Route struct {
	// Model is the configured name of the model. Where no model has the name that
	// the client asked for it is empty, and Asked is that name.
	Model, Asked string
	// Instance is the one that was called last, nil where none was.
	Instance *backend.Instance
	// Attempts is how many instances were called.
	Attempts int
	// Limit is where the client stands in the rate limit that covers the request,
	// if any does.
	Limit ratelimit.Decision
}

// Head is what a client is told before the body of an answer.
type Head struct {
	ContentType string
	// Length is the length of the body, -1 where it is not known because the
	// answer is sent while it comes.
	Length int
	// Events says that the body is a stream of events, which nobody on the way
	// should hold back or keep.
	Events bool
	// Probe sends the client something that does not matter, to find out whether
	// it is still there; nil where the body has no room for such a thing. Any
	// goroutine may call it at any time.
	Probe func()
}

// The content types of answers in the unified shape.
const (
	TypeJSON   = "application/json"
	TypeEvents = "text/event-stream; charset=utf-8"
)

// ErrBrokenOff means that an answer broke off whose form has no room for an error,
// so that only a connection that ends too early tells the client.
var ErrBrokenOff = errors.New("the answer broke off")
