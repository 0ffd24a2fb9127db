package gateway_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// endless is a backend that never answers. It counts the calls that it was sent and those
// that it was let go of, and knows the longest time that took.
type endless struct {
	*httptest.Server
	came, letGo atomic.Int64
	left        []atomic.Int64 // when each client left, by the number of its request
	longest     atomic.Int64
}

type connKey struct{}

func startEndless(t *testing.T, requests int) *endless {
	t.Helper()
	b := &endless{left: make([]atomic.Int64, requests)}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(b.hold))
	b.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	b.Start()
	t.Cleanup(b.Close)
	return b
}

func (b *endless) hold(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	b.came.Add(1)
	defer b.letGo.Add(1)
	<-r.Context().Done()
	if n, err := strconv.Atoi(r.Header.Get("X-Request-Id")); err == nil {
		for took := time.Now().UnixNano() - b.left[n].Load(); ; {
			if before := b.longest.Load(); took <= before || b.longest.CompareAndSwap(before, took) {
				break
			}
		}
	}
	if c, ok := r.Context().Value(connKey{}).(*net.TCPConn); ok {
		_ = c.SetLinger(0) // else a long test runs out of ports
	}
	panic(http.ErrAbortHandler)
}

// A client may reset its connection at any moment, also before the gateway has accepted it
// or has read the request. No call runs on at the backend for nobody.
//
// PATCHBAY_RESETS sets how many clients there are; from 10,000 on, each call must have been
// let go of within five seconds.
func TestRequestsThatAreResetAreLetGo(t *testing.T) {
	t.Parallel()
	clients := 300
	if text := os.Getenv("PATCHBAY_RESETS"); text != "" {
		var err error
		if clients, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	authority := gatewaytest.NewAuthority(t)
	certificate, key := authority.Pair(t, "gateway.test")
	for name, settings := range map[string]string{"plain": "", "TLS": serverTLS(certificate, key, "")} {
		t.Run(name, func(t *testing.T) {
			b := startEndless(t, clients)
			r := gatewaytest.StartWith(t, gatewaytest.Setup{
				YAML: settings + "log: {access: false}\n" + gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL)), TLS: authority.Client(),
			})
			numbers := make(chan int)
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					for n := range numbers {
						if err := resetAfterAWhile(r.Address(), settings != "", n, &b.left[n]); err != nil {
							t.Error(err)
						}
					}
				})
			}
			for n := range clients {
				numbers <- n
			}
			close(numbers)
			all.Wait()
			i := r.Instances("m")[0]
			gatewaytest.Eventually(t, "no request runs", func() bool { return i.InFlight() == 0 && b.letGo.Load() == b.came.Load() })
			longest := time.Duration(b.longest.Load())
			t.Logf("%d of %d requests reached the backend, which was let go of after %v at the latest", b.came.Load(), clients, longest)
			if clients >= 10_000 && longest > 5*time.Second {
				t.Errorf("a call was let go of after %v", longest)
			}
		})
	}
}

// resetAfterAWhile sends a request and resets the connection within 30 ms.
func resetAfterAWhile(address string, encrypted bool, number int, left *atomic.Int64) error {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	to := c
	if encrypted {
		to = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
	}
	request := gatewaytest.RawPost(gatewaytest.PlainHi, fmt.Sprintf("X-Request-Id: %d\r\n", number))
	if _, err := io.WriteString(to, request); err != nil {
		return err
	}
	timer := time.NewTimer(rand.N(30 * time.Millisecond))
	<-timer.C
	_ = c.(*net.TCPConn).SetLinger(0)
	left.Store(time.Now().UnixNano())
	return c.Close()
}
