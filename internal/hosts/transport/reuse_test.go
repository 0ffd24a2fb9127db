package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

func TestConnectionIsReused(t *testing.T) {
	t.Parallel()
	c := client(t, Options{})
	for _, reply := range []string{ok, chunkedHead + chunk("ok") + "0\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"} {
		to := answering(t, reply)
		for i := range 3 {
			if r, _ := mustAsk(t, c, to, post("x")); r.Reused != (i > 0) || r.resent {
				t.Errorf("%q, call %d: reused %v, resent %v", reply, i, r.Reused, r.resent)
			}
		}
	}
	// A body that is known to be complete need not be read to io.EOF.
	to := answering(t, ok)
	for i := range 3 {
		r, err := c.Send(t.Context(), &to, post("x"), Timeouts{})
		if err != nil || r.Reused != (i > 0) {
			t.Fatal(r, err)
		}
		io.ReadFull(r, make([]byte, 2))
		r.Close()
	}
}

// An idle connection keeps nothing of the calls it served.
func TestIdleConnectionHoldsNoMemory(t *testing.T) {
	t.Parallel()
	c := client(t, Options{})
	to := answering(t, ok)
	for _, size := range []int{10, inlineLimit + 1} {
		mustAsk(t, c, to, post("x", strings.Repeat("x", size)))
		cn := c.idle.pop(to.target)
		for _, piece := range cn.vec[:cap(cn.vec)] {
			if piece != nil {
				t.Errorf("%d bytes of a request are held", len(piece))
			}
		}
		if cn.buf != nil || cn.small != nil {
			t.Error("the buffer is held")
		}
		c.idle.put(cn, time.Minute, time.Now())
	}
}

// An error that an earlier call met and did not ask for is none of the next call's.
func TestCallsDoNotInheritErrors(t *testing.T) {
	t.Parallel()
	c := client(t, Options{})
	body := strings.Repeat("x", 4*socketBuffer)
	to := answering(t, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	mustAsk(t, c, to, post("x"))
	cn := c.idle.pop(to.target)
	cn.failed = io.EOF
	c.idle.put(cn, time.Minute, time.Now())
	if r, got := mustAsk(t, c, to, post("x")); !r.Reused || got != body {
		t.Errorf("reused %v, %d bytes", r.Reused, len(got))
	}
}

func TestCloseIsIdempotent(t *testing.T) {
	t.Parallel()
	c := client(t, Options{})
	to := answering(t, ok)
	r, _ := mustAsk(t, c, to, post("x"))
	for range 3 {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := idleCount(c); n != 1 {
		t.Errorf("%d connections kept", n)
	}
	if r.Header("content-length") != "2" {
		t.Error("fields are gone after Close")
	}
	r, err := c.Send(t.Context(), &to, post("x"), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
}

// Closing early keeps the connection when the rest is short and there, and
// closes it when the rest is long or has not come.
func TestCloseBeforeTheEnd(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, before, after string // sent before and after the caller read 2 bytes
		kept                bool
	}{
		{"short rest in the buffer", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789", "", true},
		{"last chunk in the buffer", chunkedHead + chunk("ok") + "0\r\n\r\n", "", true},
		{"last chunk on its way", chunkedHead + chunk("ok"), "0\r\n\r\n", true},
		{"rest not there", "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01", "", false},
		{"long rest", "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + strings.Repeat("x", 100000), "", false},
		{"stream goes on", chunkedHead + chunk("ok") + chunk(strings.Repeat("x", 10000)), "", false},
		{"until close", "HTTP/1.1 200 OK\r\n\r\nok", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			more, said, gone := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			to := backend(t, func(p *peer) {
				p.request()
				p.say(tt.before)
				<-more
				p.say(tt.after)
				close(said)
				_, err := p.in.ReadByte()
				gone <- err
			})
			c := client(t, Options{})
			r, err := c.Send(t.Context(), &to, post("x"), Timeouts{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(r, make([]byte, 2)); err != nil {
				t.Fatal(err)
			}
			close(more)
			waittest.Receive(t, "rest of the reply", said)
			r.Close()
			if kept := idleCount(c) == 1; kept != tt.kept {
				t.Errorf("kept %v", kept)
			}
			if !tt.kept {
				waittest.Receive(t, "backend noticing", gone)
			}
		})
	}
}

// A connection that was closed, or on which bytes came that nobody asked for,
// is not used: no call ever sees them.
func TestStaleConnectionIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(p *peer){
		"closed": func(p *peer) {},
		"reset":  func(p *peer) { p.SetLinger(0) },
		"smuggled reply": func(p *peer) {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
			p.in.ReadByte()
		},
	} {
		t.Run(name, func(t *testing.T) {
			again, closed := make(chan struct{}), make(chan struct{}, 1)
			to := backend(t, func(p *peer) {
				p.request()
				p.say(ok)
				if p.n > 0 {
					return
				}
				<-again
				end(p)
				p.CloseWrite()
				closed <- struct{}{}
			})
			c := client(t, Options{})
			mustAsk(t, c, to, post("1"))
			again <- struct{}{}
			if name == "smuggled reply" {
				// The backend leaves only when we closed; look at the socket
				// until the bytes are there.
				awaitBytes(t, c)
			} else {
				waittest.Receive(t, "backend closing", closed)
			}
			r, body := mustAsk(t, c, to, post("2"))
			if body != "ok" || r.Reused {
				t.Errorf("got %q, reused %v", body, r.Reused)
			}
		})
	}
}

// scripted hands out connections one after another.
func scripted(conns ...net.Conn) func(context.Context, string, string) (net.Conn, error) {
	var n atomic.Int32
	return func(context.Context, string, string) (net.Conn, error) {
		i := int(n.Add(1)) - 1
		if i >= len(conns) {
			return nil, errors.New("no more connections")
		}
		return conns[i], nil
	}
}

// breaks is a connection that breaks when it is written to the second time,
// after so many bytes.
type breaks struct {
	memory
	after  int
	writes int
}

func (b *breaks) Write(p []byte) (int, error) {
	if b.writes++; b.writes == 1 {
		return b.memory.Write(p)
	}
	return min(b.after, len(p)), syscall.EPIPE
}

// A call is sent again when, and only when, a reused connection did not take the
// whole of it and no byte of a reply came. What has left whole may have been
// worked on.
func TestSendingAgain(t *testing.T) {
	t.Parallel()
	mem := func(s string) net.Conn { return &memory{in: strings.NewReader(s), step: 1} } // no byte after a reply is seen with it
	cut := func(s string, after int) net.Conn {
		return &breaks{memory{in: strings.NewReader(s), step: 1}, after, 0}
	}
	for _, tt := range []struct {
		name   string
		conns  func() []net.Conn
		calls  int // the last one is judged
		resent bool
		fails  error
	}{
		{"nothing was taken", func() []net.Conn { return []net.Conn{cut(ok, 0), mem(ok)} }, 2, true, nil},
		{"a part was taken", func() []net.Conn { return []net.Conn{cut(ok, 5), mem(ok)} }, 2, true, nil},
		{"a part, then a byte", func() []net.Conn { return []net.Conn{cut(ok+"H", 5), mem(ok)} }, 2, false, ErrReset},
		{"taken whole, then silent", func() []net.Conn { return []net.Conn{mem(ok), mem(ok)} }, 2, false, ErrReset},
		{"taken whole, then a byte", func() []net.Conn { return []net.Conn{mem(ok + "H"), mem(ok)} }, 2, false, ErrReset},
		{"fresh", func() []net.Conn { return []net.Conn{mem(""), mem(ok)} }, 1, false, ErrReset},
		{"only once", func() []net.Conn { return []net.Conn{cut(ok, 0), mem(""), mem(ok)} }, 2, false, ErrReset},
		{"backend gone meanwhile", func() []net.Conn { return []net.Conn{cut(ok, 0)} }, 2, false, ErrConnect},
		{"malformed", func() []net.Conn { return []net.Conn{mem(ok + "XXXX\r\n\r\n"), mem(ok)} }, 2, false, ErrProtocol},
	} {
		for _, size := range []int{10, inlineLimit + 1} {
			t.Run(fmt.Sprintf("%s, %d bytes", tt.name, size), func(t *testing.T) {
				c := client(t, Options{Dial: scripted(tt.conns()...)})
				var r *Response
				var err error
				for range tt.calls {
					body := "x"
					if r != nil {
						body = strings.Repeat("x", size)
					}
					r, _, err = ask(t, c, origin(t, "http://h"), post(body))
				}
				if tt.fails != nil {
					is(t, err, tt.fails)
					return
				}
				if err != nil || r.resent != tt.resent || r.Reused {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
	}
}

// A server that says 408 and closes a connection which was idle for too long means no
// request. One that was on its way then goes out again, once.
func TestIdleTimeoutIsNoReply(t *testing.T) {
	t.Parallel()
	const timeout = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n"
	for name, test := range map[string]struct {
		first, fresh string // what the reused and the fresh connection say to the second request
		want         int
		resent       bool
	}{
		"closing":         {timeout + "Connection: close\r\n\r\n", ok, 200, true},
		"closing, always": {timeout + "Connection: close\r\n\r\n", timeout + "Connection: close\r\n\r\n", 408, true},
		"kept":            {timeout + "\r\n", ok, 408, false},
	} {
		for _, size := range []int{10, inlineLimit + 1} {
			t.Run(fmt.Sprint(name, size), func(t *testing.T) {
				to := backend(t, func(p *peer) {
					p.request()
					if p.n > 0 {
						p.say(test.fresh)
						return
					}
					p.say(ok)
					p.request()
					p.say(test.first)
				})
				c := client(t, Options{})
				mustAsk(t, c, to, post("first"))
				if r, _ := mustAsk(t, c, to, post(strings.Repeat("x", size))); r.Status != test.want || r.resent != test.resent {
					t.Errorf("status %d, resent %v", r.Status, r.resent)
				}
			})
		}
	}
}

// A backend that read a request, worked on it and then broke the connection has
// it once, also where the connection had served before.
func TestWhatABackendReadIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, inlineLimit + 1, 1 << 20} {
		for _, end := range []string{"closed", "reset"} {
			t.Run(fmt.Sprint(end, size), func(t *testing.T) {
				var read atomic.Int64
				to := backend(t, func(p *peer) {
					p.request()
					p.say(ok)
					if _, whole := p.request(); whole {
						read.Add(1)
					}
					if end == "reset" {
						p.SetLinger(0)
					}
				})
				c := client(t, Options{})
				mustAsk(t, c, to, post("first"))
				_, _, err := ask(t, c, to, post(strings.Repeat("x", size)))
				is(t, err, ErrReset)
				if read.Load() != 1 {
					t.Errorf("the backend read it %d times", read.Load())
				}
			})
		}
	}
}

// Backends close idle connections at random moments. Nobody's request is read
// twice, no reply goes to another's, and only who sends at that very moment
// sees it.
func TestStaleReuseRace(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	read := map[string]int{}
	to := backend(t, func(p *peer) {
		for {
			id, ok := p.request()
			if !ok {
				return
			}
			mu.Lock()
			read[id]++
			mu.Unlock()
			p.say(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(id), id))
			if rand.IntN(3) == 0 {
				// Now, or when the next request may just be on its way.
				for range rand.IntN(2000) {
					p.RemoteAddr()
				}
				if rand.IntN(2) == 0 {
					p.SetLinger(0)
				}
				return
			}
		}
	})
	c := client(t, Options{})
	const workers, each = 8, 625
	var all sync.WaitGroup
	var lost, resent atomic.Int64
	for w := range workers {
		all.Go(func() {
			for i := range each {
				id := fmt.Sprintf("%d/%d", w, i)
				r, body, err := ask(t, c, to, post(id))
				switch {
				case errors.Is(err, ErrReset):
					lost.Add(1)
				case err != nil || body != id:
					t.Errorf("%s: got %q, %v", id, body, err)
					return
				case r.resent:
					resent.Add(1)
				}
			}
		})
	}
	all.Wait()
	for id, times := range read {
		if times > 1 {
			t.Errorf("%s was read %d times", id, times)
		}
	}
	t.Logf("%d calls, %d lost, %d sent again, %d read", workers*each, lost.Load(), resent.Load(), len(read))
}

// A backend that says how long it keeps connections is believed, with a margin;
// one that says nothing is taken for one of those that close early.
func TestIdleTimeFollowsTheBackend(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]time.Duration{
		"":                                     4 * time.Second,
		"Keep-Alive: timeout=5\r\n":            4 * time.Second,
		"keep-alive: timeout=75, max=100\r\n":  74 * time.Second,
		"Keep-Alive: max=7, Timeout = 2\r\n":   time.Second,
		"Keep-Alive: timeout=1\r\n":            500 * time.Millisecond,
		"Keep-Alive: timeout=999999999999\r\n": 119 * time.Second,
		"Keep-Alive: max=7\r\n":                4 * time.Second,
		"Keep-Alive: timeout=soon\r\n":         4 * time.Second,
		"Keep-Alive: timeout=-1\r\n":           4 * time.Second,
	} {
		c := client(t, Options{})
		to := answering(t, "HTTP/1.1 200 OK\r\n"+field+"Content-Length: 2\r\n\r\nok")
		before := time.Now()
		mustAsk(t, c, to, post("x"))
		after := time.Now()
		cn := c.idle.pop(to.target)
		if cn.idleUntil.Before(before.Add(want)) || cn.idleUntil.After(after.Add(want)) {
			t.Errorf("%q: kept for %v, want %v", field, cn.idleUntil.Sub(before), want)
		}
		cn.abort()
	}
	c := client(t, Options{})
	mustAsk(t, c, answering(t, "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=0\r\nContent-Length: 2\r\n\r\nok"), post("x"))
	if n := idleCount(c); n != 0 {
		t.Error("a connection is kept that the backend does not keep")
	}
}

func TestIdleConnectionsAreCapped(t *testing.T) {
	t.Parallel()
	const cap = 3
	var together sync.WaitGroup
	together.Add(2 * cap)
	to := backend(t, func(p *peer) {
		p.request()
		together.Done()
		together.Wait()
		p.say(ok)
		p.in.ReadByte()
	})
	c := client(t, Options{MaxIdlePerHost: cap})
	var all sync.WaitGroup
	for range 2 * cap {
		all.Go(func() { ask(t, c, to, post("x")) })
	}
	all.Wait()
	if n := idleCount(c); n != cap {
		t.Errorf("%d connections kept", n)
	}
}

func TestIdleConnectionsExpire(t *testing.T) {
	t.Parallel()
	gone := make(chan error, 1)
	to := backend(t, func(p *peer) {
		p.request()
		p.say(ok)
		_, err := p.in.ReadByte()
		gone <- err
	})
	c := client(t, Options{IdleTimeout: 20 * time.Millisecond})
	mustAsk(t, c, to, post("x"))
	if err := waittest.Receive(t, "expiry", gone); err != io.EOF {
		t.Errorf("backend saw %v", err)
	}
	if n := idleCount(c); n != 0 {
		t.Errorf("%d connections kept", n)
	}
}

func TestClientClose(t *testing.T) {
	t.Parallel()
	gone := make(chan error, 2)
	hold := make(chan struct{})
	to := backend(t, func(p *peer) {
		body, _ := p.request()
		if body == "slow" {
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
			<-hold
			p.say("k")
		} else {
			p.say(ok)
		}
		_, err := p.in.ReadByte()
		gone <- err
	})
	c := New(Options{})
	slow, err := c.Send(t.Context(), &to, post("slow"), Timeouts{})
	if err != nil {
		t.Fatal(err)
	}
	mustAsk(t, c, to, post("x"))
	c.Close()
	c.Close()
	waittest.Receive(t, "idle connection closing", gone)
	close(hold)
	if body, err := io.ReadAll(slow); err != nil || string(body) != "ok" {
		t.Errorf("call under way was disturbed: %q, %v", body, err)
	}
	slow.Close()
	waittest.Receive(t, "last connection closing", gone)
	_, err = c.Send(t.Context(), &to, post("x"), Timeouts{})
	is(t, err, ErrConnect, net.ErrClosed)
}
