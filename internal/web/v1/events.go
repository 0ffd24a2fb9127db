package v1

import (
	"net/http"
	"sync"
	"time"
)

// heldBack is how much is collected while events are at hand; more than this
// goes out even if there are still more.
const heldBack = 16 << 10

// eventWriter writes server-sent events. Events that arrived together leave
// together; silence is filled with comments. The comments come from a timer, so
// writing is guarded.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	silence time.Duration

	mu     sync.Mutex
	buf    []byte
	err    error
	last   time.Time // when something was sent
	timer  *time.Timer
	closed bool
}

func newEventWriter(w http.ResponseWriter, silence time.Duration) *eventWriter {
	e := &eventWriter{w: w, control: http.NewResponseController(w), silence: silence, last: time.Now()}
	e.mu.Lock() // the timer may fire before it is known here
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(silence, e.comment)
	return e
}

// event adds one event. It is sent by the next flush.
func (e *eventWriter) event(data []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.buf = append(e.buf, "data: "...)
	e.buf = append(e.buf, data...)
	e.buf = append(e.buf, "\n\n"...)
	if len(e.buf) >= heldBack {
		e.send()
	}
	return e.err
}

// frame adds one event that comes in its frame.
func (e *eventWriter) frame(event []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.buf = append(e.buf, event...)
	if len(e.buf) >= heldBack {
		e.send()
	}
	return e.err
}

// flush sends what was collected.
func (e *eventWriter) flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.send()
}

// lastFlush is flush for the end of a stream, where the error matters.
func (e *eventWriter) lastFlush() error {
	e.flush()
	return e.err
}

// send writes the buffer through to the client.
func (e *eventWriter) send() {
	if len(e.buf) == 0 || e.err != nil {
		return
	}
	if _, e.err = e.w.Write(e.buf); e.err == nil {
		e.err = e.control.Flush()
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
	e.timer.Stop()
}
