package proxy

import (
	"context"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
)

// Shared is an answer that several requests read, which a step may return.
type Shared interface {
	account.Answer
	// HasContent reports whether the parts that were read have content.
	HasContent() bool
	// BeforeWait sets a function that is called whenever Next has to wait for others.
	BeforeWait(flush func())
	// Failing returns the end of an incomplete answer of events, given its end if it were
	// not shared; nil means an event of the unified API.
	Failing(own Failure) Failure
	// Close is called once, when the request has ended, also after a panic.
	Close()
}

// Failure returns the events that end an answer which is not complete.
type Failure func(known *schema.Error, requestID string) []byte

// Led is a shared answer for the request that made the call. The call goes on for the
// others when the client of this request has left or is slow.
type Led interface {
	Shared
	// Detach returns the context of the call and a sink that never waits for the client
	// while others need the answer.
	Detach(to Sink) (context.Context, Sink)
	// Attach waits until the client has everything that was sent to that sink, and returns what
	// Do returns, given the error with which the sending ended. If the client has not got all of
	// the answer, although others may have, missed is the reason: context.Canceled if it has left,
	// a *schema.Error if it was too slow for the others, or the cause that ended this request
	// alone.
	Attach(sent error) (missed, end error)
}

// sendLed sends an answer that others read too to the client.
func (r *run) sendLed(own context.Context, led Led, to Sink) error {
	ctx, detached := led.Detach(to)
	missed, end := led.Attach(r.send(ctx, detached))
	r.noteEnd(missed)
	r.noteStopped(own)
	return end
}

// hasContent reports whether the parts of the answer that were read have content.
func (r *run) hasContent() bool {
	if shared, ok := r.answer.(Shared); ok {
		return shared.HasContent()
	}
	return r.reply.HasContent()
}

// follows reports whether the answer comes from another request's call.
func (r *run) follows() bool {
	_, isShared := r.answer.(Shared)
	return isShared && r.attempt.instance == nil
}

// share tells the writer of a shared answer when to send its buffer, and how to end.
func (r *run) share(out *eventWriter) {
	if shared, ok := r.answer.(Shared); ok {
		shared.BeforeWait(out.flush)
		out.failure = shared.Failing(out.failure)
	}
}
