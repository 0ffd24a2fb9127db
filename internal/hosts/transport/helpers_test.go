package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is the backend's end of one connection.
type peer struct {
	*net.TCPConn
	in *bufio.Reader
	n  int // connections accepted before this one
}

// request reads one request and its body.
func (p *peer) request() (string, bool) {
	req, err := http.ReadRequest(p.in)
	if err != nil {
		return "", false
	}
	body, err := io.ReadAll(req.Body)
	return string(body), err == nil
}

func (p *peer) say(s string) { _, _ = io.WriteString(p, s) }

// backend listens on loopback and runs script for each connection; closing the
// connection is left to the end of script. It is gone when the test is.
func backend(t testing.TB, script func(p *peer)) Origin {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	all.Go(func() {
		for n := 0; ; n++ {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[nc] = true
			mu.Unlock()
			all.Go(func() {
				script(&peer{TCPConn: nc.(*net.TCPConn), in: bufio.NewReader(nc), n: n})
				nc.Close()
				mu.Lock()
				delete(open, nc)
				mu.Unlock()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for nc := range open {
			nc.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return origin(t, "http://"+ln.Addr().String())
}

// answering is a backend that gives one reply to every request.
func answering(t testing.TB, reply string) Origin {
	return backend(t, func(p *peer) {
		for {
			if _, ok := p.request(); !ok {
				return
			}
			p.say(reply)
		}
	})
}

func origin(t testing.TB, base string) Origin {
	t.Helper()
	o, err := ParseOrigin(base)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func client(t testing.TB, o Options) *Client {
	c := New(o)
	t.Cleanup(c.Close)
	return c
}

// inMemory runs a test in a bubble of its own time, with a client whose connections are
// pipes to script. What the test measures is exact there, however busy the machine is.
func inMemory(t *testing.T, script func(in *bufio.Reader, out io.Writer), run func(t *testing.T, c *Client)) {
	synctest.Test(t, func(t *testing.T) {
		var peers sync.WaitGroup
		defer peers.Wait()
		c := New(Options{Dial: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			peers.Go(func() {
				defer theirs.Close()
				script(bufio.NewReader(theirs), theirs)
			})
			return ours, nil
		}})
		defer c.Close()
		run(t, c)
	})
}

func post(body ...string) *wire.Call {
	call := &wire.Call{Method: "POST", Path: "/v1/chat/completions"}
	for _, s := range body {
		call.Body = append(call.Body, []byte(s))
	}
	return call
}

// ask sends a call and reads the whole reply.
func ask(t testing.TB, c *Client, to Origin, call *wire.Call) (*Response, string, error) {
	t.Helper()
	r, err := c.Send(t.Context(), &to, call, Timeouts{Connect: waittest.Limit, FirstByte: waittest.Limit, Idle: waittest.Limit})
	if err != nil {
		return nil, "", err
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	return r, string(body), err
}

func mustAsk(t testing.TB, c *Client, to Origin, call *wire.Call) (*Response, string) {
	t.Helper()
	r, body, err := ask(t, c, to, call)
	if err != nil {
		t.Fatalf("call failed: %v", err)
	}
	return r, body
}

// idleCount is the number of connections that are kept.
func idleCount(c *Client) int {
	c.idle.mu.Lock()
	defer c.idle.mu.Unlock()
	n := 0
	for _, s := range c.idle.stacks {
		n += len(s.conns)
	}
	return n
}

// is checks the classes of an error, those it must not have with a nil before.
func is(t testing.TB, err error, want ...error) {
	t.Helper()
	for _, class := range want {
		if !errors.Is(err, class) {
			t.Errorf("error %v is not %v", err, class)
		}
	}
}

func isNot(t testing.TB, err error, unwanted ...error) {
	t.Helper()
	for _, class := range unwanted {
		if errors.Is(err, class) {
			t.Errorf("error %v is %v", err, class)
		}
	}
}

// memory is a connection that reads given bytes, at most step at a time, and
// forgets what is written.
type memory struct {
	in    *strings.Reader
	step  int
	read  int // bytes handed out
	wrote []byte
	done  bool
}

func (m *memory) Read(p []byte) (int, error) {
	if m.done {
		return 0, net.ErrClosed
	}
	if m.step > 0 {
		p = p[:min(len(p), m.step)]
	}
	n, err := m.in.Read(p)
	m.read += n
	return n, err
}
func (m *memory) Write(p []byte) (int, error)      { m.wrote = append(m.wrote, p...); return len(p), nil }
func (m *memory) Close() error                     { m.done = true; return nil }
func (m *memory) LocalAddr() net.Addr              { return nil }
func (m *memory) RemoteAddr() net.Addr             { return nil }
func (m *memory) SetDeadline(time.Time) error      { return nil }
func (m *memory) SetReadDeadline(time.Time) error  { return nil }
func (m *memory) SetWriteDeadline(time.Time) error { return nil }

// offline is a client whose every connection is m.
func offline(t testing.TB, m *memory) *Client {
	return client(t, Options{Dial: func(context.Context, string, string) (net.Conn, error) { return m, nil }})
}

func dialTo(nc net.Conn) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) { return nc, nil }
}

// chunk frames s as one chunk.
func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }
