package main

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// systemd is told when the gateway serves, that it is alive, and that it stops.
func TestTheServiceManagerIsTold(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(gatewaytest.Timeout))
	next := func() string {
		buffer := make([]byte, 1000)
		n, err := conn.Read(buffer)
		if err != nil {
			t.Fatal(err)
		}
		return string(buffer[:n])
	}
	c := startChildWith(t, []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=600000"}, "serve", "--listen", "127.0.0.1:0")
	if got := next(); !strings.HasPrefix(got, "READY=1\nSTATUS=listening on 127.0.0.1:") {
		t.Errorf("%q", got)
	}
	for range 2 {
		if got := next(); got != "WATCHDOG=1" {
			t.Errorf("%q", got)
		}
	}
	c.signal(syscall.SIGTERM)
	for got := next(); got != "STOPPING=1"; got = next() {
		if got != "WATCHDOG=1" {
			t.Fatalf("%q", got)
		}
	}
	c.exits(exitOK)
}
