package proxy

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Reply is the answer to one request. It belongs to the goroutine that asked
// for it, which closes it; after that it must not be touched.
type Reply struct {
	request
	choice
	attempt

	// FirstByte is when the answer began.
	FirstByte time.Time

	plain   dialect.Reply
	body    []byte
	events  dialect.Events
	pending []byte // the first event, which was waited for
	binary  bool
	framed  dialect.FramedEvents // events, if they come in their frames
	outcome breaker.Outcome
	ticket  quota.Ticket // its place in the quota ledger
}

// Attempts returns how many instances were called.
func (r *Reply) Attempts() int { return len(r.excluded.called) }

// Limit returns where the request stands in the limit that covers it, if any does.
func (r *Reply) Limit() ratelimit.Decision { return r.limits.standing }

// Segments returns a whole answer, nil for any other.
func (r *Reply) Segments() [][]byte { return r.plain.Segments }

// ContentType returns the type of an answer; empty means JSON, or the events of
// a chat.
func (r *Reply) ContentType() string { return r.plain.ContentType }

// Binary reports whether the answer is passed on as the bytes that it is.
func (r *Reply) Binary() bool { return r.binary }

// Chunk returns the next bytes of a binary answer, good until the following
// call, and io.EOF at its end. Errors are as with Next.
func (r *Reply) Chunk(ctx context.Context) ([]byte, error) {
	if first := r.body; len(first) > 0 {
		r.body = first[:0]
		return first, nil
	}
	chunk, err := readChunk(r.response, r.body[:cap(r.body)])
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, r.broken(ctx, err)
	}
	return chunk, err
}

// readChunk reads once. Bytes that come together with an error are bytes first;
// the error comes again.
func readChunk(from io.Reader, into []byte) ([]byte, error) {
	n, err := from.Read(into)
	if n > 0 {
		return into[:n], nil
	}
	return nil, err
}

// Streaming reports whether the answer is a stream of events.
func (r *Reply) Streaming() bool { return r.events != nil }

// Framed reports whether the events come in the frames in which they are sent,
// names and the backend's own mark of the end included.
func (r *Reply) Framed() bool { return r.framed != nil }

// Next returns the next event of a stream, good until the following call, and
// io.EOF after the last one of a complete answer. Any other error is a
// *schema.Error, or the context's own when the client left.
func (r *Reply) Next(ctx context.Context) ([]byte, error) {
	event, err := r.pending, error(nil)
	if r.pending = nil; event == nil {
		event, err = r.events.Next()
	}
	switch {
	case err == nil:
		if r.framed != nil && (!r.held || r.framed.IsComplete()) {
			r.Settle() // the client has the whole answer with this event
		}
		return event, nil
	case errors.Is(err, io.EOF):
		return nil, err
	}
	return nil, r.broken(ctx, err)
}

// broken notes that an answer failed after it had begun, and says why.
func (r *Reply) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		r.outcome = breaker.Cancelled
		cause := context.Cause(ctx)
		r.noteEnd(cause)
		return cause
	}
	failed := r.classify(err)
	r.outcome = failed.outcome
	r.record.Try().Cause = failed.err.Cause
	r.noteEnd(failed.err)
	return failed.err
}

// BeforeWait sets what is called whenever Next has used up what has arrived and
// turns to the backend for more: the moment to send on what was held back.
func (r *Reply) BeforeWait(f func()) {
	if r.response != nil {
		r.response.BeforeWait = f
	}
}

// Sent reports whether the request has left whole, so that its memory may be
// used again.
func (r *Reply) Sent() bool { return r.response == nil || r.response.Sent() }

// ForgetCall gives up the memory of a request that has left whole.
func (r *Reply) ForgetCall() { r.call.Reset() }

// Usage returns what the backend reported.
func (r *Reply) Usage() schema.Usage {
	if r.events != nil {
		return r.events.Usage()
	}
	return r.plain.Usage
}

// Abandon says that the client left before it had the whole answer.
func (r *Reply) Abandon() {
	r.outcome = breaker.Cancelled
	r.noteEnd(context.Canceled)
}

// Panicked says that passing the answer on panicked. Unless the backend had
// failed before, that says nothing about it.
func (r *Reply) Panicked() {
	if r.outcome == breaker.Success {
		r.outcome = breaker.Cancelled
	}
	if r.record.Code == "" {
		r.record.Code = schema.CodeInternal
	}
}

// discard ends a request whose handling panicked, which says nothing about the
// instance. All that it holds is given back; its memory is not used again,
// because nobody knows what state it is in.
func (r *Reply) discard() {
	r.release(breaker.Cancelled)
	r.budget().leave()
	if r.Attempts() == 0 {
		r.limits.giveBack(time.Now())
	}
	r.ticket.Settle(schema.Usage{})
	r.record.Code = schema.CodeInternal
	r.events = nil
	r.endRecord()
}

// Close settles the request: the instance is free again and has its outcome.
func (r *Reply) Close() {
	r.settleGivenUp()
	r.release(r.outcome)
	r.endRecord()
	r.budget().leave()
	p := r.proxy
	r.reset()
	p.replies.Put(r)
}

// release ends the attempt if it has not ended, and lets one of the requests that
// wait have its slot.
func (r *Reply) release(outcome breaker.Outcome) {
	if r.end(outcome) {
		r.pool.Queue.Wake()
	}
}

// keepBody is the largest buffer that stays with a Reply for its next use.
const keepBody = 256 << 10

func (r *Reply) reset() {
	r.choice.reset()
	r.attempt.reset()
	r.plain.Reset()
	body := r.body[:0]
	if cap(body) > keepBody {
		body = nil
	}
	*r = Reply{choice: r.choice, attempt: r.attempt, plain: r.plain, body: body}
}
