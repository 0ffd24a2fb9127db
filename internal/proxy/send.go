package proxy

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// body writes the parts of a reply to a sink: a rawBody, or an eventWriter.
type body interface {
	// part writes one part.
	part(p []byte) error
	// end ends a complete answer.
	end() error
	// fail ends an answer that is not complete. It returns ErrBrokenOff where the
	// form cannot carry the error, and another error if the client has left.
	fail(known *schema.Error) error
	// close is called when nothing is written any more.
	close()
}

// send sends the reply to the client. It settles before it sends the last part, so
// that a complete answer was counted even if this process ends right after it.
func (r *run) send(ctx context.Context, to Sink) error {
	out := r.beginBody(to)
	defer out.close()
	for {
		part, err := r.answer.Next()
		complete := errors.Is(err, io.EOF)
		if err == nil && r.IsMeasured() {
			r.measure(part)
		}
		if complete || err == nil && r.answer.IsComplete() {
			r.settle(true)
		}
		switch {
		case complete:
			err = out.end()
		case err == nil:
			if err = out.part(part); err == nil {
				continue
			}
		default:
			return r.breakOff(ctx, out, err)
		}
		if err != nil {
			r.abandon()
		}
		return nil
	}
}

// measure estimates the tokens of a part of the answer. An answer that was read whole is
// settled with its first part, so all its parts are measured then.
func (r *run) measure(part []byte) {
	switch {
	case r.reply.binary:
	case !r.reply.whole || r.reply.events != nil:
		r.Measure(part)
	case r.reply.sent <= 1:
		for _, segment := range r.reply.plain.Segments {
			r.Measure(segment)
		}
	}
}

// beginBody sends the head of the answer and returns the writer of its body. A
// streamed answer may take long, so the memory of its request is given back if the
// backend has all of it.
func (r *run) beginBody(to Sink) body {
	if r.reply.isStreamed() && r.attempt.dropCall() {
		r.Return()
	}
	form := r.answer.Form()
	r.Record.Streamed = form.Length < 0
	head := Head{ContentType: form.ContentType, Length: form.Length, Events: form.Events}
	if form.Events {
		out := newEventWriter(to, form.Framed, r.reply.events, r.proxy.silence, &r.proxy.buffers)
		out.requestID = r.Caller.RequestID
		head.Probe = out.probe
		to.Head(head)
		r.attempt.beforeWait(out.flush)
		out.start()
		return out
	}
	to.Head(head)
	r.raw = rawBody{to, r.reply.binary}
	return &r.raw
}

// breakOff ends an answer that failed after its head was sent.
func (r *run) breakOff(ctx context.Context, out body, err error) error {
	var known *schema.Error
	if ctx.Err() != nil {
		if errors.Is(context.Cause(ctx), context.Canceled) {
			r.abandon()
			return nil
		}
		r.reply.outcome = breaker.Cancelled
		known = Stopping()
	} else {
		failed := r.attempt.classifier().classify(err, true)
		r.reply.outcome = failed.outcome
		r.Record.Fail(failed.err.Code, failed.err.Cause, failed.err.Message)
		if failed.outcome.Failed() {
			r.attempt.instance.NoteFailure(failed.err.Code, r.Record.Try().Text, time.Now())
		}
		known = failed.err
	}
	r.noteEnd(known)
	err = out.fail(known)
	if errors.Is(err, ErrBrokenOff) {
		return err
	}
	if err != nil {
		r.abandon()
	}
	return nil
}

// Stopping returns what a client is told whose request ends because the gateway stops.
func Stopping() *schema.Error {
	known := schema.NewError(schema.CodeServiceUnavailable, "The gateway is shutting down.")
	known.RetryAfter = time.Second
	return known
}

// abandon notes that the client left before it had the whole answer.
func (r *run) abandon() {
	r.reply.outcome = breaker.Cancelled
	r.noteEnd(context.Canceled)
}

// rawBody writes bytes as they are. The bytes of a binary answer, such as audio, are
// sent as they arrive; other answers were read whole and cannot fail any more.
type rawBody struct {
	to     Sink
	binary bool
}

func (b *rawBody) part(p []byte) error {
	if b.binary {
		return b.to.Send(p)
	}
	_, err := b.to.Write(p)
	return err
}

func (*rawBody) end() error               { return nil }
func (*rawBody) fail(*schema.Error) error { return ErrBrokenOff }
func (*rawBody) close()                   {}
