package front

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// What a handler was given for a request stays as it was when the next request of the
// connection is served, and nothing that the handler does with it reaches that request.
func TestRequestsOfAConnectionShareNothing(t *testing.T) {
	t.Parallel()
	type given struct {
		request *http.Request
		writer  http.ResponseWriter
	}
	var all []given
	_, c := listen(t, func(w http.ResponseWriter, r *http.Request) {
		all = append(all, given{r, w})
		_, _ = io.Copy(io.Discard, r.Body)
		r.Pattern = "POST /v1/x"
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		if len(all) == 1 {
			w.Header().Set("X-First", "1")
			_, _ = io.WriteString(w, "first")
			return
		}
		first := all[0]
		if err := first.request.Context().Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("the context of the first request has ended with %v", err)
		}
		if err := r.Context().Err(); err != nil {
			t.Errorf("that of the second one with %v", err)
		}
		if n, err := first.writer.Write([]byte("late")); err == nil {
			t.Errorf("%d bytes were written to a reply that was complete", n)
		}
		if err := http.NewResponseController(first.writer).Flush(); err == nil {
			t.Error("a reply that was complete was flushed")
		}
		if _, err := first.request.Body.Read(make([]byte, 8)); err == nil {
			t.Error("the body of another request was read")
		}
		first.writer.Header().Set("X-Late", "1")
		first.writer.(*response).ProbeWith(func() { t.Error("the probe of another request is used") })
		_, _ = io.WriteString(w, "second")
	})
	replies := bufio.NewReader(c)
	for i, request := range []string{
		"POST /v1/x?a=b HTTP/1.1\r\nHost: h\r\nX-Once: 1\r\nX-Once: 2\r\nContent-Length: 2\r\n\r\n{}", post("{}"),
	} {
		say(t, c, request)
		response, text := hear(t, replies)
		if want := [...]string{"first", "second"}[i]; text != want || response.Header.Get("X-Late") != "" || i == 1 && response.Header.Get("X-First") != "" {
			t.Errorf("%q with %v, want %q", text, response.Header, want)
		}
	}
	first, second := all[0].request, all[1].request
	if first == second || first.URL == second.URL || first.Context() == second.Context() || all[0].writer == all[1].writer {
		t.Error("something is used again")
	}
	if first.URL.RawQuery != "a=b" || !slices.Equal(first.Header["X-Once"], []string{"1", "2"}) || first.Form.Get("a") != "b" {
		t.Errorf("the first request has changed: %v, %v, %v", first.URL, first.Header, first.Form)
	}
	if second.URL.RawQuery != "" || second.Header["X-Once"] != nil || second.Form.Get("a") != "" {
		t.Errorf("something is left for the second request: %v, %v, %v", second.URL, second.Header, second.Form)
	}
}

// Package context takes notice of the end of a request on a goroutine of its own, which
// may run when the next request of the connection is already there. It panics if the
// context has no error then.
func TestContextsThatAreWatchedForLongerThanTheirRequest(t *testing.T) {
	t.Parallel()
	const requests = 50
	var children []context.Context
	next, late := make(chan struct{}), make(chan error, requests)
	_, c := listen(t, func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		child, cancel := context.WithCancel(ctx)
		children = append(children, child)
		context.AfterFunc(ctx, func() {
			<-next // until another request is served
			late <- ctx.Err()
			cancel()
		})
		if len(children) == requests {
			close(next)
			for range requests - 1 {
				if err := <-late; !errors.Is(err, context.Canceled) {
					t.Errorf("the context of an earlier request: %v", err)
				}
			}
		}
	})
	replies := bufio.NewReader(c)
	for range requests {
		say(t, c, post(""))
		hear(t, replies)
	}
	for _, child := range children {
		<-child.Done()
	}
}

// Whoever keeps a value of a header, or the target, keeps that and not the whole head.
func TestValuesDoNotKeepTheHeadInMemory(t *testing.T) {
	const requests, padding = 200, 60 << 10
	kept := make([][]string, 0, requests)
	_, c := listen(t, func(_ http.ResponseWriter, r *http.Request) {
		var names []string
		for name := range r.Header {
			if name != "X-Padding" {
				names = append(names, name)
			}
		}
		kept = append(kept, append(names, r.Method, r.URL.Path, r.RequestURI, r.Host,
			r.Header.Get("X-Request-Id"), r.Header.Get("X-Twice"), r.Header["X-Twice"][1]))
	})
	send := func() {
		say(t, c, "POST /v1/x HTTP/1.1\r\nHost: h\r\nX-Request-Id: "+strings.Repeat(" ", 1<<10)+"id"+strings.Repeat("\t", 1<<10)+
			"\r\nX-Twice: a\r\nX-Twice: b\r\nX-Padding: "+strings.Repeat("x", padding)+"\r\nContent-Length: 0\r\n\r\n")
		if response, _ := hear(t, bufio.NewReader(c)); response.StatusCode != http.StatusOK {
			t.Fatalf("status %d", response.StatusCode)
		}
	}
	send()
	before := heap()
	for range requests {
		send()
	}
	if grown := heap() - before; grown > requests*padding/10 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	runtime.KeepAlive(kept)
}

// A server keeps nothing of the requests that it has answered, and connections that wait
// have no buffer, however large the heads were.
func TestMemoryAllocatedForLargeHeadsIsGivenBack(t *testing.T) {
	const clients, requests, padding = 20, 10_000, 20 << 10
	s, first := listen(t, echo)
	head := "POST /v1/x HTTP/1.1\r\nHost: h\r\nX-Padding: " + strings.Repeat("x", padding) + "\r\n" + strings.Repeat("X: y\r\n", 100)
	bodies := []string{"Content-Length: 2\r\n\r\n{}", "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"}
	conns := make([]net.Conn, clients)
	readers := make([]*bufio.Reader, clients)
	for i := range conns {
		c, err := net.Dial("tcp", first.RemoteAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		conns[i], readers[i] = c, bufio.NewReader(c)
	}
	send := func(n int) {
		say(t, conns[n%clients], head+bodies[n%len(bodies)])
		if response, got := hear(t, readers[n%clients]); response.StatusCode != http.StatusOK || got != "{}" {
			t.Fatalf("%d %q", response.StatusCode, got)
		}
	}
	for n := range clients {
		send(n)
	}
	before := heap()
	for n := range requests {
		send(n)
	}
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	runtime.KeepAlive(s)
}

// heap returns how many bytes are in use.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one leaves what pools have for the second
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
