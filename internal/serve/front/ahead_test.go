package front

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
)

// unwatched is listen where there is no poller.
func unwatched(t *testing.T, handler http.HandlerFunc) net.Conn {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(handler)
	s.options.Log = slog.New(slog.DiscardHandler)
	s.listener = listener
	s.serving.Go(s.expire)
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
	return client
}

// Clients that leave are noticed where there is no poller, too, whether their request has a
// body or not, and whichever request of the connection it is.
func TestClientsThatLeaveAreNoticedWithoutAPoller(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(c *net.TCPConn) error{
		"closed": func(c *net.TCPConn) error { return c.Close() },
		"reset": func(c *net.TCPConn) error {
			_ = c.SetLinger(0)
			return c.Close()
		},
	} {
		for what, request := range map[string]string{
			"body":   post("{}"),
			"none":   "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n",
			"chunks": "POST /wait HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				began, ended := make(chan struct{}), make(chan struct{})
				c := unwatched(t, func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					if r.URL.Path == "/first" {
						return
					}
					close(began)
					<-r.Context().Done()
					close(ended)
				})
				replies := bufio.NewReader(c)
				for range 3 {
					say(t, c, "GET /first HTTP/1.1\r\nHost: h\r\n\r\n")
					hear(t, replies)
				}
				say(t, c, request)
				<-began
				if err := leave(c.(*net.TCPConn)); err != nil {
					t.Fatal(err)
				}
				<-ended
			})
		}
	}
}

// What comes while a request is answered is the next one, however it is read.
func TestRequestsFollowEachOtherWithoutAPoller(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	c := unwatched(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		began <- struct{}{}
		<-goOn
		_, _ = w.Write(text)
	})
	replies := bufio.NewReader(c)
	say(t, c, post("0"))
	for _, next := range []string{"1", "2", "3"} {
		<-began
		for _, b := range []byte(post(next)) {
			say(t, c, string(b))
		}
		goOn <- struct{}{}
		hear(t, replies)
	}
	<-began
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if response, _ := http.ReadResponse(replies, nil); response == nil || response.StatusCode != http.StatusContinue {
		t.Fatalf("the client is not asked whether it is there: %v", response)
	}
	goOn <- struct{}{}
	response, got := hear(t, replies)
	for response.StatusCode == http.StatusContinue {
		response, got = hear(t, replies)
	}
	if got != "3" {
		t.Errorf("%d %q", response.StatusCode, got)
	}
}
