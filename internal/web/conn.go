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
// two things that the server cannot be told to do: it notices a head with two
// lengths for one body, and it gives the server's own refusals, which come
// before any handler runs, the error body that every other refusal has.
type Conn struct {
	net.Conn

	mu   sync.Mutex // the server reads on while a handler runs
	busy bool       // a handler is answering
	head headWatch
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

// handling says that a handler begins or ends its answer.
func (c *Conn) handling(begins bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !begins {
		c.head = headWatch{}
	}
	c.busy = begins
}

// ambiguous reports whether the head of the current request had both lengths.
func (c *Conn) ambiguous() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head.length && c.head.encoding
}

// Read passes the client's bytes on and watches the heads among them. While a
// handler runs they are a body, or already the next request, which the server
// does not take before the handler is done.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.mu.Lock()
		if !c.busy {
			c.head.write(p[:n])
		}
		c.mu.Unlock()
	}
	return n, err
}

// Write passes replies on, except for a refusal of the server's own.
func (c *Conn) Write(p []byte) (int, error) {
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
)

// refusedWith returns the status line's code and reason if p is a refusal of
// the server.
func refusedWith(p []byte) (status string, ok bool) {
	const longestStatus = 64
	rest, ok := bytes.CutPrefix(p, statusStart)
	if !ok {
		return "", false
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
	return fmt.Appendf(nil, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
}

// headWatch looks at the lines of a head as they come, however they are cut,
// for the two fields that must not stand together.
type headWatch struct {
	length, encoding bool
	ended            bool // the empty line was seen; what follows is no head
	start            [24]byte
	n                int  // bytes of the current line in start
	long             bool // the line is longer than start
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
	switch {
	case len(bytes.TrimRight(text, "\r")) == 0 && !h.long:
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
