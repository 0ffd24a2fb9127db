package transport

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// short is a limit that runs out in the tests. How late that is seen depends on the
// machine; which limit it was, the error says.
const short = 40 * time.Millisecond

func TestTimeouts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		serve  func(p *peer)
		call   *wire.Call
		secure bool
		limits Timeouts
		want   error
		not    error
	}{
		{"handshake", func(p *peer) {}, post("x"), true, Timeouts{Connect: short}, ErrConnectTimeout, ErrReset},
		{"write", func(p *peer) {}, post(strings.Repeat("x", 64<<20)), false, Timeouts{Idle: short}, ErrWriteTimeout, ErrReset},
		{"write, by the first byte's limit", func(p *peer) {}, post(strings.Repeat("x", 64<<20)), false, Timeouts{FirstByte: short}, ErrWriteTimeout, ErrReset},
		{"upload", func(p *peer) {}, uploading(64<<20, func() io.Reader { return strings.NewReader(strings.Repeat("x", 64<<20)) }), false, Timeouts{Idle: short}, ErrWriteTimeout, ErrReset},
		{"first byte", func(p *peer) { p.request() }, post("x"), false, Timeouts{FirstByte: short, Idle: waittest.Limit}, ErrFirstByteTimeout, ErrReset},
		{"first byte after a long request", func(p *peer) { p.request() }, post(strings.Repeat("x", 1<<20)), false, Timeouts{FirstByte: short, Idle: waittest.Limit}, ErrFirstByteTimeout, ErrWriteTimeout},
		{"rest of the head", func(p *peer) { p.request(); p.say("HTTP/1.1 200") }, post("x"), false, Timeouts{FirstByte: short, Idle: waittest.Limit}, ErrFirstByteTimeout, ErrReset},
		{"after an interim reply", func(p *peer) { p.request(); p.say("HTTP/1.1 100 Continue\r\n\r\n") }, post("x"), false, Timeouts{FirstByte: short, Idle: waittest.Limit}, ErrFirstByteTimeout, ErrReset},
		{"idle", func(p *peer) { p.request(); p.say(chunkedHead + chunk("x")) }, post("x"), false, Timeouts{FirstByte: waittest.Limit, Idle: short}, ErrIdleTimeout, ErrReset},
		{"idle, fixed length", func(p *peer) { p.request(); p.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx") }, post("x"), false, Timeouts{FirstByte: waittest.Limit, Idle: short}, ErrIdleTimeout, ErrReset},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			gone := make(chan struct{}, 1)
			over := make(chan struct{})
			to := backend(t, func(p *peer) {
				tt.serve(p)
				if tt.want == ErrWriteTimeout {
					<-over // without reading
				}
				io.Copy(io.Discard, p.in)
				gone <- struct{}{}
			})
			if tt.secure {
				to = origin(t, "https://"+to.Addr())
			}
			c := client(t, Options{})
			start := time.Now()
			r, err := c.Send(t.Context(), &to, tt.call, tt.limits)
			if err == nil {
				_, err = io.ReadAll(r)
				r.Close()
			}
			took := time.Since(start)
			close(over)
			is(t, err, ErrTimeout, tt.want)
			isNot(t, err, tt.not, context.DeadlineExceeded)
			if took < short {
				t.Errorf("took %v", took)
			}
			if n := idleCount(c); n != 0 {
				t.Errorf("%d connections kept", n)
			}
			waittest.Receive(t, "backend noticing", gone)
		})
	}
}

func TestConnectTimeoutBoundsDialling(t *testing.T) {
	t.Parallel()
	c := client(t, Options{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done() // as a resolver that does not answer
		return nil, ctx.Err()
	}})
	_, err := c.Send(t.Context(), new(origin(t, "http://h")), post("x"), Timeouts{Connect: short})
	is(t, err, ErrConnectTimeout, ErrConnect, ErrTimeout)
	isNot(t, err, context.DeadlineExceeded)
}

func TestConnectErrors(t *testing.T) {
	t.Parallel()
	_, err := client(t, Options{}).Send(t.Context(), new(origin(t, "http://"+waittest.Nobody(t))), post("x"), Timeouts{Connect: waittest.Limit})
	is(t, err, ErrConnect, syscall.ECONNREFUSED)
	isNot(t, err, ErrTimeout, ErrReset)

	_, err = client(t, Options{}).Send(t.Context(), new(origin(t, "http://169.254.169.254")), post("x"), Timeouts{})
	is(t, err, ErrConnect, outgoing.ErrForbidden)
}

// Events that keep coming are never cut, however long the stream lasts, and
// silence is cut after the limit and not before: the limit runs from the last
// event although the deadline of the connection was set long before.
func TestIdleRunsFromTheLastEvent(t *testing.T) {
	t.Parallel()
	const idle, events = time.Second, 12
	gone := make(chan struct{})
	talk := func(in *bufio.Reader, out io.Writer) {
		_, _ = http.ReadRequest(in)
		_, _ = io.WriteString(out, chunkedHead)
		for range events {
			time.Sleep(idle * 9 / 10) //nolint:forbidigo // the time of a synctest bubble
			_, _ = io.WriteString(out, chunk("data: x\n\n"))
		}
		_, _ = io.Copy(io.Discard, in)
		close(gone)
	}
	inMemory(t, talk, func(t *testing.T, c *Client) {
		began := time.Now()
		r, err := c.Send(t.Context(), new(origin(t, "http://h")), post("x"), Timeouts{Idle: idle})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		body, err := io.ReadAll(r)
		is(t, err, ErrIdleTimeout)
		if len(body) != events*len("data: x\n\n") {
			t.Errorf("%d bytes came", len(body))
		}
		if took := time.Since(began); took != events*idle*9/10+idle {
			t.Errorf("cut after %v", took)
		}
		<-gone // before Close
	})
}

// A deadline bounds all reads until it is taken back.
func TestSetDeadline(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	to := backend(t, func(p *peer) {
		p.request()
		p.say(chunkedHead)
		for s := range next {
			p.say(s)
		}
		p.in.ReadByte()
	})
	c := client(t, Options{})
	r, err := c.Send(t.Context(), &to, post("x"), Timeouts{Idle: waittest.Limit})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	buf := make([]byte, 10)
	r.SetDeadline(time.Now().Add(waittest.Limit))
	next <- chunk("a")
	if _, err := r.Read(buf); err != nil {
		t.Fatal(err)
	}
	r.SetDeadline(time.Now().Add(-time.Second))
	next <- chunk("b")
	r.SetDeadline(time.Time{}) // one that passed unused does no harm
	if _, err := r.Read(buf); err != nil {
		t.Fatal(err)
	}
	r.SetDeadline(time.Now().Add(short))
	_, err = r.Read(buf)
	is(t, err, ErrTimeout, ErrDeadline)
	isNot(t, err, ErrIdleTimeout)
	if _, again := r.Read(buf); again != err {
		t.Errorf("second read: %v", again)
	}
	close(next)
}

// A connection whose deadlines passed while it was idle serves again, with
// limits and without.
func TestOldDeadlinesDoNotReachTheNextCall(t *testing.T) {
	t.Parallel()
	to := answering(t, ok)
	c := client(t, Options{})
	for i, limits := range []Timeouts{{FirstByte: waittest.Limit, Idle: waittest.Limit}, {}, {FirstByte: waittest.Limit, Idle: waittest.Limit}, {FirstByte: 2 * waittest.Limit, Idle: 2 * waittest.Limit}} {
		r, err := c.Send(t.Context(), &to, post("x"), limits)
		if err != nil {
			t.Fatal(err)
		}
		io.ReadAll(r)
		r.Close()
		if r.Reused != (i > 0) || r.resent {
			t.Errorf("call %d: reused %v, resent %v", i, r.Reused, r.resent)
		}
		pass(c)
	}
}

// pass makes the deadlines of the idle connections lie in the past.
func pass(c *Client) {
	c.idle.mu.Lock()
	defer c.idle.mu.Unlock()
	for _, s := range c.idle.stacks {
		for _, cn := range s.conns {
			cn.reads.reset(time.Unix(1, 0))
			cn.writes.reset(time.Unix(1, 0))
		}
	}
}

// A timeout on a reused connection is not answered by sending again.
func TestTimeoutIsNotSentAgain(t *testing.T) {
	t.Parallel()
	requests := make(chan string, 10)
	to := backend(t, func(p *peer) {
		for {
			body, alive := p.request()
			if !alive {
				return
			}
			requests <- body
			if body == "1" {
				p.say(ok)
			}
		}
	})
	c := client(t, Options{})
	mustAsk(t, c, to, post("1"))
	_, err := c.Send(t.Context(), &to, post("2"), Timeouts{FirstByte: short})
	is(t, err, ErrFirstByteTimeout)
	mustAsk(t, c, to, post("1"))
	// The backend may be slow to see the second one, whose connection is another.
	seen := []string{waittest.Receive(t, "a request", requests), waittest.Receive(t, "a request", requests), waittest.Receive(t, "a request", requests)}
	slices.Sort(seen)
	if !slices.Equal(seen, []string{"1", "1", "2"}) || len(requests) != 0 {
		t.Errorf("backend saw %q and %d more", seen, len(requests))
	}
}
