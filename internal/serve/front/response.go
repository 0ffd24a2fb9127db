package front

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

// maxHeld is the number of bytes of a reply that are collected before they are sent. A longer
// piece is sent together with the collected bytes, without being copied.
const maxHeld = bufferSize

// response is the reply to one request. It is an http.ResponseWriter.
type response struct {
	conn   *conn
	header http.Header
	// out holds the bytes that were not sent yet, in borrowed memory.
	out      []byte
	borrowed *[bufferSize]byte

	status    int   // 0 until the handler has decided
	announced bool  // left is the length of the body, by AnnounceLength
	hasHead   bool  // the head is in out, or was sent
	sent      bool  // something of the reply was sent
	left      int64 // of the announced length; -1 if none was announced
	skipped   int64 // bytes of a body that is not sent, in a reply to HEAD
	chunked   bool
	isHTTP10  bool // the request is HTTP/1.0, which knows no chunks
	isHead    bool // the reply to HEAD has no body
	close     bool // the connection ends with this reply
	err       error
}

// end makes everything fail that a handler still does with the reply after its request.
func (r *response) end() {
	r.giveBack()
	r.err = errEnded
	r.conn.bounds.CompareAndSwap(byHandler, givenBack)
	_ = r.conn.reads.bound(time.Time{})
}

// Header returns the header of the reply, which is sent with its first bytes.
func (r *response) Header() http.Header { return r.header }

// AnnounceLength does the work of the header Content-Length, which a handler may set instead.
func (r *response) AnnounceLength(length int64) { r.announced, r.left = true, length }

// WriteHeader decides the status. Interim replies are not sent.
func (r *response) WriteHeader(status int) {
	if r.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
}

// Write adds to the body of the reply.
func (r *response) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	if r.err != nil {
		return 0, r.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if !r.hasBody() {
		if r.isHead {
			r.skipped += int64(len(p))
			return len(p), nil
		}
		return 0, http.ErrBodyNotAllowed
	}
	if !r.hasHead {
		r.writeHead(-1)
	}
	if r.left >= 0 {
		if int64(len(p)) > r.left {
			return 0, http.ErrContentLength
		}
		r.left -= int64(len(p))
	}
	return r.add(p)
}

// add adds bytes of the body in their framing.
func (r *response) add(p []byte) (int, error) {
	if r.chunked || len(p) < maxHeld {
		r.borrow()
	}
	if r.chunked {
		r.out = strconv.AppendUint(r.out, uint64(len(p)), 16)
		r.out = append(r.out, "\r\n"...)
	}
	end := r.chunkEnd()
	if len(r.out)+len(p)+len(end) > maxHeld {
		r.sendWith(p, end)
	} else {
		r.out = append(append(r.out, p...), end...)
	}
	if r.err != nil {
		return 0, r.err
	}
	return len(p), nil
}

// chunkEnd returns the bytes behind a piece of the body.
func (r *response) chunkEnd() []byte {
	if r.chunked {
		return crlf
	}
	return nil
}

// FlushError sends everything written so far.
func (r *response) FlushError() error {
	r.WriteHeader(http.StatusOK)
	if r.err != nil {
		return r.err
	}
	if !r.hasHead {
		r.writeHead(-1)
	}
	r.send()
	return r.err
}

// Send adds to the body of the reply and sends everything written so far.
func (r *response) Send(p []byte) error {
	if _, err := r.Write(p); err != nil {
		return err
	}
	return r.FlushError()
}

// Flush is FlushError for callers that do not ask.
func (r *response) Flush() { _ = r.FlushError() }

// ProbeWith sets the function that sends something harmless to the client once the head of the
// reply is out; nil means that there is none.
func (r *response) ProbeWith(probe func()) {
	if r.err == nil {
		r.conn.peer.probeWith(probe)
	}
}

// finish ends a reply. False means that the connection ends with it.
func (r *response) finish() bool {
	if r.isHandedOver() {
		return false
	}
	r.WriteHeader(http.StatusOK)
	switch {
	case !r.hasHead:
		r.writeHead(r.skipped)
	case r.chunked:
		r.borrow()
		r.out = append(r.out, "0\r\n\r\n"...)
	}
	r.send()
	if r.err != nil || r.left > 0 {
		return false // the client sees that it is not complete
	}
	if r.close && !r.conn.body.ended {
		r.conn.linger()
	}
	return !r.close
}

// hasBody reports whether the reply can have a body.
func (r *response) hasBody() bool {
	return !r.isHead && r.status != http.StatusNoContent && r.status != http.StatusNotModified &&
		r.status != http.StatusSwitchingProtocols
}

// writeHead writes the head of the reply; whole is the length of a complete body, and -1 if
// more may follow.
func (r *response) writeHead(whole int64) {
	r.hasHead = true
	r.borrow()
	r.decideLength(whole)
	out := r.out
	if r.status == http.StatusOK && !r.isHTTP10 {
		out = append(out, "HTTP/1.1 200 OK"...)
	} else {
		out = append(out, "HTTP/1."...)
		out = append(out, '1', ' ')
		if r.isHTTP10 {
			out[len(out)-2] = '0'
		}
		out = strconv.AppendInt(out, int64(r.status), 10)
		out = append(out, ' ')
		out = append(out, http.StatusText(r.status)...)
	}
	hasDate, isSwitch := false, r.status == http.StatusSwitchingProtocols
	for name, values := range r.header {
		switch name {
		case "Content-Length", "Transfer-Encoding":
			continue // see decideLength
		case "Connection":
			if !isSwitch {
				r.close = r.close || len(values) > 0 && hasElement(values[0], "close")
				continue
			}
		case "Date":
			hasDate = true
		}
		for _, value := range values {
			out = appendField(out, name, value)
		}
	}
	if !hasDate {
		out = appendField(out, "Date", r.conn.server.dateAt(time.Now()))
	}
	switch {
	case isSwitch:
	case r.close || r.conn.body.isAbandoned():
		r.close = true
		out = appendField(out, "Connection", "close")
	case r.isHTTP10:
		out = appendField(out, "Connection", "keep-alive")
	}
	if r.announced {
		out = append(out, "\r\nContent-Length: "...)
		out = strconv.AppendInt(out, r.left, 10)
	} else if r.chunked {
		out = append(out, "\r\nTransfer-Encoding: chunked"...)
	}
	r.out = append(out, "\r\n\r\n"...)
	if r.isHead {
		r.left = 0
	}
}

// decideLength decides how the client finds the end of the body: by a length, by chunks,
// or by the end of the connection.
func (r *response) decideLength(whole int64) {
	if given := r.header["Content-Length"]; len(given) == 1 {
		r.left, r.announced = wire.ParseLength(given[0])
	}
	switch {
	case !r.hasBody() && !r.isHead:
		r.left, r.announced = 0, false
	case r.announced:
	case r.isHead && r.skipped == 0: // the length of the body is unknown
		r.left = 0
	case whole >= 0:
		r.left, r.announced = whole, true
	case r.isHTTP10:
		r.left, r.close = -1, true
	default:
		r.left, r.chunked = -1, !r.isHead
	}
}

// appendField adds a field.
func appendField(out []byte, name, value string) []byte {
	out = append(out, "\r\n"...)
	out = append(out, name...)
	out = append(out, ": "...)
	return appendValue(out, value)
}

// appendValue adds the value of a field. Line breaks, which would begin another
// field, become spaces.
func appendValue(out []byte, value string) []byte {
	from := len(out)
	out = append(out, value...)
	if !wire.IsText(value) {
		for i, c := range out[from:] {
			if c == '\r' || c == '\n' {
				out[from+i] = ' '
			}
		}
	}
	return out
}

// send sends the collected bytes.
func (r *response) send() {
	if len(r.out) == 0 || r.err != nil {
		return
	}
	c := r.conn
	c.writing.Lock()
	r.noteSending()
	r.fail(c.write(r.out))
	c.writing.Unlock()
	r.giveBack()
}

// sendWith sends the collected bytes and more.
func (r *response) sendWith(more, end []byte) {
	if r.err != nil {
		return
	}
	c := r.conn
	c.writing.Lock()
	r.noteSending()
	r.fail(c.writePieces(r.out, more, end))
	c.writing.Unlock()
	r.giveBack()
}

// noteSending notes that an interim reply is too late from now on.
func (r *response) noteSending() {
	if !r.sent {
		r.sent = true
		r.conn.peer.beginReply()
	}
}

// fail notes that the client cannot be reached, and ends its request.
func (r *response) fail(err error) {
	if err != nil && r.err == nil {
		r.err = err
		r.conn.endRequest()
	}
}

func (r *response) borrow() {
	if r.borrowed == nil {
		r.borrowed = r.conn.server.buffers.Get().(*[bufferSize]byte)
		r.out = append(r.borrowed[:0], r.out...)
	}
}

// giveBack gives the memory back: a stream that waits has none.
func (r *response) giveBack() {
	if r.borrowed != nil {
		r.conn.server.buffers.Put(r.borrowed)
	}
	r.borrowed, r.out = nil, nil
}

// write sends bytes to the client. The caller has the lock.
func (c *conn) write(p []byte) error {
	c.boundWrite(len(p))
	_, err := c.nc.Write(p)
	return err
}

// writePieces sends pieces together, which may be empty. The caller has the lock.
func (c *conn) writePieces(first, second, third []byte) error {
	c.boundWrite(len(first) + len(second) + len(third))
	c.pieces = [3][]byte{first, second, third}
	c.vector = c.pieces[:]
	_, err := c.vector.WriteTo(c.nc)
	c.pieces, c.vector = [3][]byte{}, nil
	return err
}

// boundWrite bounds a write. Setting a deadline costs more than most writes, so it
// is renewed only when a second of it is gone.
func (c *conn) boundWrite(length int) {
	switch c.bounds.Load() {
	case byHandler:
		return
	case givenBack:
		c.bounds.CompareAndSwap(givenBack, byServer)
		c.deadline = time.Time{}
	}
	now, allowed := time.Now(), Allowance(int64(length))
	if c.deadline.Sub(now) < allowed-time.Second {
		c.deadline = now.Add(allowed)
		_ = c.nc.SetWriteDeadline(c.deadline) // it fails on closed connections, as the write will
	}
}

var crlf = []byte("\r\n")

var (
	_ http.ResponseWriter = (*response)(nil)
	_ http.Flusher        = (*response)(nil)
	_ io.Writer           = (*response)(nil)
)

// Hijack hands the connection over to the handler, for a protocol other than HTTP. It first sends
// everything written so far; the reader has the bytes that have already come. The connection has
// no deadlines then. It belongs to the handler until the handler returns, and is closed after
// that: Shutdown waits for the handler, Close closes the connection and ends the context of the
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
	_, _ = reader.Peek(len(came)) // Buffered then says how much has come
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
