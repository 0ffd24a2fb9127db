package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/front"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Conn is a client's connection as net/http's server sees it. It does three things
// that the server cannot be configured to do: it detects requests that can be read in two
// ways (see framing), it replaces the plain text of the server's own
// refusals (400, 431 and so on, before any handler runs) by the error body of all other
// refusals, and it bounds the time for which a client may send no body or read no
// reply.
type Conn struct {
	net.Conn

	mu       sync.Mutex // the server reads while a handler runs
	busy     bool       // a request is being answered
	answered int        // how many requests were answered before it
	framing  framing
	replied  bool   // the reply has begun
	handled  bool   // the handler of the latest request has returned
	isHTTP10 bool   // the request is HTTP/1.0, which has no interim replies
	probe    func() // see ProbeWith

	writing sync.Mutex // keeps an interim reply out of the middle of another write

	deadlines deadlines
	tls       *tls.ConnectionState // nil without encryption
}

// Listener hands out connections as *Conn.
type Listener struct{ net.Listener }

// Accept waits for the next connection.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c, tls: encryptionOf(c)}, nil
}

// encryptionOf returns what is known of the encryption of a connection, or nil if
// there is none. The server finds it only in connections of type *tls.Conn.
func encryptionOf(c net.Conn) *tls.ConnectionState {
	encrypted, ok := c.(*tls.Conn)
	if around, is := c.(interface{ NetConn() net.Conn }); is && !ok {
		encrypted, ok = around.NetConn().(*tls.Conn)
	}
	if !ok {
		return nil
	}
	state := encrypted.ConnectionState()
	return &state
}

type connKey struct{}

// ConnContext puts the connection into the context of its requests. It is for
// http.Server.ConnContext.
func ConnContext(ctx context.Context, c net.Conn) context.Context {
	if conn, ok := c.(*Conn); ok {
		return context.WithValue(ctx, connKey{}, conn)
	}
	return ctx
}

func connOf(ctx context.Context) *Conn {
	conn, _ := ctx.Value(connKey{}).(*Conn)
	return conn
}

// ConnState tells a connection that its request has ended. It is for
// http.Server.ConnState. The return of the handler would be too early, because the
// server then still reads what the handler left of the body.
func ConnState(c net.Conn, state http.ConnState) {
	conn, ok := c.(*Conn)
	if !ok || state != http.StateIdle {
		return
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	conn.busy, conn.replied, conn.probe = false, false, nil
	conn.answered++
	conn.deadlines.endRequest()
}

// begin notes that a request is being answered. It returns why the request can be read in
// two ways, or nil if it cannot.
func (c *Conn) begin(r *http.Request) *front.Refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.handled, c.isHTTP10 = true, false, !r.ProtoAtLeast(1, 1)
	r.TLS = c.tls
	return c.framing.ambiguity(c.answered + 1)
}

// noteHandled notes that the handler has returned.
func (c *Conn) noteHandled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handled = true
}

// Close closes the connection. If its client still sends the body of a request that was
// answered, as the server does not wait for it after "Connection: close", that is
// discarded for a moment: a socket that is closed before all was read is reset, which
// the client may take for the outcome instead of the reply.
func (c *Conn) Close() error {
	c.mu.Lock()
	isSending := c.handled && c.framing.inBody()
	c.mu.Unlock()
	if isSending {
		c.linger()
	}
	return c.Conn.Close()
}

func (c *Conn) linger() {
	const longest = 500 * time.Millisecond
	socket, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || socket.CloseWrite() != nil {
		return
	}
	_ = c.Conn.SetReadDeadline(time.Now().Add(longest))
	_, _ = io.Copy(io.Discard, c.Conn)
}

// Read reads from the client and passes the bytes to framing. While a request is being
// answered they are its body, except that the server reads a single byte to notice
// that the client leaves: that byte begins the next request.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) > 1 && c.isBusy() {
		c.deadlines.boundBodyRead(c.Conn)
	} else {
		c.deadlines.clearReadDeadline(c.Conn)
	}
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.deadlines.received(n)
		c.mu.Lock()
		c.framing.write(p[:n])
		c.mu.Unlock()
	}
	if n == 0 && errors.Is(err, io.EOF) && len(p) == 1 && c.isBusy() {
		err = c.halfClosed()
	}
	return n, err
}

func (c *Conn) isBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy
}

// beginReply notes that a reply has begun, and reports whether a handler runs.
func (c *Conn) beginReply() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replied = true
	return c.busy
}

// Write writes to the client, and replaces a refusal that the server wrote itself. The
// server writes one only where no handler runs: while one runs, bytes that look like a
// refusal are part of its reply.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.deadlines.boundWrite(c.Conn, len(p))
	if c.beginReply() {
		return c.Conn.Write(p)
	}
	status, ok := refusedWith(p)
	if !ok {
		return c.Conn.Write(p)
	}
	if _, err := c.Conn.Write(refusal(status)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// SetReadDeadline replaces the read deadline that deadlines set. The server calls it
// before it waits for the client to leave, and with a time long ago to end that wait,
// which may be before the goroutine that waits has begun to.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.deadlines.replaceReadDeadline(c.Conn, t) }

// SetWriteDeadline replaces the write deadline that deadlines set. The server calls it
// between requests, to clear the deadline.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.deadlines.forgetWriteDeadline()
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline is SetWriteDeadline and SetReadDeadline.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

var (
	statusStart = []byte("HTTP/1.1 ")
	// refusalHead is the whole header of the server's own refusals. A handler's reply
	// always has more fields, in another order.
	refusalHead = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	// An expectation that the server does not know is refused without a body.
	noExpectation = []byte("417 Expectation Failed")
	emptyBody     = []byte("\r\nContent-Length: 0\r\n")
)

// refusedWith returns the status line's code and reason if p is a refusal of
// the server.
func refusedWith(p []byte) (status string, ok bool) {
	const longestStatus = 64
	rest, ok := bytes.CutPrefix(p, statusStart)
	if !ok {
		return "", false
	}
	if bytes.HasPrefix(rest, noExpectation) && bytes.Contains(rest, emptyBody) {
		return string(noExpectation), true
	}
	end := bytes.Index(rest[:min(len(rest), longestStatus)], refusalHead[:2])
	if end < 0 || !bytes.HasPrefix(rest[end:], refusalHead) {
		return "", false
	}
	return string(rest[:end]), true
}

// refusal is the reply in place of the server's own.
func refusal(status string) []byte {
	return RefusalOf(status, schema.NewError(schema.CodeInvalidHTTP, "The request is not valid HTTP ("+status+")."))
}

// ErrorOf returns what a client is told whose request is refused by the front, or would be.
func ErrorOf(r front.Refusal) *schema.Error {
	code := schema.CodeInvalidHTTP
	if r.Framing {
		code = schema.CodeInvalidBody
	}
	return schema.NewError(code, r.Message)
}

// RefusalOf is the whole reply to a request that no handler gets, with its status
// line's code and reason. The connection ends with it.
func RefusalOf(status string, err *schema.Error) []byte {
	body := err.Body()
	return fmt.Appendf(nil, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Request-Id: %s\r\n"+
		"Access-Control-Allow-Origin: *\r\nLink: </docs/errors#%s>; rel=\"help\"\r\nConnection: close\r\n\r\n%s", status, len(body), newRequestID(), err.Code, body)
}

// MaxHeaderBytes is the largest head of a request, with room for long credentials and
// trace headers.
const MaxHeaderBytes = 64 << 10
