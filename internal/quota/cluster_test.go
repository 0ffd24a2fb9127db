package quota_test

import (
	"net"
	"os/exec"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/quota/redisstore"
)

// startCluster starts a cluster of three and returns the address of one of it.
func startCluster(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("redis-cli is not installed")
	}
	args := []string{"--cluster", "create"}
	for range 3 {
		host, port := freeAddress(t)
		dir := t.TempDir()
		s := &server{t: t, start: func() *exec.Cmd {
			return exec.Command(program, "--bind", host, "--port", port, "--cluster-enabled", "yes", "--cluster-port", clusterPort(t),
				"--save", "", "--dir", dir, "--loglevel", "warning")
		}}
		s.run()
		t.Cleanup(s.kill)
		awaitPort(t, net.JoinHostPort(host, port))
		args = append(args, net.JoinHostPort(host, port))
	}
	out, err := exec.CommandContext(t.Context(), cli, append(args, "--cluster-yes")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	host, port, _ := net.SplitHostPort(args[2])
	eventually(t, "the cluster is up", func() bool {
		out, _ := exec.CommandContext(t.Context(), cli, "-h", host, "-p", port, "cluster", "info").CombinedOutput()
		return strings.Contains(string(out), "cluster_state:ok")
	})
	return "redis://" + args[2]
}

func clusterPort(t *testing.T) string {
	_, port := freeAddress(t)
	return port
}

func TestRedisCluster(t *testing.T) {
	address := startCluster(t)
	a := startLedger(t, shape{redis: address})
	b := startLedger(t, shape{redis: strings.Replace(address, "redis://", "redis+cluster://", 1)})
	a.requests(20)
	b.requests(30)
	exactSoon(t, address, 50, a, b)
	// The windows of one request are on one node, those of several on several.
	ctx := t.Context()
	store, err := redisstore.Open(ctx, address, "spread")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if mark, err := store.Mark(ctx, "m"); err != nil || mark != strings.Repeat("m.", 7)+"m" {
		t.Errorf("%q, %v", mark, err)
	}
	if rows, err := store.Read(ctx, []quota.Instance{{Window: quota.Day}}); len(rows) != 0 || err != nil {
		t.Errorf("%v, %v", rows, err)
	}
}
