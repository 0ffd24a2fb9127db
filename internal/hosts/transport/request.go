package transport

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// appendHead appends the head of the request and returns it with the length of the
// body. It refuses a call that would not be one unambiguous HTTP/1.1 request: no
// text of a caller can smuggle a second one.
func appendHead(b []byte, to *Origin, call *wire.Call) ([]byte, int, error) {
	if err := validate(to, call); err != nil {
		return b, 0, &Error{Step: "write", Addr: to.addr, class: ErrInvalidCall, cause: err}
	}
	b = append(b, call.Method...)
	b = append(b, ' ')
	b = append(b, to.prefix...)
	b = append(b, call.Path...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, to.host...)
	// Replies must come uncompressed: the gateway reads usage in them and must not
	// inflate bytes that a backend packed.
	b = append(b, "\r\nAccept-Encoding: identity\r\n"...)
	if to.proxyAuth != "" {
		b = append(b, "Proxy-Authorization: "...)
		b = append(b, to.proxyAuth...)
		b = append(b, "\r\n"...)
	}
	if to.via().MaxIdle < 0 {
		b = append(b, "Connection: close\r\n"...)
	}
	agent := false
	for i := range call.Header {
		h := &call.Header[i]
		b = append(b, h.Name...)
		b = append(b, ": "...)
		b = append(b, h.Value...)
		b = append(b, "\r\n"...)
		agent = agent || wire.IsNamed(h.Name, "user-agent")
	}
	if !agent {
		b = append(b, "User-Agent: patchbay\r\n"...)
	}
	length := call.Length()
	if length > 0 || takesBody(call.Method) {
		b = append(b, "Content-Length: "...)
		b = strconv.AppendInt(b, int64(length), 10)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...), length, nil
}

func takesBody(method string) bool {
	return method == "POST" || method == "PUT" || method == "PATCH"
}

func validate(to *Origin, call *wire.Call) error {
	if to.addr == "" {
		return flaw("no origin")
	}
	if u := call.Upload; u != nil && (u.Open == nil || u.Length < 0 || len(call.Body) > 0) {
		return flaw("malformed upload")
	}
	if !wire.IsToken(call.Method) {
		return flaw("malformed method")
	}
	if !strings.HasPrefix(call.Path, "/") || !wire.IsVisible(call.Path) || strings.Contains(call.Path, "#") {
		return flaw("malformed path")
	}
	for i := range call.Header {
		h := &call.Header[i]
		if !wire.IsToken(h.Name) {
			return flaw("malformed field name")
		}
		if !wire.IsText(h.Value) {
			return flaw("malformed field value")
		}
		if isOurs(h.Name) {
			return flaw("call sets a field that the transport owns")
		}
	}
	return nil
}

// isOurs reports whether a field decides where a message goes and where it ends.
func isOurs(name string) bool {
	for _, own := range [...]string{"host", "upgrade", "trailer", "connection", "keep-alive", "content-length",
		"accept-encoding", "transfer-encoding"} {
		if wire.IsNamed(name, own) {
			return true
		}
	}
	return false
}

const (
	// inlineLimit is the longest body that is written before the reply is awaited: it
	// fits into the buffers of both kernels, and writing it does not wait for a backend
	// that answers without reading. A goroutine for every ordinary chat request would
	// cost more than its write.
	inlineLimit = 64 << 10
	// recordSize is how much is gathered for one write where pieces cannot be
	// handed over together; it is the largest TLS record.
	recordSize = 16 << 10
	// stretch is the longest write under one deadline on TLS, where a connection is
	// useless once a write has timed out: long enough to be cheap, short enough that
	// a slow link moves it within any sensible limit.
	stretch = 4 * recordSize
)

// write sends head and body. It fails with a timeout when nothing moves for
// limit (zero: never); up to twice that can pass, because only the moment of
// waking shows whether anything moved.
func (c *conn) write(head []byte, body [][]byte, limit time.Duration) error {
	if c.vector {
		return c.writeVector(head, body, limit)
	}
	return c.writePieces(head, body, limit)
}

// gather returns the pieces of a request in the connection's own list.
func (c *conn) gather(head []byte, body [][]byte) [][]byte {
	all := append(c.vec[:0], head)
	for _, segment := range body {
		if len(segment) > 0 {
			all = append(all, segment)
		}
	}
	c.vec = all
	return all
}

func (c *conn) writeVector(head []byte, body [][]byte, limit time.Duration) error {
	all := c.gather(head, body)
	due := after(time.Now(), limit)
	c.writes.arrange(due)
	var err error
	for {
		var n int64
		n, err = c.vec.WriteTo(c.nc) // moves c.vec past the written bytes
		if err == nil || !expired(err) {
			break
		}
		now := time.Now()
		if n > 0 {
			due = after(now, limit)
		}
		if !due.IsZero() && !now.Before(due) {
			break
		}
		c.writes.reset(due)
	}
	c.vec = all[:0] // WriteTo dropped the pieces: no body is held
	return err
}

// writePieces gathers small pieces and writes long ones as they are.
func (c *conn) writePieces(head []byte, body [][]byte, limit time.Duration) error {
	scratch := c.client.scratch.Get().(*[]byte)
	defer c.client.putScratch(scratch)
	*scratch = append((*scratch)[:0], head...)
	for _, segment := range body {
		for len(segment) > 0 {
			gathered := len(*scratch)
			if gathered == 0 && len(segment) >= recordSize {
				n := min(len(segment), stretch)
				if err := c.writeOnce(segment[:n], limit); err != nil {
					return err
				}
				segment = segment[n:]
				continue
			}
			n := min(len(segment), max(recordSize-gathered, 0))
			*scratch = append(*scratch, segment[:n]...)
			segment = segment[n:]
			if gathered+n < recordSize {
				continue
			}
			if err := c.writeOnce(*scratch, limit); err != nil {
				return err
			}
			*scratch = (*scratch)[:0]
		}
	}
	if len(*scratch) == 0 {
		return nil
	}
	return c.writeOnce(*scratch, limit)
}

// writeFrom sends head and length bytes of body, a record at a time.
func (c *conn) writeFrom(head []byte, body io.Reader, length int64, limit time.Duration) error {
	scratch := c.client.scratch.Get().(*[]byte)
	defer c.client.putScratch(scratch)
	*scratch = slices.Grow(append((*scratch)[:0], head...), recordSize)
	for {
		gathered := len(*scratch)
		piece := (*scratch)[:gathered+int(min(length, recordSize))]
		n, err := io.ReadFull(body, piece[gathered:])
		if err != nil {
			return &sourceError{unexpectedEOF(err)}
		}
		if err := c.writeOnce(piece, limit); err != nil {
			return err
		}
		if length -= int64(n); length == 0 {
			return nil
		}
		*scratch = (*scratch)[:0]
	}
}

func (c *conn) writeOnce(p []byte, limit time.Duration) error {
	due := after(time.Now(), limit)
	if !due.IsZero() || !c.writes.at.IsZero() {
		c.writes.reset(due)
	}
	_, err := c.nc.Write(p)
	return err
}

// upload is a long body on its way, written by a goroutine of its own while
// the call awaits the reply.
type upload struct {
	done     chan struct{}
	answered atomic.Bool // the head of the reply has come

	// Valid once done is closed.
	err      error
	endedAt  time.Time
	panicked *logs.Panic // see discard
}

// startUpload sends a head in the background, and behind it a body, or the upload
// unless that is nil. Their memory is in use until done is closed. Closing the
// connection hastens that.
func startUpload(c *conn, head []byte, body [][]byte, from *wire.Upload, limit time.Duration) *upload {
	u := &upload{done: make(chan struct{})}
	go func() {
		var err error
		u.panicked = logs.Try(func() {
			if from != nil {
				err = c.writeFrom(head, from.Open(), from.Length, limit)
			} else {
				err = c.write(head, body, limit)
			}
		})
		if u.panicked != nil {
			err = &sourceError{u.panicked}
		}
		if err == nil {
			c.sent.Store(true)
		}
		u.err, u.endedAt = err, time.Now()
		close(u.done)
		// The reader notices a broken connection by itself, but not that a whole one takes
		// no more bytes, or that the upload has none for it. An answer that has begun may
		// be read to its end all the same.
		_, ours := err.(*sourceError)
		if (ours || expired(err)) && !u.answered.Load() {
			c.abort()
		}
	}()
	return u
}

// finished reports whether the upload has ended, well or not.
func (u *upload) finished() bool {
	select {
	case <-u.done:
		return true
	default:
		return false
	}
}
