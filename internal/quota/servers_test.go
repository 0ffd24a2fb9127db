package quota_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// server is a Redis or PostgreSQL of a test's own, on a free port.
type server struct {
	t       testing.TB
	address string
	start   func() *exec.Cmd
	process *exec.Cmd
	exited  chan struct{}
}

func (s *server) run() {
	s.t.Helper()
	s.process = s.start()
	if err := s.process.Start(); err != nil {
		s.t.Fatal(err)
	}
	exited, process := make(chan struct{}), s.process
	s.exited = exited
	go func() {
		defer close(exited)
		_ = process.Wait() // it was killed
	}()
}

// kill ends the server as a crash would.
func (s *server) kill() {
	s.signal(syscall.SIGCONT)
	s.signal(syscall.SIGKILL)
	<-s.exited
}

func (s *server) signal(sig os.Signal) {
	if err := s.process.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.t.Error(err)
	}
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t testing.TB) (host, port string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	host, port, _ = net.SplitHostPort(listener.Addr().String())
	return host, port
}

// startRedis starts a Redis without persistence: a restart loses everything.
func startRedis(t testing.TB) *server {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	host, port := freeAddress(t)
	s := &server{t: t, address: "redis://" + net.JoinHostPort(host, port) + "/0"}
	dir := t.TempDir()
	s.start = func() *exec.Cmd {
		return exec.Command(program, "--bind", host, "--port", port, "--save", "", "--appendonly", "no", "--dir", dir, "--loglevel", "warning")
	}
	s.run()
	t.Cleanup(s.kill)
	awaitPort(t, net.JoinHostPort(host, port))
	return s
}

func awaitPort(t testing.TB, address string) {
	t.Helper()
	eventually(t, "listening on "+address, func() bool {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			return false
		}
		return conn.Close() == nil
	})
}

// startPostgres makes a cluster in a temporary directory and starts it. As root
// it runs as the user postgres: PostgreSQL refuses to be root.
func startPostgres(t testing.TB) *server {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if onPath, err := exec.LookPath("postgres"); err == nil {
		found = append(found, onPath)
	}
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
	bin := filepath.Dir(found[len(found)-1])
	dir, err := os.MkdirTemp("", "patchbay-postgres-") // t.TempDir is not readable for others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attributes := &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		account, err := user.Lookup("postgres")
		if err != nil {
			t.Skip("there is no user postgres to run PostgreSQL as")
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		if err := os.Chown(dir, uid, gid); err != nil {
			t.Fatal(err)
		}
		attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(bin, name), args...)
		c.SysProcAttr, c.Dir, c.Env = attributes, dir, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH")}
		return c
	}
	data := filepath.Join(dir, "data")
	if out, err := command("initdb", "-D", data, "-U", "patchbay", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	host, port := freeAddress(t)
	s := &server{t: t, address: fmt.Sprintf("postgres://patchbay@%s/postgres?sslmode=disable", net.JoinHostPort(host, port))}
	s.start = func() *exec.Cmd {
		return command("postgres", "-D", data, "-h", host, "-p", port, "-k", dir, "-c", "fsync=off")
	}
	s.run()
	t.Cleanup(func() {
		s.signal(syscall.SIGQUIT)
		<-s.exited
	})
	s.ready()
	return s
}

// ready waits until the database takes connections.
func (s *server) ready() {
	s.t.Helper()
	eventually(s.t, "the database is ready", func() bool {
		db, err := sql.Open("pgx", s.address)
		if err != nil {
			return false
		}
		defer db.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return db.PingContext(ctx) == nil
	})
}

// eventually waits until something is so, for longer than it should take.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	within(t, 20*time.Second, what, so)
}

func within(t testing.TB, longest time.Duration, what string, so func() bool) {
	t.Helper()
	deadline := time.After(longest)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-deadline:
			t.Fatalf("not within %v: %s", longest, what)
		case <-tick.C:
		}
	}
}

func sorted[T any](list []T, compare func(a, b T) int) []T {
	slices.SortFunc(list, compare)
	return list
}
