package proxy

import (
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// heldBack is how much is collected while events are at hand; more than this
// goes out even if there are still more.
const heldBack = 16 << 10

// eventWriter writes server-sent events. Events that arrived together leave
// together; silence is filled with comments. The comments come from a timer, so
// that writing is guarded.
type eventWriter struct {
	to      Sink
	framed  bool // events come in their frames, with the backend's mark of the end
	silence time.Duration

	mu     sync.Mutex
	buf    []byte
	err    error
	last   time.Time // when something was sent
	timer  *time.Timer
	closed bool
}

// newEventWriter returns a writer that sends comments after so long a silence, once
// it is started.
func newEventWriter(to Sink, framed bool, silence time.Duration) *eventWriter {
	return &eventWriter{to: to, framed: framed, silence: silence}
}

// start starts the comments. The head of the answer has been sent.
func (e *eventWriter) start() {
	e.mu.Lock() // the timer may fire before it is known here
	defer e.mu.Unlock()
	e.last = time.Now()
	e.timer = time.AfterFunc(e.silence, e.comment)
}

// part adds one event. It is sent by the next flush.
func (e *eventWriter) part(event []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.framed {
		e.buf = append(e.buf, event...)
	} else {
		e.frame(event)
	}
	if len(e.buf) >= heldBack {
		e.send()
	}
	return e.err
}

// frame adds one event in its frame.
func (e *eventWriter) frame(data []byte) {
	e.buf = append(e.buf, "data: "...)
	e.buf = append(e.buf, data...)
	e.buf = append(e.buf, "\n\n"...)
}

// end sends the mark that says that the answer is complete, unless the backend's
// own has been sent.
func (e *eventWriter) end() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.framed {
		e.frame(dialect.DoneMark)
	}
	e.send()
	return e.err
}

// fail sends an error event, and no mark.
func (e *eventWriter) fail(known *schema.Error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.frame(known.Body())
	e.send()
	return e.err
}

// flush sends what was collected.
func (e *eventWriter) flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.send()
}

// send writes the buffer through to the client.
func (e *eventWriter) send() {
	if len(e.buf) == 0 || e.err != nil {
		return
	}
	if _, e.err = e.to.Write(e.buf); e.err == nil {
		e.err = e.to.Flush()
	}
	e.last = time.Now()
	const keep = 64 << 10
	if cap(e.buf) > keep {
		e.buf = nil
	}
	e.buf = e.buf[:0]
}

// comment keeps a silent stream alive. Instead of being set back by every
// event, the timer looks how long the silence has lasted when it fires.
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
	e.buf = append(e.buf, ": keep-alive\n\n"...)
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
	e.buf = append(e.buf, ": keep-alive\n\n"...)
	e.send()
}

// close stops the comments; after it nothing is written.
func (e *eventWriter) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.timer != nil {
		e.timer.Stop()
	}
}
