package notify_test

import (
	"context"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/serve/notify"
)

// manager listens as systemd does.
func manager(t *testing.T) (*net.UnixConn, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Skip("there are no such sockets here: ", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	return conn, path
}

func receive(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	buffer := make([]byte, 1000)
	n, err := conn.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	return string(buffer[:n])
}

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestTheManagerIsTold(t *testing.T) {
	conn, path := manager(t)
	m := notify.FromEnvironment(environment(map[string]string{"NOTIFY_SOCKET": path}), 7)
	if err := m.Ready("listening\non 127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, conn); got != "READY=1\nSTATUS=listening on 127.0.0.1:1" {
		t.Errorf("%q", got)
	}
	if err := m.Stopping(); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, conn); got != "STOPPING=1" {
		t.Errorf("%q", got)
	}
	if err := m.Watch(t.Context(), nil); err != nil { // it returns at once, because nobody waits
		t.Error(err)
	}
}

func TestSignsOfLifeEndWithLife(t *testing.T) {
	conn, path := manager(t)
	m := notify.FromEnvironment(environment(map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "30000", "WATCHDOG_PID": "7"}), 7)
	ctx, cancel := context.WithCancel(t.Context())
	var asked atomic.Int64
	done, enough := make(chan error, 1), make(chan struct{})
	go func() {
		done <- m.Watch(ctx, func(context.Context) bool {
			n := asked.Add(1)
			if n == 5 {
				close(enough)
			}
			return n <= 2
		})
	}()
	for range 2 {
		if got := receive(t, conn); got != "WATCHDOG=1" {
			t.Errorf("%q", got)
		}
	}
	<-enough
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	_ = conn.SetDeadline(time.Now())
	if n, err := conn.Read(make([]byte, 100)); err == nil {
		t.Errorf("%d more bytes came", n)
	}
}

func TestWithoutAManagerNothingHappens(t *testing.T) {
	for _, values := range []map[string]string{{}, {"WATCHDOG_USEC": "30000"}} {
		m := notify.FromEnvironment(environment(values), 7)
		if m.Ready("x") != nil || m.Stopping() != nil || m.Watch(t.Context(), nil) != nil {
			t.Errorf("%v", values)
		}
	}
	other := notify.FromEnvironment(environment(map[string]string{"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "30000", "WATCHDOG_PID": "8"}), 7)
	if err := other.Watch(t.Context(), nil); err != nil {
		t.Errorf("the signs of life of another process: %v", err)
	}
	if err := other.Ready("x"); err == nil {
		t.Error("a socket that is not there was written")
	}
}
