package main

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway"
)

func TestListenerThatFailsEndsTheProgram(t *testing.T) {
	t.Parallel()
	flags := &settingFlags{dataDir: t.TempDir(), listen: "127.0.0.1:0"}
	loaded, err := flags.loadFirst()
	if err != nil {
		t.Fatal(err)
	}
	err = runGateway(flags, loaded, slog.New(slog.DiscardHandler), func(g *gateway.Gateway, _ *slog.Logger) { _ = g.Ports[0].Listener.Close() }, nil)
	var decided *exitError
	if !errors.As(err, &decided) || decided.code != exitFailed || !errors.Is(err, net.ErrClosed) {
		t.Errorf("it ended with %v", err)
	}
}

// The failure of a start on a full disk names what helps.
func TestStartOnAFullDisk(t *testing.T) {
	err := startFailure(&os.PathError{Op: "write", Path: "data/x", Err: syscall.ENOSPC})
	if err == nil || !strings.Contains(err.Error(), "write data/x") || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("got %v, want the path and what helps", err)
	}
}
