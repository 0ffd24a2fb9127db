package transport

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
)

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		call wire.Call
		want string
	}{
		{
			"body in segments",
			wire.Call{
				Method: "POST", Path: "/v1/chat?x=1",
				Header: []wire.Header{{Name: "Authorization", Value: "Bearer k"}, {Name: "Content-Type", Value: "application/json"}},
				Body:   [][]byte{[]byte("{"), nil, []byte("}")},
			},
			"POST /v1/chat?x=1 HTTP/1.1\r\nHost: h:1\r\nAccept-Encoding: identity\r\n" +
				"Authorization: Bearer k\r\nContent-Type: application/json\r\nUser-Agent: patchbay\r\nContent-Length: 2\r\n\r\n{}",
		},
		{
			"no body", wire.Call{Method: "GET", Path: "/"},
			"GET / HTTP/1.1\r\nHost: h:1\r\nAccept-Encoding: identity\r\nUser-Agent: patchbay\r\n\r\n",
		},
		{
			"empty post", wire.Call{Method: "POST", Path: "/"},
			"POST / HTTP/1.1\r\nHost: h:1\r\nAccept-Encoding: identity\r\nUser-Agent: patchbay\r\nContent-Length: 0\r\n\r\n",
		},
		{
			"own user agent", wire.Call{Method: "GET", Path: "/", Header: []wire.Header{{Name: "user-agent", Value: "x"}}},
			"GET / HTTP/1.1\r\nHost: h:1\r\nAccept-Encoding: identity\r\nuser-agent: x\r\n\r\n",
		},
	}
	for _, tt := range tests {
		m := &memory{in: strings.NewReader(ok)}
		r, err := offline(t, m).Send(t.Context(), new(origin(t, "http://h:1")), &tt.call, Timeouts{})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.want, string(m.wrote)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
		r.Close()
	}
}

func TestInvalidCallIsNotSent(t *testing.T) {
	t.Parallel()
	field := func(name, value string) wire.Call {
		return wire.Call{Method: "GET", Path: "/", Header: []wire.Header{{Name: name, Value: value}}}
	}
	calls := map[string]wire.Call{
		"CRLF in value":     field("A", "secret\r\nX: y"),
		"LF in value":       field("A", "secret\n"),
		"NUL in value":      field("A", "secret\x00"),
		"LF in name":        field("A\n", "secret"),
		"space in name":     field("A B", "secret"),
		"no name":           field("", "secret"),
		"content length":    field("content-length", "5"),
		"transfer encoding": field("Transfer-Encoding", "chunked"),
		"host":              field("Host", "secret"),
		"connection":        field("Connection", "secret"),
		"accept encoding":   field("Accept-Encoding", "gzip"),
		"upgrade":           field("Upgrade", "h2c"),
		"method":            {Method: "GET /x", Path: "/"},
		"no method":         {Path: "/"},
		"relative path":     {Method: "GET", Path: "x"},
		"space in path":     {Method: "GET", Path: "/a b"},
		"CRLF in path":      {Method: "GET", Path: "/ HTTP/1.1\r\nX: secret"},
		"fragment":          {Method: "GET", Path: "/a#b"},
		"absolute":          {Method: "GET", Path: "http://other/"},
		"upload and body":   {Method: "POST", Path: "/", Upload: &wire.Upload{Open: func() io.Reader { return nil }}, Body: [][]byte{nil}},
		"empty upload":      {Method: "POST", Path: "/", Upload: &wire.Upload{}},
	}
	for name, call := range calls {
		m := &memory{in: strings.NewReader(ok)}
		_, err := offline(t, m).Send(t.Context(), new(origin(t, "http://h:1")), &call, Timeouts{})
		is(t, err, ErrProtocol, ErrInvalidCall)
		if len(m.wrote) > 0 {
			t.Errorf("%s: sent %q", name, m.wrote)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: error repeats the value: %v", name, err)
		}
	}
	_, err := New(Options{}).Send(t.Context(), &Origin{}, &wire.Call{Method: "GET", Path: "/"}, Timeouts{})
	is(t, err, ErrInvalidCall)
}

// Bodies of all sizes arrive whole, as vectors on TCP and in pieces elsewhere.
func TestBodyArrivesWhole(t *testing.T) {
	t.Parallel()
	to := backend(t, func(p *peer) {
		for {
			body, ok := p.request()
			if !ok {
				return
			}
			p.say(chunkedHead)
			w := chunks{p}
			io.WriteString(w, body)
			p.say("0\r\n\r\n")
		}
	})
	c := client(t, Options{})
	for _, size := range []int{0, 1, 4 << 10, recordSize - 1, recordSize, recordSize + 1, inlineLimit, inlineLimit + 1, 1 << 20} {
		text := strings.Repeat("0123456789abcdef", size/16+1)[:size]
		third := size / 3
		r, got := mustAsk(t, c, to, post(text[:third], "", text[third:2*third], text[2*third:]))
		if got != text {
			t.Errorf("size %d: %d bytes came back", size, len(got))
		}
		if r.Reused != (size > 0) {
			t.Errorf("size %d: reused %v", size, r.Reused)
		}
		m := &memory{in: strings.NewReader(ok)}
		mustAsk(t, offline(t, m), to, post(text[:third], "", text[third:2*third], text[2*third:]))
		if !strings.HasSuffix(string(m.wrote), "\r\n\r\n"+text) {
			t.Errorf("size %d: pieces did not arrive whole", size)
		}
	}
}

// chunks writes each piece as a chunk.
type chunks struct{ w io.Writer }

func (c chunks) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), 10000)
		_, err := io.WriteString(c.w, chunk(string(rest[:n])))
		if err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// A backend that refuses a long request without reading it is heard, and its
// connection is not used again.
func TestEarlyReplyToLongRequest(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	to := backend(t, func(p *peer) {
		p.say("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
		<-release // stays open and does not read
	})
	defer close(release)
	c := client(t, Options{})
	r, body := mustAsk(t, c, to, post(strings.Repeat("x", 32<<20)))
	if r.Status != 413 || body != "big" {
		t.Errorf("got %d %q", r.Status, body)
	}
	if n := idleCount(c); n != 0 {
		t.Errorf("%d connections kept", n)
	}
}

// The same when the backend closes, so that our writing breaks.
func TestEarlyReplyThenClose(t *testing.T) {
	t.Parallel()
	to := backend(t, func(p *peer) {
		p.say("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno")
		p.CloseWrite()
		p.in.Peek(1) // closing with unread bytes resets
	})
	c := client(t, Options{})
	for _, size := range []int{10, inlineLimit, 8 << 20} {
		// Reset can overtake the reply for the reader as for any client;
		// what may not happen is a hang or a wrong answer.
		r, body, err := ask(t, c, to, post(strings.Repeat("x", size)))
		if err == nil && (r.Status != 401 || body != "no") {
			t.Errorf("size %d: got %d %q", size, r.Status, body)
		}
		if err != nil && !errors.Is(err, ErrReset) {
			t.Errorf("size %d: %v", size, err)
		}
	}
}

// brokenPipe fails to write but has a reply waiting.
type brokenPipe struct{ memory }

func (*brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestReplyIsReadAfterFailedWrite(t *testing.T) {
	t.Parallel()
	dial := func(reply string) *Client {
		return client(t, Options{Dial: dialTo(&brokenPipe{memory{in: strings.NewReader(reply)}})})
	}
	for _, size := range []int{10, inlineLimit + 1} {
		c := dial("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
		r, body := mustAsk(t, c, origin(t, "http://h"), post(strings.Repeat("x", size)))
		if r.Status != 403 || body != "no" || idleCount(c) != 0 {
			t.Errorf("size %d: got %d %q, %d kept", size, r.Status, body, idleCount(c))
		}
		_, _, err := ask(t, dial(""), origin(t, "http://h"), post(strings.Repeat("x", size)))
		is(t, err, ErrReset)
	}
}

// A long request that keeps moving is not cut by the limits of the reply, which
// only begin when it has left.
func TestSlowUploadIsNotATimeout(t *testing.T) {
	t.Parallel()
	const limit, size = time.Second, 1 << 20
	slow := func(in *bufio.Reader, out io.Writer) {
		for total := 0; total < size; total += size / 16 {
			time.Sleep(limit * 9 / 10) //nolint:forbidigo // the time of a synctest bubble
			if _, err := io.CopyN(io.Discard, in, size/16); err != nil {
				return
			}
		}
		_, _ = io.WriteString(out, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
		_, _ = io.Copy(io.Discard, in)
	}
	inMemory(t, slow, func(t *testing.T, c *Client) {
		began := time.Now()
		r, err := c.Send(t.Context(), new(origin(t, "http://h")), post(strings.Repeat("x", size)), Timeouts{FirstByte: limit, Idle: limit})
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		if took := time.Since(began); took < 10*limit {
			t.Errorf("the upload took %v only", took)
		}
	})
}
