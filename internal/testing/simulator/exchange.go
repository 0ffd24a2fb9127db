package simulator

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// exchange is one request and the connection to its client. It sends the answer in
// the way its step says.
type exchange struct {
	http.ResponseWriter
	backend *Backend
	request *http.Request
	dialect dialect
	body    []byte // of a request that is no form
	form    *form  // nil otherwise
	step    Step
	work    work
	serial  uint64 // counts the requests of the backend
	model   string // that the request names; empty unless the backend has behaviours of models

	refused bool      // it got an error, or no answer at all, because its model is not there
	broken  bool      // the connection must end without a complete answer
	left    time.Time // when it was noticed that the client left
}

// fail answers with an error in the form of the dialect.
func (x *exchange) fail(status int, problem apiError) {
	x.send(status, "application/json", x.dialect.errorBody(status, problem))
}

// replace sends the answer that the step contains.
func (x *exchange) replace() {
	step := &x.step
	status := step.Status
	if status == 0 {
		status = http.StatusOK
	}
	body := step.Body
	if body == "" && status >= http.StatusBadRequest {
		body = string(x.dialect.errorBody(status, apiError{
			message: "The simulated backend was told to answer " + strconv.Itoa(status) + ".",
			kind:    "server_error",
			code:    "simulated_fault",
		}))
	}
	if step.NoBody {
		body = ""
	}
	contentType := "application/json"
	switch {
	case strings.HasPrefix(body, "<"):
		contentType = "text/html; charset=utf-8"
	case strings.HasPrefix(body, "data:"):
		contentType = eventStreamType
	}
	x.send(status, contentType, []byte(body))
}

// send sends a whole body.
func (x *exchange) send(status int, contentType string, body []byte) {
	step := &x.step
	if !x.pause(step.FirstDelay) {
		return
	}
	if x.request.Context().Err() != nil {
		x.abandon()
		return
	}
	half := body[:len(body)/2]
	if step.AfterBytes > 0 {
		half = body[:min(len(body), step.AfterBytes)]
	}
	if step.Stop == StopEnd {
		body = half
	}
	header := x.Header()
	header.Set("Content-Type", contentType)
	if contentType != eventStreamType {
		header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	x.setHeader()
	x.WriteHeader(status)
	if contentType == eventStreamType && !x.flush() { // or net/http would add the length
		return
	}
	if step.Stop != StopNever && step.Stop != StopEnd {
		if x.write(half, max(step.EventDelay, 0)) && x.flush() {
			x.stop()
		}
		return
	}
	x.write(body, max(step.EventDelay, 0))
}

func (x *exchange) setHeader() {
	header := x.Header()
	for name, values := range x.step.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
}

// write writes data, in flushed slices if the step wants that. It returns
// false when the client is gone.
func (x *exchange) write(data []byte, between time.Duration) bool {
	size := x.step.Slice
	if size <= 0 {
		return x.wrote(x.Write(data))
	}
	for first := true; len(data) > 0; first = false {
		if !first && !x.pause(between) {
			return false
		}
		piece := data[:min(size, len(data))]
		if !x.wrote(x.Write(piece)) || !x.flush() {
			return false
		}
		data = data[len(piece):]
	}
	return true
}

func (x *exchange) wrote(_ int, err error) bool {
	if err == nil || errors.Is(err, http.ErrContentLength) || errors.Is(err, http.ErrBodyNotAllowed) {
		return true // the body of the step does not fit its own head
	}
	x.abandon()
	return false
}

func (x *exchange) flush() bool {
	if err := http.NewResponseController(x.ResponseWriter).Flush(); err != nil {
		x.abandon()
		return false
	}
	return true
}

// pause waits. It returns false if the client left meanwhile.
func (x *exchange) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.request.Context().Done():
		x.abandon()
		return false
	}
}

// hold sends nothing until the client leaves.
func (x *exchange) hold() {
	<-x.request.Context().Done()
	x.abandon()
}

// abandon ends the exchange because its client left or the backend closes.
func (x *exchange) abandon() {
	x.broken = true
	if x.left.IsZero() && x.backend.ctx.Err() == nil {
		x.left = time.Now()
	}
}

// stop ends an answer early, after the flushed part.
func (x *exchange) stop() {
	switch x.step.Stop {
	case StopReset:
		x.resetNow()
	case StopClose:
		x.broken = true
	case StopStall:
		x.hold()
	}
}

// resetNow takes the connection from net/http and resets it.
func (x *exchange) resetNow() {
	if conn := x.hijack(); conn != nil {
		resetConn(conn)
	}
}

func (x *exchange) hijack() net.Conn {
	conn, buffered, err := http.NewResponseController(x.ResponseWriter).Hijack()
	if err != nil {
		x.broken = true
		return nil
	}
	_ = buffered.Flush() // the next write reports that the client left
	return conn
}

// writeRaw writes the step's bytes to the bare connection.
func (x *exchange) writeRaw() {
	conn := x.hijack()
	if conn == nil {
		return
	}
	defer conn.Close()
	// Only this goroutine closes a hijacked connection when the backend closes.
	closed := make(chan struct{})
	unwatch := context.AfterFunc(x.backend.ctx, func() {
		_ = conn.Close()
		close(closed)
	})
	defer func() {
		if !unwatch() {
			<-closed
		}
	}()
	if _, err := io.WriteString(conn, x.step.Raw); err != nil {
		x.abandon()
		return
	}
	switch x.step.Stop {
	case StopReset:
		resetConn(conn)
	case StopStall:
		_, _ = io.Copy(io.Discard, conn)
		x.abandon()
	}
}

// resetConn closes a connection, with a reset that the peer sees if the connection is
// TCP.
func resetConn(conn net.Conn) {
	if lingering, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = lingering.SetLinger(0)
	}
	_ = conn.Close()
}
