package front

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const upgrade = "GET /v1/x HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nUpgrade: echo\r\n\r\n"

// upgraded takes over the connection and sends back every line that comes on it.
func upgraded(ended chan<- error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, both, err := http.NewResponseController(w).Hijack()
		if err != nil {
			ended <- err
			return
		}
		stop := context.AfterFunc(r.Context(), func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
		defer stop()
		for {
			line, err := both.ReadString('\n')
			if err == nil {
				_, err = both.WriteString(line)
			}
			if err == nil {
				err = both.Flush()
			}
			if err != nil {
				_, late := w.Write([]byte("late"))
				if !errors.Is(late, http.ErrHijacked) {
					err = errors.New("the reply can still be written")
				}
				ended <- err
				return
			}
		}
	}
}

// switchOver sends a request for another protocol with what follows it, and reads the
// reply.
func switchOver(t *testing.T, c net.Conn, first string) *bufio.Reader {
	t.Helper()
	say(t, c, upgrade+first)
	from := bufio.NewReader(c)
	response, err := http.ReadResponse(from, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Upgrade") != "echo" || response.Header.Get("Connection") != "Upgrade" ||
		response.Header.Get("Content-Length") != "" || len(response.TransferEncoding) > 0 {
		t.Fatalf("%v, %v", response, err)
	}
	return from
}

// A connection that is handed over has what came behind the request, stays open for longer
// than a request may wait, and ends with its handler.
func TestUpgradedConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		c := talk(t, upgraded(ended))
		from := switchOver(t, c, "first\n")
		for _, line := range []string{"first\n", "second\n", "third\n"} {
			if line != "first\n" {
				<-time.After(time.Hour)
				say(t, c, line)
			}
			if got, err := from.ReadString('\n'); got != line || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		}
		_ = c.Close()
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Error(err)
		}
	})
}

// A shutdown waits for the handler of a connection that was handed over, and Close ends
// it.
func TestUpgradedConnectionsAreDrained(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	s, c := listen(t, upgraded(ended))
	from := switchOver(t, c, "")
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	say(t, c, "still here\n")
	if got, err := from.ReadString('\n'); got != "still here\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	cancel()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("the shutdown ended with %v", err)
	}
	s.Close()
	if err := <-ended; err == nil || strings.Contains(err.Error(), "written") {
		t.Error(err)
	}
	if _, err := from.ReadByte(); err == nil {
		t.Error("the connection is open")
	}
}

// The context of a request ends when the client resets a connection that was handed over,
// also if the handler reads nothing.
func TestUpgradedConnectionsThatAreReset(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	s, c := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
		close(ended)
	})
	if s.watcher == nil {
		t.Skip("there is no poller on this system")
	}
	say(t, c, upgrade)
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	<-ended
}

// Handlers may bound reads and writes by themselves.
func TestDeadlinesOfHandlers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type outcome struct{ read, write error }
		outcomes := make(chan outcome, 1)
		c := talk(t, func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength == 0 {
				_, _ = io.WriteString(w, "x")
				return
			}
			control := http.NewResponseController(w)
			var o outcome
			began := time.Now()
			_ = control.SetReadDeadline(began.Add(time.Second))
			_, o.read = io.ReadAll(r.Body)
			if took := time.Since(began); took != time.Second {
				t.Errorf("the read took %v", took)
			}
			_ = control.SetWriteDeadline(time.Now().Add(time.Hour))
			began = time.Now()
			_, o.write = w.Write(make([]byte, 10*maxHeld))
			if took := time.Since(began); took != time.Hour {
				t.Errorf("the write took %v", took)
			}
			outcomes <- o
		})
		say(t, c, post(""))
		hear(t, bufio.NewReader(c))
		say(t, c, "POST /v1/x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12")
		if got := <-outcomes; !errors.Is(got.read, os.ErrDeadlineExceeded) || !errors.Is(got.write, os.ErrDeadlineExceeded) {
			t.Errorf("%v", got)
		}
	})
}
