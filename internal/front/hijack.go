package front

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Hijack hands the connection over to the handler, for a protocol other than HTTP. What
// was written is sent before that, and what has come is in the reader. The connection has
// no deadlines then. It is the handler's until that returns, and is closed after that:
// Shutdown waits for the handler, Close closes the connection and ends the context of the
// request, which also ends when the client resets the connection.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if r.err != nil {
		return nil, nil, r.err
	}
	if r.status != 0 {
		if err := r.FlushError(); err != nil {
			return nil, nil, err
		}
	}
	c := r.conn
	c.ahead.end(c)
	c.writing.Lock()
	c.peer.leave()
	c.writing.Unlock()
	r.giveBack()
	r.err, c.body.err = http.ErrHijacked, http.ErrHijacked
	_ = c.reads.bound(time.Time{})
	c.reads.reset(time.Time{})
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	came := bytes.Clone(c.buf[c.r:c.w])
	c.r, c.w = 0, 0
	c.giveBack()
	reader := bufio.NewReaderSize(io.MultiReader(bytes.NewReader(came), c.nc), max(bufferSize, len(came)))
	_, _ = reader.Peek(len(came)) // so that it says how much has come
	return c.nc, bufio.NewReadWriter(reader, bufio.NewWriter(c.nc)), nil
}

// isHandedOver reports whether the handler has the connection.
func (r *response) isHandedOver() bool { return errors.Is(r.err, http.ErrHijacked) }

// SetReadDeadline bounds the reads of the body, in addition to the server's own bounds;
// the zero time takes it back.
func (r *response) SetReadDeadline(deadline time.Time) error {
	if r.err != nil {
		return r.err
	}
	return r.conn.reads.bound(deadline)
}

// SetWriteDeadline bounds the writes of the reply in place of the server's own bounds; the
// zero time takes it back.
func (r *response) SetWriteDeadline(deadline time.Time) error {
	if r.err != nil {
		return r.err
	}
	to := byHandler
	if deadline.IsZero() {
		to = givenBack
	}
	r.conn.bounds.Store(to)
	return r.conn.nc.SetWriteDeadline(deadline)
}

// EnableFullDuplex is always in force: a body can be read after the reply has begun.
func (*response) EnableFullDuplex() error { return nil }

var _ http.Hijacker = (*response)(nil)
