package web

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/serve/front"
)

// oneConn is a listener of one connection, which is in memory.
type oneConn struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error   { close(l.done); return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

// overHTTP2 serves a handler behind a shell and returns a client that speaks HTTP/2
// with it, in the time of the test.
func overHTTP2(t *testing.T, handler http.HandlerFunc) *http.Client {
	t.Helper()
	return clientOf(t, NewShell(handler, Options{Log: slog.New(slog.DiscardHandler)}))
}

// clientOf serves requests with a shell and returns a client that speaks HTTP/2 with it.
func clientOf(t *testing.T, shell *Shell) *http.Client {
	t.Helper()
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	listener := &oneConn{make(chan net.Conn, 1), make(chan struct{})}
	server := &http.Server{Handler: shell, Protocols: &protocols, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	transport := &http.Transport{Protocols: &protocols, DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		listener.conns <- theirs
		return ours, nil
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-ended
	})
	return &http.Client{Transport: transport}
}

// A request of HTTP/2 whose body does not come is not waited for longer than one of
// HTTP/1.1.
func TestBodiesThatDoNotComeOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := overHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			got, err := io.ReadAll(r.Body)
			if !errors.Is(err, os.ErrDeadlineExceeded) || string(got) != "half" || time.Since(began) != front.BaseAllowance {
				t.Errorf("%q with %v after %s", got, err, time.Since(began))
			}
			w.WriteHeader(http.StatusRequestTimeout)
		})
		body, half := io.Pipe()
		go func() { _, _ = io.WriteString(half, "half") }()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://gateway.test/", body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		_ = half.Close()
		if response.StatusCode != http.StatusRequestTimeout || response.ProtoMajor != 2 {
			t.Errorf("%s %s", response.Proto, response.Status)
		}
	})
}

// A client that reads nothing is given up, and a stream in which nothing happens is
// not.
func TestReadersOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gaveUp := make(chan error, 1)
		client := overHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/quiet" {
				for range 3 {
					_, _ = io.WriteString(w, "event ")
					w.(http.Flusher).Flush()
					time.Sleep(time.Hour) //nolint:forbidigo // the time is the test's own
				}
				return
			}
			piece := []byte(strings.Repeat("x", 64<<10))
			for {
				if _, err := w.Write(piece); err != nil {
					gaveUp <- err
					return
				}
			}
		})
		get := func(path string) *http.Response {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://gateway.test"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			return response
		}
		quiet := get("/quiet")
		if got, err := io.ReadAll(quiet.Body); string(got) != "event event event " || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		_ = quiet.Body.Close()
		began := time.Now()
		full := get("/full")
		if err := <-gaveUp; err == nil || time.Since(began) < front.BaseAllowance || time.Since(began) > time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		_ = full.Body.Close()
	})
}

// A reply after which a connection of HTTP/1.1 is closed ends its own stream of HTTP/2
// and not the connection, on which other requests run.
func TestUnreadBodiesLeaveConnectionsOfHTTP2Open(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := overHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
			if _, err := ReadBody(w, r); errors.Is(err, ErrBodyTooLarge) {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
			}
		})
		for i, size := range []int{maxBody + 1, 1, maxBody + 1, 1} {
			response, reused := postOver(t, client, strings.Repeat("x", size))
			if (response.StatusCode == http.StatusRequestEntityTooLarge) != (size > maxBody) || reused != (i > 0) {
				t.Errorf("request %d: %s, on the same connection: %t", i+1, response.Status, reused)
			}
		}
	})
}

// postOver posts a body and tells whether that was on a connection that was used before.
func postOver(t *testing.T, client *http.Client, body string) (response *http.Response, reused bool) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://gateway.test/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err = client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	synctest.Wait()
	return response, reused
}

// A client of HTTP/2 that keeps a connection busy would else keep the gateway from
// stopping until its requests are cut off. The requests that ran when the stop began end
// first, because some clients give them up together with the connection.
func TestConnectionsOfHTTP2EndWhileTheGatewayStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := map[string]chan struct{}{"early": make(chan struct{}), "late": make(chan struct{})}
		shell := NewShell(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			if body, _ := io.ReadAll(r.Body); release[string(body)] != nil {
				<-release[string(body)]
			}
			_, _ = io.WriteString(w, "answer")
		}), Options{Log: slog.New(slog.DiscardHandler)})
		client := clientOf(t, shell)
		answers := make(chan string, 2)
		run := func(body string) {
			response, err := client.Post("http://gateway.test/", "text/plain", strings.NewReader(body))
			if err != nil {
				answers <- err.Error()
				return
			}
			defer response.Body.Close()
			answer, _ := io.ReadAll(response.Body)
			answers <- string(answer)
		}
		onSame := func(when string, want bool) {
			t.Helper()
			if _, reused := postOver(t, client, "short"); reused != want {
				t.Errorf("%s: on the same connection: %t", when, reused)
			}
		}
		go run("early")
		synctest.Wait()
		onSame("before", true)
		stopped := make(chan error, 1)
		go func() { stopped <- shell.Drain(t.Context(), func() {}) }()
		synctest.Wait()
		go run("late")
		synctest.Wait()
		onSame("while an early request runs", true)
		onSame("while an early request runs", true)
		close(release["early"])
		synctest.Wait()
		onSame("the first one after it", true) // its reply tells the client
		onSame("the second one after it", false)
		close(release["late"])
		for range 2 {
			if got := <-answers; got != "answer" {
				t.Errorf("a request that ran: %q", got)
			}
		}
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

// Every request gets a Response, which is not used again. The next size in which Go allocates is an
// eighth larger: what few requests need is behind a pointer.
func TestResponsesAreSmall(t *testing.T) {
	const most = 1024 - 8 // Go needs 8 bytes beside an object of this size
	if size := reflect.TypeFor[Response]().Size(); size > most {
		t.Errorf("a Response has %d bytes, want no more than %d", size, most)
	}
}
