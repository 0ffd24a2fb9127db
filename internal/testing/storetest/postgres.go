package storetest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// Postgres makes a database cluster in a temporary directory and starts it.
func Postgres(t testing.TB) *Server {
	t.Helper()
	notShort(t)
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if onPath, err := exec.LookPath("postgres"); err == nil {
		found = append(found, onPath)
	}
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
	bin := filepath.Dir(found[len(found)-1])
	owner := postgresOwner(t)
	dir := owner.home(t, "patchbay-postgres-")
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.CommandContext(context.Background(), filepath.Join(bin, name), args...)
		c.SysProcAttr, c.Dir, c.Env = owner.attributes(), dir,
			[]string{"LC_ALL=C", "PATH=" + os.Getenv("PATH"), "PGDATA=" + filepath.Join(dir, "data")}
		return c
	}
	owner.makeCluster(t, bin, dir, command)
	host, port := freePort(t)
	// With SIGQUIT it ends at once and gives its shared memory back. After a SIGKILL the
	// system keeps that, and has room for 4,096 such pieces.
	s := &Server{t: t, Address: host + ":" + port, ending: syscall.SIGQUIT}
	s.URL = "postgres://patchbay@" + s.Address + "/postgres?sslmode=disable"
	s.command = func() *exec.Cmd {
		return command("postgres", "-h", host, "-p", port, "-k", dir, "-c", "fsync=off")
	}
	s.ready = func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, waittest.Limit/4)
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

// owner is the account that PostgreSQL runs as. It refuses to be root: then it is
// the user postgres.
type owner struct {
	uid, gid int
	foreign  bool
}

func postgresOwner(t testing.TB) owner {
	t.Helper()
	if os.Getuid() != 0 {
		return owner{uid: os.Getuid(), gid: os.Getgid()}
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		t.Skip("there is no user postgres to run PostgreSQL as")
	}
	uid, _ := strconv.Atoi(account.Uid)
	gid, _ := strconv.Atoi(account.Gid)
	return owner{uid: uid, gid: gid, foreign: true}
}

func (o owner) attributes() *syscall.SysProcAttr {
	if !o.foreign {
		return &syscall.SysProcAttr{}
	}
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(o.uid), Gid: uint32(o.gid)}}
}

// home makes a directory that belongs to the owner and ends with the test.
func (o owner) home(t testing.TB, name string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", name) // t.TempDir is not readable for others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if o.foreign {
		if err := os.Chown(dir, o.uid, o.gid); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// makeCluster makes the files of an empty cluster. To make them from nothing takes
// seconds, to copy them takes none: the first test that needs them leaves a copy
// in the directory for temporary files, for its version of PostgreSQL.
func (o owner) makeCluster(t testing.TB, bin, dir string, command func(name string, args ...string) *exec.Cmd) {
	t.Helper()
	run := func(c *exec.Cmd) {
		t.Helper()
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", c, err, out)
		}
	}
	version, err := exec.CommandContext(t.Context(), filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(version)
	template := filepath.Join(os.TempDir(), fmt.Sprintf("patchbay-postgres-template-%d-%x", o.uid, sum[:6]))
	data := filepath.Join(dir, "data")
	if o.owns(template) {
		run(exec.CommandContext(t.Context(), "cp", "-a", template, data))
		return
	}
	run(command("initdb", "-U", "patchbay", "-A", "trust", "--no-sync", "--wal-segsize=1"))
	// A copy is made aside and then given its name: no test sees half of it, and if
	// another test was faster its copy stays.
	aside := o.home(t, "patchbay-postgres-copy-")
	run(exec.CommandContext(t.Context(), "cp", "-a", data, filepath.Join(aside, "data")))
	_ = os.Rename(filepath.Join(aside, "data"), template)
}

// owns reports whether a directory is there and belongs to the owner.
func (o owner) owns(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == o.uid
}
