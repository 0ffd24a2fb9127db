package storetest

import (
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Postgres makes a database cluster in a temporary directory and starts it.
func Postgres(t testing.TB) *Server {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if onPath, err := exec.LookPath("postgres"); err == nil {
		found = append(found, onPath)
	}
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
	bin := filepath.Dir(found[len(found)-1])
	dir, attributes := postgresHome(t)
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.CommandContext(context.Background(), filepath.Join(bin, name), args...)
		c.SysProcAttr, c.Dir, c.Env = attributes, dir, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH"), "PGDATA=" + filepath.Join(dir, "data")}
		return c
	}
	if out, err := command("initdb", "-U", "patchbay", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	host, port := freePort(t)
	s := &Server{t: t, Address: host + ":" + port}
	s.URL = "postgres://patchbay@" + s.Address + "/postgres?sslmode=disable"
	s.command = func() *exec.Cmd {
		return command("postgres", "-h", host, "-p", port, "-k", dir, "-c", "fsync=off")
	}
	s.ready = func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, s.URL)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}
	s.Start()
	return s
}

// postgresHome makes a directory for PostgreSQL, which refuses to be root: then
// it belongs to the user postgres, and so does the process.
func postgresHome(t testing.TB) (string, *syscall.SysProcAttr) {
	t.Helper()
	dir, err := os.MkdirTemp("", "patchbay-postgres-") // t.TempDir is not readable for others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if os.Getuid() != 0 {
		return dir, &syscall.SysProcAttr{}
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		t.Skip("there is no user postgres to run PostgreSQL as")
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	return dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
}
