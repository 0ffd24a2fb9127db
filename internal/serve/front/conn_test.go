package front

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// newServer returns a server with this handler.
func newServer(handler http.HandlerFunc) *Server {
	return New(Options{
		Handler: handler, HeadTime: 15 * time.Second, IdleTime: 2 * time.Minute, MaxHead: 64 << 10,
		Refuse: func(r Refusal) []byte {
			return fmt.Appendf(nil, "HTTP/1.1 %d Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", r.Status)
		},
		Base: context.Background(), Log: slog.New(slog.DiscardHandler),
	})
}

// talk serves a handler in a test's own time and returns a client's connection,
// which is in memory.
func talk(t *testing.T, handler http.HandlerFunc) net.Conn {
	t.Helper()
	s := newServer(handler)
	s.serving.Go(s.expire)
	client, served := net.Pipe()
	c := newConn(s, halfClosing{served})
	s.add(c)
	t.Cleanup(func() {
		_ = client.Close()
		s.Close()
	})
	return client
}

// halfClosing is a connection in memory that can end its sending side, as sockets
// can: nothing more is sent, and that is all.
type halfClosing struct{ net.Conn }

func (halfClosing) CloseWrite() error { return nil }

// listen serves a handler on a socket and returns a client's connection.
func listen(t *testing.T, handler http.HandlerFunc) (*Server, net.Conn) {
	t.Helper()
	return listenWith(t, slog.New(slog.DiscardHandler), handler)
}

// listenWith is listen with a log.
func listenWith(t *testing.T, log *slog.Logger, handler http.HandlerFunc) (*Server, net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(handler)
	s.options.Log = log
	s.Start(listener)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = listener.Close()
		s.Close()
		<-ended
	})
	return s, client
}

// logged are the lines of a log.
type logged chan string

func (l logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func post(body string) string {
	return fmt.Sprintf("POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// hear reads one reply.
func hear(t *testing.T, from *bufio.Reader) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

func echo(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(text)))
	_, _ = w.Write(text)
}

func TestRequestsFollowEachOther(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]func(t *testing.T, c net.Conn, text string){
		"pipelined": say,
		"byte by byte": func(t *testing.T, c net.Conn, text string) {
			for _, b := range []byte(text) {
				say(t, c, string(b))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := listen(t, echo)
			bodies := []string{"", "one", strings.Repeat("two", 3000), "", "three"}
			var all strings.Builder
			for i, body := range bodies {
				if i >= 2 {
					all.WriteString("\r\n") // as some clients send it after a body
				}
				all.WriteString(post(body))
			}
			go cut(t, c, all.String())
			replies := bufio.NewReader(c)
			for _, body := range bodies {
				if response, got := hear(t, replies); response.StatusCode != http.StatusOK || got != body || response.Close {
					t.Fatalf("%d %q, want %q", response.StatusCode, got, body)
				}
			}
		})
	}
}

// Whatever a request looks like, the next one of its connection is found.
func TestRequestsOfAllKindsFollowEachOther(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ request, want string }{
		"another path":         {"GET /elsewhere HTTP/1.1\r\nHost: h\r\n\r\n", ""},
		"an empty line before": {"\r\nGET /elsewhere HTTP/1.1\r\nHost: h\r\n\r\n", ""},
		"chunks":               {"POST /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "abc"},
		"extensions, trailers": {"POST /v1/x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n3;a=b\r\nabc\r\n2 \r\nde\r\n00\r\nX: y\r\n\r\n", "abcde"},
		"an escape":            {"POST /v1/%78 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", "abc"},
		"an absolute target":   {"POST http://h/v1/x HTTP/1.1\r\nHost: g\r\nContent-Length: 3\r\n\r\nabc", "abc"},
		"HTTP/1.0":             {"POST /v1/x HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc", "abc"},
		"an early expectation": {"POST /v1/x HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc", "abc"},
		"options of all":       {"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := listen(t, echo)
			say(t, c, post("here")+test.request+post("there"))
			replies := bufio.NewReader(c)
			for _, want := range []string{"here", test.want, "there"} {
				if response, got := hear(t, replies); got != want || response.StatusCode != http.StatusOK {
					t.Errorf("%d %q, want %q", response.StatusCode, got, want)
				}
			}
		})
	}
}

func TestAmbiguousRequestsEndTheConnection(t *testing.T) {
	t.Parallel()
	_, c := listen(t, func(http.ResponseWriter, *http.Request) { t.Error("the handler got it") })
	say(t, c, "POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\n"+post("next"))
	replies := bufio.NewReader(c)
	if response, _ := hear(t, replies); response.StatusCode != http.StatusBadRequest {
		t.Errorf("%d", response.StatusCode)
	}
	if rest, err := io.ReadAll(replies); len(rest) > 0 || err != nil {
		t.Errorf("%q follows, %v", rest, err)
	}
}

func TestHeadsThatAreTooLongAreRefused(t *testing.T) {
	t.Parallel()
	_, c := listen(t, func(http.ResponseWriter, *http.Request) { t.Error("the handler got it") })
	go func() { _, _ = io.WriteString(c, "POST /v1/x HTTP/1.1\r\nX: "+strings.Repeat("x", 100<<10)) }()
	if response, _ := hear(t, bufio.NewReader(c)); response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%d", response.StatusCode)
	}
}

// A reply whose length is not known is chunked, and what was written is there when
// it is flushed.
func TestStreamsAreSentAsTheyAreFlushed(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	_, c := listen(t, func(w http.ResponseWriter, _ *http.Request) {
		for text := range next {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
		}
	})
	say(t, c, post("{}"))
	go func() { next <- "first" }()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"first", "second", strings.Repeat("third", 2000)} {
		if want != "first" {
			next <- want
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != want {
			t.Fatalf("%.20q, %v", got, err)
		}
	}
	close(next)
	if rest, err := io.ReadAll(response.Body); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

// A reply that breaks off must not look whole.
func TestAbortedRepliesEndTheConnection(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"chunked": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		},
		"with a length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "8")
			_, _ = io.WriteString(w, "half")
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := listen(t, handler)
			say(t, c, post("{}"))
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(response.Body); string(got) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestClientsThatLeaveEndTheirRequests(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(c *net.TCPConn) error{
		"closed": func(c *net.TCPConn) error { return c.Close() },
		"reset": func(c *net.TCPConn) error {
			_ = c.SetLinger(0)
			return c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			began, ended := make(chan struct{}), make(chan struct{})
			_, c := listen(t, func(_ http.ResponseWriter, r *http.Request) {
				close(began)
				<-r.Context().Done()
				close(ended)
			})
			say(t, c, post("{}"))
			<-began
			if err := leave(c.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			<-ended
		})
	}
}

func TestClientsThatEndTheirSideGetTheReply(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	_, c := listen(t, func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-goOn
		if r.Context().Err() != nil {
			t.Error("the client was taken for gone")
		}
		_, _ = io.WriteString(w, "reply")
	})
	say(t, c, post("{}"))
	<-began
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	replies := bufio.NewReader(c)
	if response, _ := http.ReadResponse(replies, nil); response == nil || response.StatusCode != http.StatusContinue {
		t.Fatalf("the client is not asked whether it is there: %v", response)
	}
	close(goOn)
	response, got := hear(t, replies)
	for response.StatusCode == http.StatusContinue {
		response, got = hear(t, replies)
	}
	if got != "reply" {
		t.Errorf("%d %q", response.StatusCode, got)
	}
}

func TestShutdownClosesIdleConnectionsAndLetsRequestsEnd(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	s, c := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > 0 {
			close(began)
			<-goOn
		}
		_, _ = io.WriteString(w, "reply")
	})
	silent, err := net.Dial("tcp", c.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	resting, err := net.Dial("tcp", c.RemoteAddr().String()) // which is accepted after it
	if err != nil {
		t.Fatal(err)
	}
	defer resting.Close()
	say(t, resting, post(""))
	rest := bufio.NewReader(resting)
	hear(t, rest)
	say(t, c, post("{}"))
	<-began
	ended := make(chan error, 1)
	go func() { ended <- s.Shutdown(context.Background()) }()
	for name, from := range map[string]io.Reader{"idle": rest, "silent": silent} {
		if _, err := from.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the %s connection: %v", name, err)
		}
	}
	close(goOn)
	if _, got := hear(t, bufio.NewReader(c)); got != "reply" {
		t.Errorf("%q", got)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestWaitingConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sent string
		want time.Duration
	}{
		"nothing sent":      {"", 15 * time.Second},
		"half a head":       {"POST /v1/x HTTP/1.1\r\n", 15 * time.Second},
		"after a request":   {post(""), 2 * time.Minute},
		"half a head again": {post("") + "POST", 15 * time.Second},
		"an empty line":     {"\r\n", 15 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := talk(t, echo)
				began := time.Now()
				go func() { _, _ = io.WriteString(c, test.sent) }()
				_, _ = io.Copy(io.Discard, c)
				if took := time.Since(began); took < test.want || took > test.want+5*time.Second {
					t.Errorf("closed after %v, want %v", took, test.want)
				}
			})
		})
	}
}

// A client that sends all of a large body before it reads gets the reply that did not
// wait for the body, and is told that the connection ends with it.
func TestClientsThatStillSendGetTheReply(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := talk(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		})
		replies := make(chan int, 1)
		go func() {
			response, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Error(err)
				replies <- 0
				return
			}
			if !response.Close {
				t.Error("the client may send another request on a connection that ends")
			}
			replies <- response.StatusCode
		}()
		say(t, c, post(strings.Repeat("x", 8<<20)))
		if got := <-replies; got != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", got)
		}
		began := time.Now()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || time.Since(began) > time.Second {
			t.Errorf("the connection ends with %v after %v", err, time.Since(began))
		}
	})
}

// A deadline that an earlier body left behind ends nothing.
func TestLaterRequestsHaveTheirOwnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := talk(t, echo)
		replies := bufio.NewReader(c)
		for range 3 {
			say(t, c, "POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12")
			<-time.After(20 * time.Second)
			say(t, c, "345")
			if _, got := hear(t, replies); got != "12345" {
				t.Errorf("%q", got)
			}
			<-time.After(time.Minute)
		}
	})
}

func TestEncryptedConnections(t *testing.T) {
	t.Parallel()
	// The key and certificate of httptest, for any client that does not look.
	borrowed := httptest.NewUnstartedServer(nil)
	borrowed.StartTLS()
	config := borrowed.TLS.Clone()
	config.NextProtos = nil
	borrowed.Close()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s over TLS %t", body, r.TLS != nil)
	})
	s.Start(tls.NewListener(inner, config))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve() }()
	client, err := tls.Dial("tcp", inner.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = inner.Close()
		s.Close()
		<-ended
	})
	in := bufio.NewReader(client)
	for _, path := range []string{"/v1/x", "/v1/y", "/other"} {
		say(t, client, "POST "+path+" HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi")
		response, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		if string(body) != "hi over TLS true" {
			t.Errorf("%s: %d %q", path, response.StatusCode, body)
		}
	}
}
