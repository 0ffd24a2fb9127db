package transport

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// uploading is a call whose body is read while it is sent.
func uploading(length int, open func() io.Reader) *wire.Call {
	return &wire.Call{Method: "POST", Path: "/v1/audio/transcriptions", Upload: &wire.Upload{Length: int64(length), Open: open}}
}

func TestUploadArrivesWhole(t *testing.T) {
	to := backend(t, func(p *peer) {
		for {
			body, alive := p.request()
			if !alive {
				return
			}
			p.say(chunkedHead)
			io.WriteString(chunks{p}, body)
			p.say("0\r\n\r\n")
		}
	})
	c := client(t, Options{})
	for i, size := range []int{0, 1, recordSize - 1, recordSize, recordSize + 1, 2*recordSize + 1, 1 << 20} {
		text := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		r, body := mustAsk(t, c, to, uploading(size, func() io.Reader { return iotest.HalfReader(strings.NewReader(text + "more")) }))
		if body != text || r.Reused != (i > 0) || r.resent {
			t.Errorf("size %d: %d bytes came back, reused %v, resent %v", size, len(body), r.Reused, r.resent)
		}
	}
}

// An upload that gives less than it announced is our fault: the backend sees
// the connection end, and the call is not sent again.
func TestUploadEndsEarly(t *testing.T) {
	broken := errors.New("disk gone")
	for name, source := range map[string]func() io.Reader{
		"short":  func() io.Reader { return strings.NewReader("short") },
		"broken": func() io.Reader { return io.MultiReader(strings.NewReader("short"), iotest.ErrReader(broken)) },
	} {
		gone := make(chan int, 1)
		to := backend(t, func(p *peer) {
			p.request()
			gone <- p.n
		})
		_, _, err := ask(t, client(t, Options{}), to, uploading(100_000, source))
		is(t, err, ErrInvalidCall)
		isNot(t, err, ErrReset, ErrConnect, ErrTimeout)
		if name == "broken" {
			is(t, err, broken)
		}
		if err != nil && strings.Contains(err.Error(), "disk") {
			t.Errorf("text of the cause is shown: %v", err)
		}
		if n := waittest.Receive(t, "backend noticing", gone); n != 0 {
			t.Errorf("%s: sent again", name)
		}
	}
}

// Every sending of an upload starts at its beginning.
func TestUploadIsSentAgainWhole(t *testing.T) {
	first, second := &breaks{memory: memory{in: strings.NewReader(ok)}, after: 3}, &memory{in: strings.NewReader(ok)}
	c := client(t, Options{Dial: scripted(first, second)})
	to := origin(t, "http://h")
	mustAsk(t, c, to, post("x"))
	r, _ := mustAsk(t, c, to, uploading(4, func() io.Reader { return strings.NewReader("body") }))
	if !r.resent || !strings.HasSuffix(string(second.wrote), "Content-Length: 4\r\n\r\nbody") {
		t.Errorf("resent %v, sent %q", r.resent, second.wrote)
	}
}

func TestEarlyReplyToUpload(t *testing.T) {
	release := make(chan struct{})
	to := backend(t, func(p *peer) {
		p.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
		<-release // stays open and does not read
	})
	defer close(release)
	c := client(t, Options{})
	zeros := func() io.Reader { return strings.NewReader(strings.Repeat("x", 32<<20)) }
	r, body := mustAsk(t, c, to, uploading(32<<20, zeros))
	if r.Status != 413 || body != "big" || idleCount(c) != 0 {
		t.Errorf("got %d %q, %d kept", r.Status, body, idleCount(c))
	}
}

// An upload that panics does so on the goroutine of its call, and the backend sees the connection
// end.
func TestAPanicOfAnUploadIsRaisedAtItsCall(t *testing.T) {
	gone := make(chan struct{})
	to := backend(t, func(p *peer) {
		p.request()
		close(gone)
	})
	c := client(t, Options{})
	caught := logs.Try(func() {
		_, _ = c.Send(t.Context(), &to, uploading(100_000, func() io.Reader { panic("a fault of ours") }), Timeouts{})
	})
	if caught == nil || caught.Error() != "a fault of ours" {
		t.Errorf("the call ended with %v", caught)
	}
	waittest.Receive(t, "backend noticing", gone)
}
