package monitor

import (
	"net/http"
	"time"
)

// feedSilence is the time between two comments, which keep proxies from closing
// the connection.
const feedSilence = 15 * time.Second

// eventStream writes server-sent events.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
	dirty   bool
	wrote   time.Time
}

func newEventStream(w http.ResponseWriter) *eventStream {
	return &eventStream{w: w, control: http.NewResponseController(w)}
}

func (e *eventStream) begin() {
	header := e.w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-cache")
	header.Set("X-Accel-Buffering", "no")
}

func (e *eventStream) write(text string) {
	if e.err == nil {
		_, e.err = e.w.Write([]byte(text))
		e.dirty = true
	}
}

// flush reports whether the reader is still there.
func (e *eventStream) flush() bool {
	if e.err == nil && e.dirty {
		e.err = e.control.Flush()
		e.dirty, e.wrote = false, time.Now()
	}
	return e.err == nil
}

// keepAlive writes a comment if nothing was written for a while. Otherwise a proxy may take
// the connection for dead.
func (e *eventStream) keepAlive(now time.Time) {
	if now.Sub(e.wrote) >= feedSilence {
		e.write(": still here\n\n")
	}
}
