package transport

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/waittest"
)

// outlet uses whole lines, but none that begins with a star.
type outlet struct {
	got     strings.Builder
	flushed chan string // gets what was passed on so far; nil for nobody
	flushes int
}

func (o *outlet) Pass(came []byte) (used int) {
	for {
		end := bytes.IndexByte(came[used:], '\n')
		if end < 0 || came[used] == '*' {
			return used
		}
		o.got.Write(came[used : used+end+1])
		used += end + 1
	}
}

func (o *outlet) Flush() time.Time {
	o.flushes++
	if o.flushed != nil {
		o.flushed <- o.got.String()
	}
	return time.Now()
}

// forwardAll forwards what it can and reads the rest line by line, as a stream with
// events of two kinds would.
func forwardAll(r *Response, to *outlet) (all string, err error) {
	one := make([]byte, 1)
	for {
		r.Forward(to)
		for {
			n, err := r.Read(one)
			if err != nil {
				return to.got.String(), err
			}
			to.got.Write(one[:n])
			if one[0] == '\n' {
				break
			}
		}
	}
}

// However a body is cut into chunks and segments, and however much of it the outlet
// uses, all of it comes once and in order.
func TestForwardAndReadTogetherGetTheWholeBody(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var lines strings.Builder
	for range 400 {
		lines.WriteString([]string{"", "*"}[random.IntN(8)/7] + strings.Repeat("x", random.IntN(300)) + "\n")
	}
	body := lines.String()
	to := backend(t, func(p *peer) {
		for {
			if _, ok := p.request(); !ok {
				return
			}
			var framed strings.Builder
			framed.WriteString(chunkedHead)
			for rest := body; rest != ""; {
				n := min(len(rest), 1+random.IntN(1000))
				framed.WriteString(chunk(rest[:n]))
				rest = rest[n:]
			}
			framed.WriteString("0\r\n\r\n")
			for rest := framed.String(); rest != ""; {
				n := min(len(rest), 1+random.IntN(3000))
				p.say(rest[:n])
				rest = rest[n:]
			}
		}
	})
	c := client(t, Options{})
	for range 20 {
		r, err := c.Send(t.Context(), &to, post("x"), Timeouts{Connect: waittest.Limit, FirstByte: waittest.Limit, Idle: waittest.Limit})
		if err != nil {
			t.Fatal(err)
		}
		all, err := forwardAll(r, &outlet{})
		if err != io.EOF || all != body {
			t.Fatalf("%d of %d bytes, %v", len(all), len(body), err)
		}
		_ = r.Close()
	}
	if n := idleCount(c); n != 1 {
		t.Errorf("%d connections are kept, want the one that served all calls", n)
	}
}

// Whatever was passed on is flushed before the wait for more, and a stream that waits
// holds no buffer.
func TestForwardFlushesBeforeItWaits(t *testing.T) {
	next := make(chan string)
	to := backend(t, func(p *peer) {
		p.request()
		p.say(chunkedHead)
		for text := range next {
			p.say(chunk(text))
		}
		p.say("0\r\n\r\n")
	})
	r, err := client(t, Options{}).Send(t.Context(), &to, post("x"), Timeouts{Connect: waittest.Limit, FirstByte: waittest.Limit})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := &outlet{flushed: make(chan string)}
	ended := make(chan error, 1)
	go func() {
		_, err := forwardAll(r, out)
		ended <- err
	}()
	want := ""
	for got := waittest.Receive(t, "the first wait", out.flushed); len(want) < 8; got = waittest.Receive(t, "another wait", out.flushed) {
		if got != want {
			t.Fatalf("flushed %q, want %q", got, want)
		}
		next <- "ab\n"
		want += "ab\n"
	}
	close(next)
	if err := waittest.Receive(t, "the end", ended); err != io.EOF {
		t.Error(err)
	}
}

// What ends a stream that is forwarded is what Read would have said.
func TestForwardLeavesErrorsToRead(t *testing.T) {
	for name, c := range map[string]struct {
		script func(p *peer, silent chan struct{})
		want   error
	}{
		"cut off":   {func(p *peer, silent chan struct{}) { p.say(chunk("line\n") + "5\r\nli") }, ErrReset},
		"reset":     {func(p *peer, silent chan struct{}) { p.say(chunk("line\n")); _ = p.SetLinger(0) }, ErrReset},
		"malformed": {func(p *peer, silent chan struct{}) { p.say(chunk("line\n") + "no size\r\n"); <-silent }, ErrProtocol},
		"silence":   {func(p *peer, silent chan struct{}) { p.say(chunk("line\n")); <-silent }, ErrIdleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			silent := make(chan struct{})
			defer close(silent)
			out := &outlet{flushed: make(chan string, 16)}
			to := backend(t, func(p *peer) {
				p.request()
				p.say(chunkedHead)
				c.script(p, silent)
			})
			limits := Timeouts{Connect: waittest.Limit, FirstByte: waittest.Limit, Idle: waittest.Limit}
			if name == "silence" {
				limits.Idle = 50 * time.Millisecond
			}
			r, err := client(t, Options{}).Send(t.Context(), &to, post("x"), limits)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			all, err := forwardAll(r, out)
			if name != "reset" && !strings.HasPrefix(all, "line\n") {
				t.Errorf("got %q", all)
			}
			is(t, err, c.want)
		})
	}
}

func TestForwardEndsWithItsContext(t *testing.T) {
	silent := make(chan struct{})
	defer close(silent)
	to := backend(t, func(p *peer) {
		p.request()
		p.say(chunkedHead + chunk("line\n"))
		<-silent
	})
	ctx, cancel := context.WithCancel(t.Context())
	r, err := client(t, Options{}).Send(ctx, &to, post("x"), Timeouts{Connect: waittest.Limit, FirstByte: waittest.Limit, Idle: waittest.Limit})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out := &outlet{flushed: make(chan string)}
	ended := make(chan error, 1)
	go func() {
		_, err := forwardAll(r, out)
		ended <- err
	}()
	for waittest.Receive(t, "the wait", out.flushed) != "line\n" {
	}
	cancel()
	is(t, waittest.Receive(t, "the end", ended), context.Canceled)
}
