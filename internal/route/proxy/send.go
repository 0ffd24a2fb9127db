package proxy

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
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

// send sends the reply to the client. It settles before it sends the last part: a
// complete answer was counted even if this process ends right after it.
func (r *run) send(ctx context.Context, to Sink) error {
	out := r.beginBody(to)
	defer out.close()
	for first := true; ; first = false {
		part, err := r.answer.Next()
		complete := errors.Is(err, io.EOF)
		measures := r.IsMeasured()
		if err == nil && r.reply.FirstToken.IsZero() && r.hasContent() {
			if r.usage().Total == 0 { // a report of zeros is true of an empty answer only
				measures = true
			}
			at := r.reply.FirstByte // when the part had come with which the answer began
			if !first {
				at = time.Now()
			}
			r.firstContent(at)
		}
		if err == nil {
			r.attempt.paced.Event()
		}
		if err == nil && measures {
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
		case r.resume(ctx, out, err):
			continue
		default:
			return r.breakOff(ctx, out, err)
		}
		if err != nil {
			r.abandon()
		}
		return nil
	}
}

// firstContent notes when the first content of the answer came. It is called once for an
// answer that has content, and not for others. The attempt of an answer that came whole has
// ended by then.
func (r *run) firstContent(now time.Time) {
	r.reply.FirstToken = now
	r.dropRequest()
	if call := r.attempt.followed; call != nil {
		call.First(now)
	}
}

// mayResume reports whether another instance may yet resume the stream if it breaks off. That
// needs the request.
func (r *run) mayResume() bool {
	events := r.reply.Events
	return events != nil && !r.reply.Whole && (r.transcript != nil || !events.HasContent()) && events.CanResume()
}

// dropRequest returns the request to its owner if the backend has all of it and nobody else
// will need it: a stream may take long.
func (r *run) dropRequest() {
	if r.Asks != nil && (r.reply.IsStreamed() || r.follows()) && !r.mayResume() && r.attempt.dropCall() {
		r.Return()
	}
}

// measure estimates the tokens of a part of the answer. An answer that was read whole is
// settled with its first part, so all its parts are measured then.
func (r *run) measure(part []byte) {
	switch {
	case r.reply.Binary:
	case !r.reply.Whole || r.reply.Events != nil:
		r.Measure(part)
	case r.reply.Sent <= 1:
		for _, segment := range r.reply.Plain.Segments {
			r.Measure(segment)
		}
	}
}

// beginBody sends the head of the answer and returns the writer of its body.
func (r *run) beginBody(to Sink) body {
	r.dropRequest()
	form := r.answer.Form()
	r.Record.Streamed = form.Length < 0
	head := Head{Form: form}
	if form.Events {
		from := r.reply.Events
		if from == nil && r.Client != nil {
			from = r.Client.Frame
		}
		out := newEventWriter(to, form.Framed, from, r.proxy.silence, &r.proxy.buffers)
		out.requestID = r.Caller.RequestID
		head.Probe = out.probe
		to.Head(head)
		r.attempt.beforeWait(out.flush)
		r.share(out)
		out.start()
		return out
	}
	to.Head(head)
	r.raw = rawBody{to, r.reply.Binary}
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
		r.reply.Outcome = breaker.Cancelled
		if !errors.As(context.Cause(ctx), &known) { // an operator stopped the request
			known = Stopping()
		}
	} else {
		known = r.noteBroken(err).Err
	}
	r.noteEnd(known)
	r.noteStopped(ctx)
	err = out.fail(known)
	if errors.Is(err, ErrBrokenOff) {
		return err
	}
	if err != nil {
		r.abandon()
	}
	return nil
}

// noteBroken notes that the answer broke off, unless that was noted before the search for
// another instance.
func (r *run) noteBroken(err error) *reply.Fault {
	failed := r.broke
	if failed == nil {
		failed = r.attempt.classifier().Classify(err, true)
		r.Record.Fail(failed.Err.Code, failed.Err.Cause, failed.Err.Said)
		if failed.Outcome.Failed() {
			r.attempt.instance.NoteFailure(failed.Err.Code, *r.Record.Try().Said, time.Now())
		}
	}
	r.reply.Outcome = failed.Outcome
	return failed
}

// Stopping returns the error for a client when the gateway stops during its request.
func Stopping() *schema.Error {
	known := schema.CodedError(schema.CodeServiceUnavailable, "call.stopping")
	known.RetryAfter = time.Second
	return known
}

// abandon notes that the client left before it had the whole answer.
func (r *run) abandon() {
	r.reply.Outcome = breaker.Cancelled
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

// maxBuffered is how much is buffered while more events can be read without waiting.
const maxBuffered = 16 << 10

// eventWriter writes server-sent events. Events that arrive together are sent
// together, and a comment is sent after a silence. The comments come from a timer, so
// a mutex guards the writes.
type eventWriter struct {
	to      Sink
	framed  bool // parts are server-sent events, the backend's last mark included
	silence time.Duration
	buffers *sync.Pool // of *[]byte
	// failure writes the events of an error where the dialect has its own. ping is sent
	// after a silence, filler in place of comments where the dialect has none, and
	// requestID with an error.
	failure   func(known *schema.Error, requestID string) []byte
	ping      []byte
	filler    []byte
	requestID string

	mu   sync.Mutex
	buf  []byte
	lent *[]byte // where buf comes from, nil while it is empty
	err  error
	last time.Time // when something was sent
	// flushed says that something has been sent for sure.
	flushed bool
	timer   *time.Timer
	closed  bool
}

// newEventWriter returns a writer that sends a comment after a silence, once it is
// started. The stream, which may be nil, knows the form of errors and pings.
func newEventWriter(
	to Sink, framed bool, from *dialect.Stream, silence time.Duration, buffers *sync.Pool,
) *eventWriter {
	e := &eventWriter{to: to, framed: framed, silence: silence, buffers: buffers, ping: keepAlive}
	if from != nil {
		e.failure = from.Failure
		if from.Ping != nil {
			e.ping = from.Ping
		}
		if from.Filler != nil {
			e.ping, e.filler = from.Filler, from.Filler
		}
	}
	return e
}

// keepAlive is a comment, which all readers of server-sent events skip.
var keepAlive = []byte(": keep-alive\n\n")

// newEventBuffer returns a buffer for events. One event more than is buffered fits,
// unless it is large.
func newEventBuffer() any {
	buf := make([]byte, 0, maxBuffered+4<<10)
	return &buf
}

// borrow makes sure that there is a buffer.
func (e *eventWriter) borrow() {
	if e.lent == nil {
		e.lent = e.buffers.Get().(*[]byte)
		e.buf = (*e.lent)[:0]
	}
}

// giveBack gives up the buffer: thousands of streams may wait for their next event.
func (e *eventWriter) giveBack() {
	if e.lent != nil && cap(e.buf) <= dialect.MaxKept {
		*e.lent = e.buf
		e.buffers.Put(e.lent)
	}
	e.lent, e.buf = nil, nil
}

// start starts the timer of the comments. It is called after the head was sent.
func (e *eventWriter) start() {
	e.mu.Lock() // the timer may fire before e.timer is set
	defer e.mu.Unlock()
	e.last = time.Now()
	e.timer = time.AfterFunc(e.silence, e.comment)
}

// part adds one event to the buffer, which the next flush sends.
func (e *eventWriter) part(event []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(event) == 0 {
		return e.err // no buffer is borrowed while the stream waits
	}
	if e.framed {
		e.borrow()
		e.buf = append(e.buf, event...)
	} else {
		e.frame(event)
	}
	if len(e.buf) >= maxBuffered {
		e.send()
	}
	return e.err
}

// frame adds data as one server-sent event.
func (e *eventWriter) frame(data []byte) {
	e.borrow()
	e.buf = append(e.buf, "data: "...)
	e.buf = append(e.buf, data...)
	e.buf = append(e.buf, "\n\n"...)
}

// end adds the mark that says that the answer is complete, unless the parts
// contained it. The mark leaves together with the end of the reply, unless nothing
// has left yet: a server that has a whole reply announces its length, as if it were
// no stream.
func (e *eventWriter) end() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.framed {
		e.frame(dialect.DoneMark)
	}
	if e.flushed {
		e.write()
	} else {
		e.send()
	}
	return e.err
}

// fail sends an error event, and no mark of the end.
func (e *eventWriter) fail(known *schema.Error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.failure != nil {
		e.borrow()
		e.buf = append(e.buf, e.failure(known, e.requestID)...)
	} else {
		e.frame(known.Body())
	}
	e.send()
	return e.err
}

// say adds a comment to the buffer, if the stream can have comments.
func (e *eventWriter) say(comment string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.filler != nil {
		return
	}
	e.borrow()
	e.buf = append(e.buf, comment...)
}

// flush sends the content of the buffer.
func (e *eventWriter) flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.send()
}

// send writes the buffer to the client and flushes.
func (e *eventWriter) send() {
	if len(e.buf) == 0 || e.err != nil {
		return
	}
	e.flushed = true
	e.err = e.to.Send(e.buf)
	e.last = time.Now()
	e.giveBack()
}

// write writes the buffer to the client's side, which may hold it back.
func (e *eventWriter) write() {
	if len(e.buf) == 0 || e.err != nil {
		return
	}
	_, e.err = e.to.Write(e.buf)
	e.last = time.Now()
	e.giveBack()
}

// comment sends a comment, or the ping of the client's dialect, if the stream has been
// silent for long enough. Setting the timer again for every event would be expensive, so
// the timer runs on, and comment finds out when the last event was sent.
func (e *eventWriter) comment() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.err != nil {
		return
	}
	if rest := e.silence - time.Since(e.last); rest > 0 {
		e.timer.Reset(rest)
		return
	}
	e.borrow()
	e.buf = append(e.buf, e.ping...)
	e.send()
	e.timer.Reset(e.silence)
}

// probe sends a comment at once, to find out whether the client is still there.
func (e *eventWriter) probe() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.err != nil {
		return
	}
	e.borrow()
	if e.filler != nil {
		e.buf = append(e.buf, e.filler...)
	} else {
		e.buf = append(e.buf, keepAlive...)
	}
	e.send()
}

// close stops the comments; after it nothing is written.
func (e *eventWriter) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.giveBack()
	if e.timer != nil {
		e.timer.Stop()
	}
}
