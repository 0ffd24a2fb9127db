package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// Redis starts a Redis that keeps nothing on disk: a restart loses everything.
func Redis(t testing.TB, options ...string) *Server {
	t.Helper()
	return redisServer(t, t.TempDir(), append([]string{"--save", ""}, options...)...)
}

func redisServer(t testing.TB, dir string, options ...string) *Server {
	t.Helper()
	binary := program(t, "redis-server")
	host, port := freePort(t)
	s := &Server{t: t, Address: net.JoinHostPort(host, port)}
	s.URL = "redis://" + s.Address + "/0"
	s.command = func() *exec.Cmd {
		return exec.CommandContext(context.Background(), binary,
			append(options, "--bind", host, "--port", port, "--dir", dir, "--loglevel", "warning")...)
	}
	s.ready = func(ctx context.Context) error {
		_, err := redisCommand(ctx, s.Address, "PING")
		return err
	}
	s.Start()
	return s
}

// FlushAll makes a Redis forget everything.
func FlushAll(t testing.TB, s *Server) {
	t.Helper()
	if _, err := redisCommand(t.Context(), s.Address, "FLUSHALL"); err != nil {
		t.Fatal(err)
	}
}

// RedisCommand sends a command, with arguments that have no spaces, to a Redis, and
// returns the beginning of the answer.
func RedisCommand(t testing.TB, s *Server, command string) string {
	t.Helper()
	answer, err := redisCommand(t.Context(), s.Address, command)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// RefuseWrites are the ways to make a Redis answer and take no writes, by name. Each
// function begins it, and returns another that ends it.
func RefuseWrites() map[string]func(t testing.TB, s *Server) (end func()) {
	commands := func(begin, end []string) func(t testing.TB, s *Server) func() {
		return func(t testing.TB, s *Server) func() {
			t.Helper()
			for _, command := range begin {
				RedisCommand(t, s, command)
			}
			return func() {
				for _, command := range end {
					RedisCommand(t, s, command)
				}
			}
		}
	}
	return map[string]func(t testing.TB, s *Server) func(){
		"a replica": commands([]string{"CONFIG SET replica-serve-stale-data yes", "REPLICAOF 127.0.0.1 1"},
			[]string{"REPLICAOF NO ONE"}),
		"out of memory": commands([]string{"CONFIG SET maxmemory-policy noeviction", "CONFIG SET maxmemory 1"},
			[]string{"CONFIG SET maxmemory 0"}),
	}
}

// redisCommand sends a command without arguments or with plain ones, and returns
// the beginning of the answer.
func redisCommand(ctx context.Context, address, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, waittest.Limit/4)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := fmt.Fprint(conn, command, "\r\n"); err != nil {
		return "", err
	}
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	if err != nil {
		return "", err
	}
	text := string(answer[:n])
	if strings.HasPrefix(text, "-") {
		return "", fmt.Errorf("%s: %s", command, text)
	}
	return text, nil
}

// RedisCommands counts the commands that clients send to a Redis within a time, by name.
// It leaves out the commands of scripts.
func RedisCommands(t testing.TB, s *Server, long time.Duration) map[string]int {
	t.Helper()
	count := map[string]int{}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(long)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if _, command, found := strings.Cut(lines.Text(), `] "`); found && !strings.Contains(lines.Text(), " lua] ") {
			count[command[:strings.IndexByte(command, '"')]]++
		}
	}
	return count
}

// awaitState waits until the answer of a Redis about itself has the given text.
func awaitState(t testing.TB, address, question, want string) {
	t.Helper()
	await(t, address+" says "+want, nil, func(ctx context.Context) error {
		state, err := redisCommand(ctx, address, question)
		if err == nil && !strings.Contains(state, want) {
			err = errors.New(state)
		}
		return err
	})
}

// RedisCluster starts a cluster of three and returns one of them.
func RedisCluster(t testing.TB) *Server {
	t.Helper()
	cli := program(t, "redis-cli")
	args := []string{"--cluster", "create"}
	var first *Server
	for range 3 {
		_, bus := freePort(t)
		s := Redis(t, "--cluster-enabled", "yes", "--cluster-port", bus)
		args = append(args, s.Address)
		if first == nil {
			first = s
		}
	}
	first.URL = "redis://" + first.Address // a cluster has no numbered databases
	out, err := exec.CommandContext(t.Context(), cli, append(args, "--cluster-yes")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	awaitState(t, first.Address, "CLUSTER INFO", "cluster_state:ok")
	return first
}

// Sentinels is a Redis with a replica, and three sentinels that make the replica
// the master when the master dies.
type Sentinels struct {
	URL             string
	Master, Replica *Server
}

// Promoted reports whether the replica has become the master.
func (s *Sentinels) Promoted() bool {
	state, err := redisCommand(context.Background(), s.Replica.Address, "INFO REPLICATION")
	return err == nil && strings.Contains(state, "role:master")
}

// masterName is the sentinels' name of the master.
const masterName = "counters"

// RedisSentinels starts a master, a replica and their sentinels.
func RedisSentinels(t testing.TB) *Sentinels {
	t.Helper()
	s := &Sentinels{Master: Redis(t, "--repl-diskless-sync-delay", "0")}
	host, port, _ := net.SplitHostPort(s.Master.Address)
	s.Replica = Redis(t, "--replicaof", host+" "+port)
	awaitState(t, s.Replica.Address, "INFO REPLICATION", "master_link_status:up")
	var addresses []string
	for range 3 {
		addresses = append(addresses, sentinel(t, host, port))
	}
	for _, address := range addresses {
		awaitState(t, address, "INFO SENTINEL", "slaves=1,sentinels=3")
	}
	s.URL = "redis+sentinel://" + strings.Join(addresses, ",") + "/" + masterName
	return s
}

// sentinel starts one that watches the master, and returns its address.
func sentinel(t testing.TB, host, port string) string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "sentinel.conf") // the sentinel writes its findings to it
	rules := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel down-after-milliseconds %[1]s 300\nsentinel "+
		"failover-timeout %[1]s 3000\n",
		masterName, host, port)
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return redisServer(t, dir, file, "--sentinel").Address
}
