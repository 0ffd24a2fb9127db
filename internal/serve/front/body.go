package front

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

// body is the body of a request. It has a length, or comes in chunks.
type body struct {
	conn      *conn
	isChunked bool
	left      int64       // bytes to come, of one with a length
	chunks    wire.Chunks // of one that comes in chunks
	ended     bool        // all of it was read
	continues bool        // the client waits for a go-ahead before it sends the body
	err       error
	since     time.Time // when the body was first waited for
	came      int64     // bytes of it that came since then
}

// Read reads from the body. The end comes together with the last byte of a body that has a
// length.
func (b *body) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case b.ended:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	left := &b.left
	if b.isChunked {
		left = &b.chunks.Left
		if err := b.nextChunk(); err != nil {
			return 0, err
		}
	}
	n, err := b.take(p[:min(int64(len(p)), *left)])
	if *left -= int64(n); err != nil {
		b.err = err
		return n, err
	}
	if b.isChunked || *left > 0 {
		return n, nil
	}
	return n, b.end()
}

// nextChunk reads up to data of a chunk. The error is io.EOF at the end of the body.
func (b *body) nextChunk() error {
	c := b.conn
	for b.chunks.Left == 0 {
		n, err := b.chunks.Step(c.buf[c.r:c.w])
		c.r += n
		if n == 0 && err == nil {
			err = b.await(func() (int, error) { return c.fill() })
		}
		switch {
		case b.chunks.Ended():
			return b.end()
		case err != nil:
			b.err = fmt.Errorf("reading the body of the request: %w", err)
			return b.err
		}
	}
	return nil
}

// end releases the resources for reading the body, and returns io.EOF.
func (b *body) end() error {
	b.ended, b.since, b.came = true, time.Time{}, 0
	b.conn.giveBackIfEmpty()
	b.conn.ahead.begin(b.conn)
	return io.EOF
}

// isAbandoned reports whether the rest of the body is not worth reading for the sake of the next
// request: it is too long, or may never come. The reply then announces the end of the connection,
// and the client does not send that request.
func (b *body) isAbandoned() bool {
	const most = 256 << 10
	switch {
	case b.ended:
		return false
	case b.err != nil || b.continues:
		return true
	case b.isChunked:
		return !b.hasCome()
	}
	return b.left > most
}

// hasCome reports whether the rest of a body that comes in chunks has come.
func (b *body) hasCome() bool {
	rest, came := b.chunks, b.conn.buf[b.conn.r:b.conn.w]
	for {
		n, err := rest.Step(came)
		if n == 0 || err != nil {
			return rest.Ended()
		}
		came = came[n:]
		if rest.Left > int64(len(came)) {
			return false
		}
		came, rest.Left = came[rest.Left:], 0
	}
}

// Close exists for http.Request.Body. The connection discards the unread rest when the
// request has been answered.
func (b *body) Close() error { return nil }

// take moves bytes from the connection into p, reading once when none have come: into p
// if that is worth it, else over the buffer, because the next request may follow.
func (b *body) take(p []byte) (n int, err error) {
	c := b.conn
	if c.r == c.w {
		if len(p) >= bufferSize {
			err = b.await(func() (int, error) { n, err = c.nc.Read(p); return n, err })
			return n, err
		}
		if err := b.await(c.fill); err != nil {
			return 0, err
		}
	}
	n = copy(p, c.buf[c.r:c.w])
	c.r += n
	return n, nil
}

// await calls read until something has come, an error, or the end of the time that a
// client has to send its body.
func (b *body) await(read func() (int, error)) error {
	c := b.conn
	if b.continues {
		b.continues = false
		if err := c.writeInterim(); err != nil {
			return err
		}
	}
	if b.since.IsZero() {
		b.since = time.Now()
	}
	c.reads.arrange(b.due())
	for {
		n, err := read()
		b.came += int64(n)
		switch {
		case n > 0:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return err
		}
		if due := b.due(); !c.reads.isOver() && time.Now().Before(due) {
			c.reads.reset(due)
			continue
		}
		return err
	}
}

// due returns the time by which the body must have come.
func (b *body) due() time.Time { return b.since.Add(Allowance(b.came)) }
