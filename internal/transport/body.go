package transport

import (
	"io"
	"time"

	"github.com/patchbay-ai/patchbay/internal/wire"
)

// framing is how the end of a body is found.
type framing uint8

const (
	empty framing = iota
	fixed
	chunked
	untilClose
)

// bodyState is how far the reading of a body has come.
type bodyState struct {
	framing  framing
	left     int64       // bytes to come of a fixed body
	chunks   wire.Chunks // of a chunked body
	done     bool        // every byte of the message was consumed
	draining bool        // take only what has already come
}

func (b *bodyState) begin(h head, method string) {
	switch {
	case method == "HEAD", h.status == 204, h.status == 304:
		b.framing = empty
	case h.chunked:
		b.framing, b.chunks.AllowBlanks = chunked, true
	case h.length > 0:
		b.framing, b.left = fixed, h.length
	case h.length == 0:
		b.framing = empty
	default:
		b.framing = untilClose
	}
	b.done = b.framing == empty
}

// length is that of the body before any of it was read; -1 when unknown.
func (b *bodyState) length() int64 {
	switch b.framing {
	case empty, fixed:
		return b.left
	}
	return -1
}

// next reads a piece of the body; io.EOF is its proper end.
func (r *Response) next(p []byte) (int, error) {
	switch r.body.framing {
	case fixed:
		return r.nextFixed(p)
	case chunked:
		return r.nextChunked(p)
	case untilClose:
		n, err := r.take(p)
		r.body.done = err == io.EOF
		return n, err
	}
	return 0, io.EOF
}

func (r *Response) nextFixed(p []byte) (int, error) {
	if r.body.left == 0 {
		return 0, io.EOF
	}
	n, err := r.take(p[:min(int64(len(p)), r.body.left)])
	r.body.left -= int64(n)
	r.body.done = r.body.left == 0
	return n, unexpectedEOF(err)
}

// take moves bytes of the connection into p, reading once when none are
// buffered. Long reads go around the buffer.
func (r *Response) take(p []byte) (int, error) {
	c := r.conn
	if c.r == c.w {
		if len(p) >= bufferSize && !r.body.draining {
			return c.read(p, r.beforeRead())
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, c.buf[c.r:c.w])
	c.r += n
	return n, nil
}

// fill reads once into the buffer.
func (r *Response) fill() error {
	if !r.body.draining {
		return r.conn.fill(r.beforeRead())
	}
	if !r.conn.fillNow() {
		return io.ErrNoProgress
	}
	return nil
}

// beforeRead prepares a read of the network and returns until when it may wait.
func (r *Response) beforeRead() time.Time {
	if r.BeforeWait != nil {
		r.BeforeWait()
	}
	return r.readDue()
}

func (r *Response) readDue() time.Time {
	if !r.deadline.IsZero() {
		return r.deadline
	}
	if r.limits.Idle <= 0 {
		return time.Time{}
	}
	return time.Now().Add(r.limits.Idle)
}

// Await waits until something of the body has come, or until Read returns an error, so
// that a caller needs no memory for what it reads while there is nothing.
func (r *Response) Await() {
	if r.err != nil || r.body.done || r.conn.r < r.conn.w {
		return
	}
	// The next read returns why nothing came.
	r.conn.failed = r.fill()
}

// lentSize is that of the memory that is lent to those who wait with Await: most events
// are small.
const lentSize = 2 << 10

// Lend lends memory for what Read returns.
func (r *Response) Lend() *[]byte { return r.client.lent.Get().(*[]byte) }

// TakeBack takes back what Lend has lent.
func (r *Response) TakeBack(b *[]byte) { r.client.lent.Put(b) }
