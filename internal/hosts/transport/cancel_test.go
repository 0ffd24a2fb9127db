package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// never is a limit beyond the patience of the tests: what ends within that ended
// because it was cancelled.
const never = time.Hour

var errGone = errors.New("client left")

// phase is a moment in the life of a call at which it can be cancelled.
type phase struct {
	name string
	// serve brings the call to that moment, calls ready and goes on.
	serve  func(p *peer, ready func())
	secure bool
	call   *wire.Call
	// reset says that the request is still leaving, so that an orderly end
	// would queue up behind it.
	reset bool
}

var phases = []phase{
	{name: "handshake", secure: true, call: post("x"), serve: func(p *peer, ready func()) {
		p.in.Peek(1)
		ready()
	}},
	{name: "writing", reset: true, call: post(strings.Repeat("x", 64<<20)), serve: func(p *peer, ready func()) {
		p.in.Peek(1)
		ready()
	}},
	{name: "uploading", reset: true, call: uploading(64<<20, func() io.Reader { return strings.NewReader(strings.Repeat("x", 64<<20)) }), serve: func(p *peer, ready func()) {
		p.in.Peek(1)
		ready()
	}},
	{name: "awaiting the head", call: post("x"), serve: func(p *peer, ready func()) {
		p.request()
		ready()
	}},
	{name: "within the head", call: post("x"), serve: func(p *peer, ready func()) {
		p.request()
		p.say("HTTP/1.1 200 OK\r\nX-")
		ready()
	}},
	{name: "awaiting the first event", call: post("x"), serve: func(p *peer, ready func()) {
		p.request()
		p.say(chunkedHead)
		ready()
	}},
	{name: "within the body", call: post("x"), serve: func(p *peer, ready func()) {
		p.request()
		p.say(chunkedHead + chunk("data: 1\n\n"))
		ready()
	}},
	{name: "answered while writing", reset: true, call: post(strings.Repeat("x", 64<<20)), serve: func(p *peer, ready func()) {
		p.in.Peek(1)
		p.say(chunkedHead + chunk("data: 1\n\n"))
		ready()
	}},
}

// In every phase, cancelling ends the call with the context's error and cause,
// and the backend notices.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, ph := range phases {
		t.Run(ph.name, func(t *testing.T) {
			ready, gone := make(chan struct{}), make(chan struct{}, 1)
			to := backend(t, func(p *peer) {
				ph.serve(p, func() { close(ready) })
				_, err := io.Copy(io.Discard, p.in)
				gone <- struct{}{}
				if ph.reset && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("backend saw %v", err)
				}
			})
			if ph.secure {
				to = origin(t, "https://"+to.Addr())
			}
			c := client(t, Options{})
			ctx, cancel := context.WithCancelCause(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- drainAll(ctx, c, to, ph.call) }()
			waittest.Receive(t, "reaching the phase", ready)
			cancel(errGone)
			err := waittest.Receive(t, "end of the call", ended)
			is(t, err, context.Canceled, errGone)
			isNot(t, err, ErrReset, ErrTimeout, ErrConnect)
			waittest.Receive(t, "backend noticing", gone)
			if n := idleCount(c); n != 0 {
				t.Errorf("%d connections kept", n)
			}
		})
	}
}

func drainAll(ctx context.Context, c *Client, to Origin, call *wire.Call) error {
	r, err := c.Send(ctx, &to, call, Timeouts{Connect: never, FirstByte: never, Idle: never})
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return err
}

// The backend notices even when nobody is reading the reply.
func TestCancelBetweenReads(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{}, 1)
	to := backend(t, func(p *peer) {
		p.request()
		p.say(chunkedHead + chunk("x"))
		p.in.ReadByte()
		gone <- struct{}{}
	})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := client(t, Options{}).Send(ctx, &to, post("x"), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cancel()
	waittest.Receive(t, "backend noticing", gone)
}

func TestCancelWhileDialling(t *testing.T) {
	t.Parallel()
	dialling := make(chan struct{})
	c := client(t, Options{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		close(dialling)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Send(ctx, new(origin(t, "http://h")), post("x"), Timeouts{Connect: waittest.Limit})
		ended <- err
	}()
	waittest.Receive(t, "dialling", dialling)
	cancel(errGone)
	err := waittest.Receive(t, "end of the call", ended)
	is(t, err, context.Canceled, errGone)
	isNot(t, err, ErrConnect)
}

func TestCancelledBeforeSending(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &memory{in: strings.NewReader(ok)}
	_, err := offline(t, m).Send(ctx, new(origin(t, "http://h")), post("x"), Timeouts{})
	is(t, err, context.Canceled)
	if len(m.wrote) > 0 {
		t.Errorf("sent %q", m.wrote)
	}
}

func TestContextDeadlineIsNotOurTimeout(t *testing.T) {
	t.Parallel()
	to := backend(t, func(p *peer) { p.request(); p.in.ReadByte() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := client(t, Options{}).Send(ctx, &to, post("x"), Timeouts{FirstByte: waittest.Limit})
	is(t, err, context.DeadlineExceeded)
	isNot(t, err, ErrTimeout)
}

// The request's memory is free when the call has ended, however it ended.
func TestBodyIsReleasedAtTheEnd(t *testing.T) {
	t.Parallel()
	const early = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
	for name, reply := range map[string]string{"answered early": early, "no answer": ""} {
		t.Run(name, func(t *testing.T) {
			to := backend(t, func(p *peer) {
				p.in.Peek(1)
				p.say(reply)
				if reply != "" {
					io.Copy(io.Discard, p.in)
				}
			})
			c := client(t, Options{})
			body := bytes.Repeat([]byte("x"), 32<<20)
			for range 3 {
				r, err := c.Send(t.Context(), &to, &wire.Call{Method: "POST", Path: "/", Body: [][]byte{body}}, Timeouts{FirstByte: waittest.Limit})
				if err == nil {
					r.Close()
				}
				clear(body) // the race detector objects if it is still being read
			}
		})
	}
}

// A context that ends after its call has no hold on the connection any more.
func TestCancelAfterTheEnd(t *testing.T) {
	t.Parallel()
	var conns atomic.Int32
	to := backend(t, func(p *peer) {
		conns.Add(1)
		for {
			if _, alive := p.request(); !alive {
				return
			}
			p.say(ok)
		}
	})
	c := client(t, Options{})
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		if err := drainAll(ctx, c, to, post("x")); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	if n := conns.Load(); n != 1 {
		t.Errorf("%d connections were needed", n)
	}
}

// A context that ends before Close takes the connection with it, although the
// reply is complete.
func TestCancelBeforeClose(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	to := backend(t, func(p *peer) {
		p.request()
		p.say(ok)
		p.in.ReadByte()
		close(gone)
	})
	c := client(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := c.Send(ctx, &to, post("x"), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(r); err != nil || string(body) != "ok" {
		t.Errorf("got %q, %v", body, err)
	}
	cancel()
	waittest.Receive(t, "backend noticing", gone)
	r.Close()
	if n := idleCount(c); n != 0 {
		t.Errorf("%d connections kept", n)
	}
}

// Replies complete at the very moment their contexts end: no connection that
// is kept may be closed by a late cancellation, and no reply may go astray.
func TestCancelRaceDoesNotPoisonThePool(t *testing.T) {
	t.Parallel()
	to := backend(t, func(p *peer) {
		for {
			id, ok := p.request()
			if !ok {
				return
			}
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n" + id)
		}
	})
	c := client(t, Options{})
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range 500 {
				id := strings.Repeat(string(rune('a'+w)), 4) + strings.Repeat(string(rune('a'+i%26)), 4)
				ctx, cancel := context.WithCancel(t.Context())
				if i%2 == 0 {
					go cancel()
				}
				r, err := c.Send(ctx, &to, post(id), Timeouts{FirstByte: waittest.Limit, Idle: waittest.Limit})
				var body []byte
				if err == nil {
					body, err = io.ReadAll(r)
					r.Close()
				}
				if err != nil && (i%2 == 1 || !errors.Is(err, context.Canceled)) {
					t.Errorf("call %d: %v", i, err)
				}
				if err == nil && string(body) != id {
					t.Errorf("call %d: got %q for %q", i, body, id)
				}
				cancel()
			}
		})
	}
	all.Wait()
}
