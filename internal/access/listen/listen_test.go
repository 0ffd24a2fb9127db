package listen_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access/listen"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestSocketsThatAreThereAlready(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	address := "unix:" + path
	open := func() net.Listener {
		t.Helper()
		l, err := listen.Open(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	first := open()
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o660 || first.Addr().String() != address {
		t.Errorf("%v, %v at %s", info, err, first.Addr())
	}
	var inUse *listen.InUseError
	if _, err := listen.Open(t.Context(), address); !errors.As(err, &inUse) {
		t.Errorf("a socket in use: %v", err)
	}
	_ = first.Close()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket stays: %v", err)
	}
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	second := open() // in place of the one that nobody listens on
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	third := open()
	_ = second.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of another one is gone: %v", err)
	}
	_ = third.Close()
	gatewaytest.WriteFile(t, path, "precious")
	if _, err := listen.Open(t.Context(), address); err == nil || string(gatewaytest.ReadFile(t, path)) != "precious" {
		t.Errorf("a file that is no socket: %v", err)
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "localhost:80": true, "unix:/run/x": true,
		"0.0.0.0:80": false, ":80": false, "[::]:80": false, "10.0.0.1:80": false, "gateway.test:80": false,
	} {
		if got := listen.IsLoopback(address); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}
