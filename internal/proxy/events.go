package proxy

import (
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

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
	// failure writes the events of an error where the dialect has its own, ping is what
	// is sent after a silence, and requestID is what clients are told with an error.
	failure   func(known *schema.Error, requestID string) []byte
	ping      []byte
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
// started. The stream, which may be nil, knows how errors and pings look.
func newEventWriter(to Sink, framed bool, from *dialect.Stream, silence time.Duration, buffers *sync.Pool) *eventWriter {
	e := &eventWriter{to: to, framed: framed, silence: silence, buffers: buffers, ping: keepAlive}
	if from != nil {
		e.failure = from.Failure
		if from.Ping != nil {
			e.ping = from.Ping
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
// contained it. It leaves together with the end of the reply, unless it is the first
// that leaves: a server that has all of a reply announces its length, as if it were
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

// flush sends what is in the buffer.
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
	e.buf = append(e.buf, keepAlive...)
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
