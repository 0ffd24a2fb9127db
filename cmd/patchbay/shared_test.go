package main

import (
	"database/sql"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// postgres is a PostgreSQL of a test's own, on a free port of the loopback.
type postgres struct {
	t       *testing.T
	address string
	port    string
	command func(name string, args ...string) *exec.Cmd
	process *exec.Cmd
}

func startPostgres(t *testing.T) *postgres {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if onPath, err := exec.LookPath("postgres"); err == nil {
		found = append(found, onPath)
	}
	if len(found) == 0 {
		t.Skip("PostgreSQL is not installed")
	}
	dir, err := os.MkdirTemp("", "patchbay-shared-") // t.TempDir is not readable for others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	attributes := &syscall.SysProcAttr{}
	if os.Getuid() == 0 { // PostgreSQL refuses to be root
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
	free, err := new(net.ListenConfig).Listen(deadline(t), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	p := &postgres{t: t, port: port, address: "postgres://patchbay@127.0.0.1:" + port + "/postgres?sslmode=disable"}
	p.command = func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(filepath.Dir(found[len(found)-1]), name), args...)
		c.SysProcAttr, c.Dir, c.Env = attributes, dir, []string{"LC_ALL=C", "PATH=" + os.Getenv("PATH"), "PGDATA=" + filepath.Join(dir, "data")}
		return c
	}
	if out, err := p.command("initdb", "-U", "patchbay", "-A", "trust", "--no-sync").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	p.run()
	t.Cleanup(p.stop)
	return p
}

func (p *postgres) run() {
	p.t.Helper()
	p.process = p.command("postgres", "-h", "127.0.0.1", "-p", p.port, "-k", ".", "-c", "fsync=off")
	if err := p.process.Start(); err != nil {
		p.t.Fatal(err)
	}
	eventually(p.t, "the database is ready", func() bool {
		db, err := sql.Open("pgx", p.address)
		if err != nil {
			return false
		}
		defer db.Close()
		return db.PingContext(deadline(p.t)) == nil
	})
}

// stop ends the database at once, with all its connections.
func (p *postgres) stop() {
	if p.process != nil {
		_ = p.process.Process.Signal(syscall.SIGINT)
		_ = p.process.Wait()
	}
	p.process = nil
}

// Three processes share one configuration: what one is told all do within a
// second, nothing that any of them acknowledged is lost, and without the
// database they go on with what they know.
func TestThreeGatewaysShareOneConfiguration(t *testing.T) {
	db := startPostgres(t)
	upstream := startBackend(t)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	start := func(i int) *child {
		return serving(t, "--data-dir", dirs[i], "--set", "store.config="+db.address)
	}
	gateways := []*child{start(0), start(1), start(2)}
	add := func(i int, name string) reply {
		return gateways[i].ask(http.MethodPost, instAdd+"chat", fmt.Sprintf(`{"name":%q,"baseUrl":%q}`, name, upstream.URL()))
	}
	chats := func(i int, model string) bool {
		return gateways[i].ask(http.MethodPost, "/v1/chat/completions",
			fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hello"}]}`, model)).status == http.StatusOK
	}
	everywhere := func(limit time.Duration, model string) time.Duration {
		began := time.Now()
		for i := range gateways {
			for !chats(i, model) {
				if time.Since(began) > limit {
					t.Fatalf("gateway %d does not know %s after %v", i, model, limit)
				}
				<-time.After(5 * time.Millisecond)
			}
		}
		return time.Since(began)
	}
	var slowest time.Duration
	for n := range 9 {
		model := fmt.Sprint("first-", n)
		if got := add(n%3, model); got.status != http.StatusCreated {
			t.Fatalf("%d: %s", got.status, got.body)
		}
		slowest = max(slowest, everywhere(time.Second, model))
	}
	t.Logf("a change serves on all three after at most %v", slowest)

	const each = 15
	var writers sync.WaitGroup
	for i := range gateways {
		writers.Go(func() {
			for n := range each {
				if got := add(i, fmt.Sprintf("p%d-%d", i, n)); got.status != http.StatusCreated {
					t.Errorf("gateway %d: %d %s", i, got.status, got.body)
				}
			}
		})
	}
	writers.Wait()
	versions := func(i int) string { return gateways[i].ask(http.MethodGet, "/api/config/version", "").body }
	same := func(i int) func() bool {
		return func() bool {
			list := gateways[i].ask(http.MethodGet, instList+"chat", "").body
			for g := range gateways {
				for n := range each {
					if !strings.Contains(list, fmt.Sprintf(`"name":"p%d-%d"`, g, n)) {
						return false
					}
				}
			}
			return true
		}
	}
	for i := range gateways {
		eventually(t, "every change is there", same(i))
	}

	db.stop()
	gateways[2].kill()
	gateways[2] = start(2)
	for i := range gateways {
		if !chats(i, "p1-0") || !same(i)() {
			t.Errorf("gateway %d forgot its configuration without the database", i)
		}
		if got := add(i, "refused"); got.status != http.StatusServiceUnavailable || strings.Contains(got.body, db.port) {
			t.Errorf("a write without the database: %d %s", got.status, got.body)
		}
	}
	db.run()
	began := time.Now()
	eventually(t, "writes are taken again", func() bool { return add(0, "back").status == http.StatusCreated })
	everywhere(5*time.Second, "back")
	t.Logf("all three are together again %v after the database is back", time.Since(began))
	for i := range gateways {
		eventually(t, "the versions are the same", func() bool { return versions(i) == versions(0) })
		if chats(i, "refused") {
			t.Error("a refused change is in force")
		}
	}
	gateways[1].signal(syscall.SIGTERM)
	gateways[1].exits(0)
}
