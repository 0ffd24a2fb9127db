package front

import (
	"errors"
	"io"
	"os"
	"time"
)

// body is the body of a request.
type body struct {
	conn  *conn
	left  int64 // bytes to come
	err   error
	since time.Time // when the body was first waited for
	came  int64     // bytes of it that came since then
}

// Read reads from the body. The end comes together with the last byte.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.left == 0 {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.take(p)
	b.left -= int64(n)
	if err != nil {
		b.err = err
		return n, err
	}
	if b.left > 0 {
		return n, nil
	}
	b.end()
	return n, io.EOF
}

// isAbandoned tells whether what is left of the body is not worth reading for the sake
// of the next request: it is too much, or cannot be read. The reply then says that the
// connection ends, so that the client does not send that request.
func (b *body) isAbandoned() bool {
	const most = 256 << 10
	return b.left > most || b.left > 0 && b.err != nil
}

// Close is there for http.Request.Body. What was not read is discarded when the
// request has been answered.
func (b *body) Close() error { return nil }

// end gives up what reading the body took.
func (b *body) end() {
	b.since, b.came = time.Time{}, 0
	b.conn.giveBackIfEmpty()
}

// take moves bytes from the connection into p, reading once when none have come.
func (b *body) take(p []byte) (int, error) {
	c := b.conn
	if c.r < c.w {
		n := copy(p, c.buf[c.r:c.w])
		c.r += n
		return n, nil
	}
	if b.since.IsZero() {
		b.since = time.Now()
	}
	c.reads.arrange(b.due())
	for {
		n, err := b.read(p)
		b.came += int64(n)
		switch {
		case n > 0:
			return n, nil
		case errors.Is(err, io.EOF):
			return 0, io.ErrUnexpectedEOF
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return 0, err
		}
		if due := b.due(); time.Now().Before(due) {
			c.reads.reset(due)
			continue
		}
		return 0, err
	}
}

// due is when the body must have come.
func (b *body) due() time.Time { return b.since.Add(Allowance(b.came)) }

// read reads once: into p if that is worth it, else over the buffer, because the
// next request may follow.
func (b *body) read(p []byte) (int, error) {
	c := b.conn
	if len(p) >= bufferSize {
		return c.nc.Read(p)
	}
	if err := c.fill(); err != nil {
		return 0, err
	}
	n := copy(p, c.buf[c.r:c.w])
	c.r += n
	return n, nil
}
