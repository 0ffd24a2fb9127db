package front

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// watched returns what the watcher of a server watches, once that is one connection.
func watched(t *testing.T, s *Server) (found *conn) {
	t.Helper()
	waittest.Eventually(t, "a connection is watched", func() bool {
		s.watcher.mu.Lock()
		defer s.watcher.mu.Unlock()
		for _, c := range s.watcher.conns {
			found = c
		}
		return found != nil
	})
	return found
}

// A client may reset its connection before the request that it has sent was read. The
// request is ended all the same.
func TestResetsBeforeTheRequestIsKnown(t *testing.T) {
	t.Parallel()
	s, c := listen(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s.watcher.tell(watched(t, s).id, eventReset)
	say(t, c, post("{}"))
	if response, _ := hear(t, bufio.NewReader(c)); response.StatusCode != http.StatusOK {
		t.Errorf("status %d", response.StatusCode)
	}
}

// Connections are accepted late on a busy machine: when the client has already left.
func TestResetsBeforeTheConnectionIsAccepted(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const clients = 100
	ended := make(chan struct{}, clients)
	s := newServer(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		ended <- struct{}{}
	})
	for range clients {
		c, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		say(t, c, post("{}"))
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	s.Start(listener)
	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	for range clients {
		<-ended
	}
	_ = listener.Close()
	s.Close()
	<-served
}

// A poller that fails is reported, and from then on each request watches for its client.
func TestWatchersThatFail(t *testing.T) {
	t.Parallel()
	log := make(logged, 1)
	ended := make(chan struct{}, 2)
	s, c := listenWith(t, log.logger(), func(w http.ResponseWriter, r *http.Request) {
		echo(w, r)
		if r.URL.Path == "/wait" {
			<-r.Context().Done()
			ended <- struct{}{}
		}
	})
	replies := bufio.NewReader(c)
	say(t, c, post("here"))
	if _, got := hear(t, replies); got != "here" {
		t.Errorf("%q", got)
	}
	if err := s.watcher.file.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if line := <-log; !strings.Contains(line, "cannot be watched") || !strings.Contains(line, "timeout") {
		t.Errorf("the log says %q", line)
	}
	other, err := net.Dial("tcp", c.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	say(t, other, post("there"))
	say(t, c, post("there"))
	for _, from := range []io.Reader{replies, other} {
		if _, got := hear(t, bufio.NewReader(from)); got != "there" {
			t.Errorf("%q", got)
		}
	}
	for _, client := range []net.Conn{c, other} {
		say(t, client, strings.Replace(post("x"), "/v1/x", "/wait", 1))
		_ = client.Close()
		<-ended
	}
}
