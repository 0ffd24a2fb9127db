package web

import (
	"io"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/serve/front"
)

// stream bounds the time for which the client of an HTTP/2 request may send no body, or
// read no reply. Package front does the same for HTTP/1.1.
type stream struct {
	control *http.ResponseController
	stalled *time.Timer
}

func newStream(w http.ResponseWriter) *stream {
	return &stream{control: http.NewResponseController(w)}
}

// boundWrite bounds a write of n bytes, which ends when the function that it returns is
// called. A deadline of the stream would not do: it ends the stream when it comes, even
// if nothing is written then.
func (s *stream) boundWrite(n int) (end func()) {
	allowed := front.Allowance(int64(n))
	if s.stalled == nil {
		s.stalled = time.AfterFunc(allowed, func() { _ = s.control.SetWriteDeadline(time.Unix(1, 0)) })
	} else {
		s.stalled.Reset(allowed)
	}
	return func() { s.stalled.Stop() }
}

// end bounds the time for sending the rest of the reply after its handler has returned.
func (s *stream) end() { _ = s.control.SetWriteDeadline(time.Now().Add(front.BaseAllowance)) }

// streamBody is the body of a request of HTTP/2.
type streamBody struct {
	io.ReadCloser
	stream *stream
	since  time.Time // when the body was first waited for
	came   int64     // how many of its bytes have come
}

// Read reads a part of the body.
func (b *streamBody) Read(p []byte) (int, error) {
	if b.since.IsZero() {
		b.since = time.Now()
	}
	// fails on a closed connection, as the read will
	_ = b.stream.control.SetReadDeadline(b.since.Add(front.Allowance(b.came)))
	n, err := b.ReadCloser.Read(p)
	b.came += int64(n)
	return n, err
}
