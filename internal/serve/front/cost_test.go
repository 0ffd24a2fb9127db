package front

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// A request takes the request itself, its context, URL, body and reply in one piece, and
// two headers with a copy of each name and value that is not well known.
// None of that is used again. Buffers are.
func TestAllocationsPerRequest(t *testing.T) {
	contentType, length := []string{"application/json"}, []string{"2"}
	reply := []byte("{}")
	buf := make([]byte, 1<<10)
	_, c := listen(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := r.Body.Read(buf); err != nil {
				break
			}
		}
		w.Header()["Content-Type"], w.Header()["Content-Length"] = contentType, length
		_, _ = w.Write(reply)
	})
	request := []byte("POST /v1/x HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer secret\r\nUser-Agent: test\r\nAccept: */*\r\n" +
		"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
	answer := make([]byte, 4<<10)
	n := testing.AllocsPerRun(500, func() {
		if _, err := c.Write(request); err != nil {
			t.Fatal(err)
		}
		if n, err := c.Read(answer); err != nil || string(answer[n-2:n]) != "{}" {
			t.Fatalf("%q, %v", answer[:n], err)
		}
	})
	if n > 9 {
		t.Errorf("%v allocations", n)
	}
	t.Logf("%v allocations", n)
}

// Every event of a stream leaves without an allocation.
func TestAllocationsPerEvent(t *testing.T) {
	event := []byte("data: {\"choices\":[]}\n\n")
	next := make(chan struct{})
	_, c := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		flusher := w.(interface{ FlushError() error })
		for range next {
			if _, err := w.Write(event); err != nil {
				return
			}
			if flusher.FlushError() != nil {
				return
			}
		}
	})
	defer close(next)
	say(t, c, post("{}"))
	answer := make([]byte, 4<<10)
	n := testing.AllocsPerRun(500, func() {
		next <- struct{}{}
		if _, err := c.Read(answer); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// repeating is a connection on which the same request comes again and again.
type repeating struct {
	net.Conn
	request []byte
	left    int
}

func (r *repeating) Read(p []byte) (int, error) {
	switch {
	case len(p) == 1: // nothing comes ahead of the next request
		return 0, os.ErrDeadlineExceeded
	case r.left == 0:
		return 0, io.EOF
	}
	r.left--
	return copy(p, r.request), nil
}

func (*repeating) Write(p []byte) (int, error)      { return len(p), nil }
func (*repeating) Close() error                     { return nil }
func (*repeating) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
func (*repeating) SetReadDeadline(time.Time) error  { return nil }
func (*repeating) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkRequest is the server's own part of a request with the headers that a client
// library sends, without the kernel's.
func BenchmarkRequest(b *testing.B) {
	value, reply, buf := []string{"application/json"}, make([]byte, 1<<10), make([]byte, 4<<10)
	s := newServer(func(w http.ResponseWriter, r *http.Request) {
		for {
			if _, err := r.Body.Read(buf); err != nil {
				break
			}
		}
		header := w.Header()
		header["X-Request-Id"] = []string{r.Header["X-Request-Id"][0]}
		for _, name := range [...]string{"X-Content-Type-Options", "Access-Control-Allow-Origin", "X-Router-Instance", "X-Router-Attempts", "Content-Type"} {
			header[name] = value
		}
		w.(*response).AnnounceLength(int64(len(reply)))
		_, _ = w.Write(reply)
	})
	nc := &repeating{left: b.N, request: []byte("POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n" +
		"Accept: application/json\r\nContent-Type: application/json\r\nUser-Agent: OpenAI/Python 2.1.0\r\nX-Stainless-Lang: python\r\n" +
		"X-Stainless-Package-Version: 2.1.0\r\nX-Stainless-OS: Linux\r\nX-Stainless-Arch: x64\r\nX-Stainless-Runtime: CPython\r\n" +
		"X-Stainless-Runtime-Version: 3.13.1\r\nAuthorization: Bearer pb-0123456789abcdef0123456789abcdef\r\nX-Stainless-Async: false\r\n" +
		"x-stainless-retry-count: 0\r\nx-stainless-read-timeout: 600\r\nX-Request-Id: 0123456789abcdef\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1<<10))}
	b.ReportAllocs()
	newConn(s, nc).serve()
}
