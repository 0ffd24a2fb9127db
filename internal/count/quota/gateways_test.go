package quota_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/store/tally/redistally"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// gateway is a ledger with its own journal, and stores that it may share.
type gateway struct {
	*quota.Ledger
	t testing.TB
}

// options of a gateway of the tests.
type shape struct {
	redis string
	sql   string // empty: a file of its own
	dir   string
	edit  func(*quota.Settings)
}

func startLedger(t testing.TB, s shape) *gateway {
	t.Helper()
	if s.dir == "" {
		s.dir = t.TempDir()
	}
	if s.sql == "" {
		s.sql = "sqlite:quota.db"
	}
	settings := quota.DefaultSettings()
	settings.Enabled, settings.FlushIntervalSeconds = true, 1
	settings.Distributed.Enabled = s.redis != ""
	if s.edit != nil {
		s.edit(&settings)
	}
	g := &gateway{t: t}
	g.Ledger = quota.New(settings, quota.Options{
		Dir: filepath.Join(s.dir, quota.JournalDir),
		OpenSnapshots: func(ctx context.Context) (quota.Snapshots, error) {
			store, err := sqlstore.Open(ctx, s.sql, s.dir)
			if err != nil {
				return nil, err
			}
			return store, nil
		},
		Shared: share(t, s.redis, settings.Distributed.Timeout.Std()),
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit)
		defer cancel()
		_ = g.Close(ctx)
	})
	return g
}

// share returns what a gateway has of a Redis that others use as well.
func share(t testing.TB, address string, timeout time.Duration) *tally.Pool {
	id := rand.Text()
	pool := tally.NewPool(tally.Options{
		Open: func(ctx context.Context) (tally.Store, error) {
			store, err := redistally.Open(ctx, address, "test", id)
			if err != nil {
				return nil, err
			}
			return store, nil
		},
		Timeout: timeout, SharesMore: func() bool { return address != "" }, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { pool.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return pool
}

// request counts a request of one token and returns how long it was held up.
func (g *gateway) request() (time.Duration, error) { return g.requestOf("ann") }

func (g *gateway) requestOf(user string) (time.Duration, error) {
	var ticket quota.Ticket
	began := time.Now()
	err := g.Admit(&ticket, quota.Subject{Tenant: "acme", User: []byte(user), Service: schema.Chat, Model: "m"}, began)
	took := time.Since(began)
	ticket.Settle(schema.Usage{Known: true, Total: 1})
	return took, err
}

func (g *gateway) requests(n int) {
	g.t.Helper()
	for range n {
		if _, err := g.request(); err != nil {
			g.t.Fatal(err)
		}
	}
}

// month returns what a gateway says about the open month.
func (g *gateway) month() (requests, tokens int64) {
	w := quota.Month
	usage, _, _ := g.Usage(context.Background(), quota.UsageQuery{Window: &w})
	for _, u := range usage {
		requests, tokens = requests+u.Requests, tokens+u.Tokens
	}
	return requests, tokens
}

// inRedis returns what Redis alone has of the open month, over all writers.
func inRedis(address string) (requests, tokens int64) {
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit)
	defer cancel()
	store, err := redistally.Open(ctx, address, "test", "reader")
	if err != nil {
		return -1, -1
	}
	defer store.Close()
	rows, err := quota.ReadRows(ctx, store, quota.CalendarWindow{Window: quota.Month, Start: quota.Month.Start(time.Now())})
	if err != nil {
		return -1, -1
	}
	for _, r := range rows {
		requests, tokens = requests+r.Requests, tokens+r.Tokens
	}
	return requests, tokens
}

// exactSoon waits until Redis and every gateway have the truth. That they have it
// within the time that is promised does not depend on the machine in
// TestSharedCounterIsExactFiveSecondsAfterItIsBack.
func exactSoon(t testing.TB, redis string, want int64, gateways ...*gateway) {
	t.Helper()
	waittest.Eventually(t, fmt.Sprintf("Redis has %d", want), func() bool {
		requests, tokens := inRedis(redis)
		return requests == want && tokens == want
	})
	for i, g := range gateways {
		waittest.Eventually(t, fmt.Sprintf("gateway %d says %d", i, want), func() bool {
			requests, tokens := g.month()
			return requests == want && tokens == want && g.Status(t.Context()).Reason == ""
		})
	}
}

func TestGatewaysOnOneRedisAndOneDatabaseAddUp(t *testing.T) {
	t.Parallel()
	redis, sql := storetest.Redis(t), storetest.Postgres(t).URL
	gateways := []*gateway{
		startLedger(t, shape{redis: redis.URL, sql: sql}), startLedger(t, shape{redis: redis.URL, sql: sql}), startLedger(t, shape{sql: sql}),
	}
	var clients sync.WaitGroup
	for _, g := range gateways {
		for range 4 {
			clients.Go(func() { g.requests(100) })
		}
	}
	clients.Wait()
	for i, g := range gateways {
		waittest.Eventually(t, fmt.Sprintf("gateway %d has the sum", i), func() bool {
			requests, tokens := g.month()
			return requests == 1200 && tokens == 1200
		})
	}
}

func TestRedisCluster(t *testing.T) {
	t.Parallel()
	redis := storetest.RedisCluster(t)
	a := startLedger(t, shape{redis: redis.URL})
	b := startLedger(t, shape{redis: strings.Replace(redis.URL, "redis://", "redis+cluster://", 1)})
	a.requests(20)
	b.requests(30)
	exactSoon(t, redis.URL, 50, a, b)
}

// TestRedisBehindSentinels loses the master: the replica that takes its place
// has everything, also what the master had not told it yet.
func TestRedisBehindSentinels(t *testing.T) {
	t.Parallel()
	redis := storetest.RedisSentinels(t)
	a := startLedger(t, shape{redis: redis.URL})
	b := startLedger(t, shape{redis: redis.URL})
	a.requests(20)
	b.requests(30)
	exactSoon(t, redis.URL, 50, a, b)
	redis.Replica.Freeze()
	a.requests(10)
	redis.Master.Kill()
	redis.Replica.Thaw()
	b.requests(10)
	waittest.Eventually(t, "the replica is the master", func() bool { return redis.Promoted() })
	exactSoon(t, redis.URL, 70, a, b)
	if requests, tokens := inRedis(redis.Replica.URL); requests != 70 || tokens != 70 {
		t.Errorf("the new master has %d/%d", requests, tokens)
	}
	redis.Master.Start() // it learns that it is a replica now
	a.requests(5)
	exactSoon(t, redis.URL, 75, a, b)
}
