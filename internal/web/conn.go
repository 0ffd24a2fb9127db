package web

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Conn stands between the HTTP server and a client's connection. It does the
// three things that the server cannot be told to do: it notices a head with two
// lengths for one body, it gives the server's own refusals, which come before
// any handler runs, the error body that every other refusal has, and it does
// not wait for ever for a client that neither sends its body nor takes its
// reply.
type Conn struct {
	net.Conn

	mu    sync.Mutex // the server reads on while a handler runs
	busy  bool       // a request is being answered
	head  headWatch
	early []byte // of the next request, read while the last one was answered

	patience patience
}

// Listener hands out connections as *Conn.
type Listener struct{ net.Listener }

// Accept waits for the next connection.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: c}, nil
}

type connKey struct{}

// ConnContext makes the connection known to its requests; it goes into
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

// ConnState tells a connection that it awaits its next request; it goes into
// http.Server.ConnState. A handler's end would be too early: the server then
// still reads what the handler left of the body.
func ConnState(c net.Conn, state http.ConnState) {
	conn, ok := c.(*Conn)
	if !ok || state != http.StateIdle {
		return
	}
	conn.mu.Lock()
	defer conn.mu.Unlock()
	conn.busy, conn.head = false, headWatch{}
	conn.head.write(conn.early)
	conn.early = conn.early[:0]
	conn.patience.ended()
}

// ambiguous begins the answer to a request and reports whether its head may
// have had both lengths. A head that was not seen whole, because it came along
// with the request before it, is beyond suspicion only if it has one.
func (c *Conn) ambiguous(r *http.Request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = true
	if c.head.isOf(r) {
		return c.head.length && c.head.encoding
	}
	// The server drops the losing length from the header before anybody sees it.
	return len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) && r.ContentLength != 0
}

// Read passes the client's bytes on and watches the heads among them. While a
// request is answered they are its body, except for the single byte by which
// the server notices that a client left: that one begins the next request.
func (c *Conn) Read(p []byte) (int, error) {
	body := len(p) > 1 && c.isBusy()
	if body {
		c.patience.forBody(c.Conn)
	} else {
		c.patience.forNews(c.Conn)
	}
	n, err := c.Conn.Read(p)
	switch {
	case n <= 0:
	case body:
		c.patience.got(n)
	default:
		c.noteHead(p[:n])
	}
	return n, err
}

func (c *Conn) isBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy
}

// noteHead looks at bytes that are of a head, this one or the next.
func (c *Conn) noteHead(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy {
		c.early = append(c.early, p...)
	} else {
		c.head.write(p)
	}
}

// Write passes replies on, except for a refusal of the server's own.
func (c *Conn) Write(p []byte) (int, error) {
	c.patience.forWrite(c.Conn, len(p))
	status, ok := refusedWith(p)
	if !ok {
		return c.Conn.Write(p)
	}
	if _, err := c.Conn.Write(refusal(status)); err != nil {
		return 0, err
	}
	return len(p), nil
}

var (
	statusStart = []byte("HTTP/1.1 ")
	// refusalHead is all that the server's refusals have for a head. A handler's
	// reply always has more, and in another order.
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
	body := ErrorBody(&schema.Error{
		Message: "The request is not valid HTTP (" + status + ").",
		Type:    schema.TypeInvalidRequest,
		Code:    schema.CodeInvalidHTTP,
	})
	return fmt.Appendf(nil, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Request-Id: %s\r\n"+
		"Access-Control-Allow-Origin: *\r\nConnection: close\r\n\r\n%s", status, len(body), newRequestID(), body)
}

// headWatch looks at the lines of a head as they come, however they are cut,
// for the two fields that must not stand together.
type headWatch struct {
	length, encoding bool
	ended            bool   // the empty line was seen; what follows is no head
	request          string // the beginning of the request line
	start            [24]byte
	n                int  // bytes of the current line in start
	long             bool // the line is longer than start
}

// isOf reports whether the head that was seen is, from its first line to its
// last, the one of a request.
func (h *headWatch) isOf(r *http.Request) bool {
	return h.ended && strings.HasPrefix(r.Method+" "+r.RequestURI+" "+r.Proto, h.request)
}

func (h *headWatch) write(p []byte) {
	for len(p) > 0 && !h.ended {
		stop := bytes.IndexByte(p, '\n')
		line := p
		if stop >= 0 {
			line = p[:stop]
		}
		taken := copy(h.start[h.n:], line)
		h.n += taken
		h.long = h.long || taken < len(line)
		if stop < 0 {
			return
		}
		h.line()
		p = p[stop+1:]
	}
}

// line looks at a whole line of the head.
func (h *headWatch) line() {
	text := h.start[:h.n]
	empty := len(bytes.TrimRight(text, "\r")) == 0 && !h.long
	switch {
	case h.request == "": // empty lines before a request are skipped by the server, too
		if !empty {
			h.request = string(bytes.TrimRight(text, "\r"))
		}
	case empty:
		h.ended = true
	case hasFieldName(text, "content-length"):
		h.length = true
	case hasFieldName(text, "transfer-encoding"):
		h.encoding = true
	}
	h.n, h.long = 0, false
}

func hasFieldName(line []byte, name string) bool {
	return len(line) > len(name) && line[len(name)] == ':' && strings.EqualFold(string(line[:len(name)]), name)
}

// MaxHeaderBytes bounds the head of a request: room for long credentials and
// traces, and no more.
const MaxHeaderBytes = 64 << 10

var _ http.Handler = (*Shell)(nil)
