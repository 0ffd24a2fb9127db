package front

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A client that still sends a body which nobody wants gets the reply, and no error
// before all of it was sent, also if it asked to close the connection.
func TestClientsThatCloseAndStillSendGetTheReply(t *testing.T) {
	t.Parallel()
	for _, length := range []int{10_000, 1_000_000} {
		synctest.Test(t, func(t *testing.T) {
			client := talk(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
			say(t, client, fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n", length))
			answer, err := http.ReadResponse(bufio.NewReader(client), nil)
			if err != nil || answer.StatusCode != http.StatusNotFound {
				t.Fatal(answer, err)
			}
			say(t, client, strings.Repeat("x", length))
		})
	}
}

func TestBodiesThatDoNotArriveTimeOut(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sent string
		then func(c net.Conn)
		want time.Duration
	}{
		"nothing":  {sent: "", want: 30 * time.Second},
		"one byte": {sent: "x", want: 30 * time.Second},
		"a drop every ten seconds": {then: func(c net.Conn) {
			for range 3 {
				<-time.After(9 * time.Second)
				_, _ = io.WriteString(c, "x")
			}
		}, want: 30 * time.Second},
		"a slow link": {then: func(c net.Conn) {
			for range 100 { // a megabyte each ten seconds
				<-time.After(10 * time.Second)
				_, _ = io.WriteString(c, strings.Repeat("x", 1<<20))
			}
		}, want: 30*time.Second + (100<<20)/BytesPerSecond*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				c := talk(t, func(_ http.ResponseWriter, r *http.Request) {
					_, err := io.Copy(io.Discard, r.Body)
					ended <- err
				})
				began := time.Now()
				say(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n"+test.sent)
				if test.then != nil {
					test.then(c)
				}
				if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != test.want {
					t.Errorf("%v after %v, want it after %v", err, time.Since(began), test.want)
				}
			})
		})
	}
}

func TestRepliesThatNobodyReadsTimeOut(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100 << 10, 100 << 20} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 1)
			c := talk(t, func(w http.ResponseWriter, _ *http.Request) {
				_, err := w.Write(make([]byte, size))
				ended <- err
			})
			began := time.Now()
			say(t, c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			err := <-ended
			// The head and the first bytes are a write of their own.
			if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took < BaseAllowance || took > 2*BaseAllowance+Allowance(int64(size)) {
				t.Errorf("%d bytes: %v after %v", size, err, took)
			}
		})
	}
}

// A reader that stalls is cut off on every request of a connection: the server
// lifts the deadline of writes between them.
func TestStalledReadersAreCutOffOnKeptConnections(t *testing.T) {
	t.Parallel()
	for _, pause := range []time.Duration{0, time.Second, 10 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			ended := make(chan error, 10)
			c := talk(t, func(w http.ResponseWriter, r *http.Request) {
				size := 10
				if r.URL.Path == "/stall" {
					size = 100 << 10
				}
				_, err := w.Write(make([]byte, size))
				ended <- err
			})
			replies := bufio.NewReader(c)
			for range 3 {
				say(t, c, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				response, err := http.ReadResponse(replies, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, response.Body)
				<-ended
				<-time.After(pause)
			}
			began := time.Now()
			say(t, c, "GET /stall HTTP/1.1\r\nHost: h\r\n\r\n")
			select {
			case err := <-ended:
				if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took > 2*BaseAllowance {
					t.Errorf("%v after %v", err, took)
				}
			case <-time.After(time.Hour):
				t.Error("it is never cut off")
			}
		})
	}
}

// TestLongAnswersAreNotCut: only who waits for the client is bounded, and each
// request has its own time.
func TestLongAnswersAreNotCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := talk(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			for range 10 {
				select {
				case <-r.Context().Done():
					t.Error("the client was taken for gone")
				case <-time.After(time.Minute):
				}
				_, _ = w.Write([]byte("."))
				_ = http.NewResponseController(w).Flush()
			}
			if err != nil || string(body) != "12345" {
				t.Errorf("%q, %v", body, err)
			}
		})
		answers := make(chan byte)
		go func() {
			buf := make([]byte, 1<<10)
			for {
				n, err := c.Read(buf)
				if err != nil {
					close(answers)
					return
				}
				for _, b := range buf[:n] {
					answers <- b
				}
			}
		}()
		for range 2 {
			say(t, c, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n12")
			<-time.After(20 * time.Second)
			say(t, c, "345")
			text := ""
			for !strings.HasSuffix(text, "\r\n0\r\n\r\n") {
				b, open := <-answers
				if !open {
					t.Fatalf("cut after %q", text)
				}
				text += string(b)
			}
			if strings.Count(text, "\r\n.\r\n") != 10 {
				t.Errorf("%q", text)
			}
			<-time.After(time.Minute)
		}
	})
}
