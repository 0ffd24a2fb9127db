// Package storetest starts the real servers that the stores are tested with, on free
// ports of the loopback: Redis alone, as a cluster and behind sentinels, PostgreSQL, and
// a proxy that makes the way to them slow, lossy or broken. A test is skipped if its
// server is not installed.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// Server is a server of a test's own, which ends with the test.
type Server struct {
	URL     string
	Address string // host and port

	t       testing.TB
	command func() *exec.Cmd
	ready   func(context.Context) error
	process *os.Process
	exited  chan struct{}
	// ending is the signal that ends the server with its test: SIGKILL, unless the server
	// has to clean up.
	ending syscall.Signal
}

// Start starts a server that was stopped, on the address that it had, and waits
// until it takes connections.
func (s *Server) Start() {
	s.t.Helper()
	command := s.command()
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	exited := make(chan struct{})
	s.process, s.exited = command.Process, exited
	go func() {
		defer close(exited)
		_ = command.Wait() // a server that was killed always says so
	}()
	s.t.Cleanup(s.stop)
	await(s.t, s.URL+" is ready", exited, s.ready)
}

// await waits until a check succeeds, or the process that it depends on has ended.
func await(t testing.TB, what string, ended <-chan struct{}, so func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := so(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ended:
			t.Fatalf("not so: %s: the server has ended: %v", what, err)
		case <-ctx.Done():
			t.Fatalf("not so: %s: %v", what, err)
		}
	}
}

// stop ends the server, frozen or not, as the last thing of its test.
func (s *Server) stop() {
	if s.ending == 0 {
		s.Kill()
		return
	}
	s.Thaw()
	_ = s.process.Signal(s.ending) // it may have ended by itself
	select {
	case <-s.exited:
	case <-time.After(waittest.Limit):
		s.t.Errorf("%s does not end", s.URL)
		s.Kill()
	}
}

// Kill ends the server as a crash would. It returns when all processes of the
// server have ended: PostgreSQL does not start again while one of them still has
// the memory that they shared.
func (s *Server) Kill() {
	children := s.signal(syscall.SIGKILL)
	<-s.exited
	await(s.t, "the processes of "+s.URL+" have ended", nil, func(context.Context) error {
		for _, child := range children {
			if isRunning(child) {
				return fmt.Errorf("process %d is running", child)
			}
		}
		return nil
	})
}

// isRunning reports whether a process exists and is not merely waiting for its
// parent to take notice of its end.
func isRunning(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	_, state, found := strings.Cut(string(stat), ") ") // the name before it may contain anything else
	return err == nil && found && !strings.HasPrefix(state, "Z")
}

// Freeze stops the server at once, with all connections open; Thaw lets it go on.
func (s *Server) Freeze() { s.signal(syscall.SIGSTOP) }

// Thaw lets a frozen server go on.
func (s *Server) Thaw() { s.signal(syscall.SIGCONT) }

// signal sends a signal to the server and its child processes, which PostgreSQL has for
// every connection, and returns the children. The server is stopped meanwhile, because it
// must not start further ones.
func (s *Server) signal(sig syscall.Signal) []int {
	_ = s.process.Signal(syscall.SIGSTOP) // it may have ended by itself
	children := s.children()
	for _, child := range children {
		_ = syscall.Kill(child, sig) // it may have ended by itself
	}
	if err := s.process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
	return children
}

func (s *Server) children() []int {
	pid := strconv.Itoa(s.process.Pid)
	list, _ := os.ReadFile(filepath.Join("/proc", pid, "task", pid, "children")) // not every system has it
	var children []int
	for _, field := range strings.Fields(string(list)) {
		if child, err := strconv.Atoi(field); err == nil {
			children = append(children, child)
		}
	}
	return children
}

// FreeAddress returns an address for a server that the test starts. For an address
// without a listener use waittest.Nobody.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort(freePort(t))
}

// freePort returns an unused port below the range that systems give to programs that ask
// for any port: a port of that range would be given away again before a server has
// started on it. Until the test ends, it holds the port for datagrams of the same number.
// Other tests, also in other processes, see that and choose another.
//
//nolint:gosec // which port it is need not be a secret
func freePort(t testing.TB) (host, port string) {
	t.Helper()
	const loopback, first, last = "127.0.0.1", 20_000, 32_000
	for {
		port = strconv.Itoa(first + rand.N(last-first))
		claim, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", net.JoinHostPort(loopback, port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(loopback, port))
		if err == nil {
			t.Cleanup(func() { _ = claim.Close() }) // it has no writers
			_ = listener.Close()                    // it has no connections
			return loopback, port
		}
		_ = claim.Close() // another program has the port
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
	}
}

// notShort skips a test that would start a server where only quick tests run.
func notShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a server")
	}
}

// program returns the path of a program, or skips the test.
func program(t testing.TB, name string) string {
	t.Helper()
	notShort(t)
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(name + " is not installed")
	}
	return path
}
