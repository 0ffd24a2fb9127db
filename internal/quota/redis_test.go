package quota_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/quota/redisstore"
	"github.com/patchbay-ai/patchbay/internal/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/schema"
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
		OpenCounter: func(ctx context.Context) (quota.Counter, error) {
			store, err := redisstore.Open(ctx, s.redis, settings.Distributed.KeyPrefix)
			if err != nil {
				return nil, err
			}
			return store, nil
		},
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_ = g.Close(ctx)
	})
	return g
}

// request counts a request of one token and returns how long it was held up.
func (g *gateway) request() (time.Duration, error) {
	var ticket quota.Ticket
	began := time.Now()
	err := g.Admit(&ticket, quota.Subject{Tenant: "acme", User: []byte("ann"), Service: schema.Chat, Model: "m"}, began)
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
	usage, _, _ := g.Usage(context.Background(), quota.Question{Window: &w})
	for _, u := range usage {
		requests, tokens = requests+u.Requests, tokens+u.Tokens
	}
	return requests, tokens
}

// inRedis returns what Redis alone has of the open month, over all writers.
func inRedis(t testing.TB, address string) (requests, tokens int64) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	store, err := redisstore.Open(ctx, address, quota.DefaultSettings().Distributed.KeyPrefix)
	if err != nil {
		return -1, -1
	}
	defer store.Close()
	rows, err := store.Read(ctx, []quota.Instance{{Window: quota.Month, Start: quota.Month.Start(time.Now())}})
	if err != nil {
		return -1, -1
	}
	for _, r := range rows {
		requests, tokens = requests+r.Requests, tokens+r.Tokens
	}
	return requests, tokens
}

// exactSoon checks that Redis and every gateway have the truth within the time
// that is promised.
func exactSoon(t testing.TB, redis string, want int64, gateways ...*gateway) {
	t.Helper()
	within(t, 5*time.Second, fmt.Sprintf("Redis has %d", want), func() bool {
		requests, tokens := inRedis(t, redis)
		return requests == want && tokens == want
	})
	for i, g := range gateways {
		within(t, 5*time.Second, fmt.Sprintf("gateway %d says %d", i, want), func() bool {
			requests, tokens := g.month()
			return requests == want && tokens == want && g.Status(t.Context()).Reason == ""
		})
	}
}

func TestFrozenRedisCostsTheTimeoutAFewTimes(t *testing.T) {
	redis := startRedis(t)
	g := startLedger(t, shape{redis: redis.address})
	g.requests(50)
	exactSoon(t, redis.address, 50, g)
	redis.signal(syscall.SIGSTOP)
	var waits []time.Duration
	slow := 0
	for range 200 {
		took, err := g.request()
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, took)
		if took > 10*time.Millisecond {
			slow++
		}
	}
	slices.Sort(waits)
	t.Logf("frozen: %d of 200 requests waited, the longest %v, the median %v", slow, waits[199], waits[100])
	if slow > 8 || waits[199] > 150*time.Millisecond || waits[100] > 2*time.Millisecond {
		t.Errorf("%d requests waited, the longest %v, the median %v", slow, waits[199], waits[100])
	}
	status := g.Status(t.Context())
	if !strings.HasPrefix(status.Reason, "quota-counter-redis-timeout") || status.Probe.Reachable || status.Probe.Status != quota.ProbeError || status.Degradations == 0 {
		t.Errorf("%+v %+v", status, status.Probe)
	}
	if requests, tokens := g.month(); requests != 250 || tokens != 250 {
		t.Errorf("while frozen: %d/%d", requests, tokens)
	}
	redis.signal(syscall.SIGCONT)
	exactSoon(t, redis.address, 250, g)
}

func TestRedisThatLosesEverythingIsFilledAgain(t *testing.T) {
	redis := startRedis(t)
	sql := startPostgres(t).address
	gone := startLedger(t, shape{redis: redis.address, sql: sql})
	gone.requests(7)
	if err := gone.Close(t.Context()); err != nil { // its share is in the database
		t.Fatal(err)
	}
	a := startLedger(t, shape{redis: redis.address, sql: sql})
	b := startLedger(t, shape{redis: redis.address, sql: sql})
	a.requests(20)
	b.requests(30)
	exactSoon(t, redis.address, 57, a, b)
	flushAll(t, redis.address)
	a.requests(1)
	exactSoon(t, redis.address, 58, a, b)
	redis.kill()
	a.requests(10)
	b.requests(10)
	redis.run() // empty
	exactSoon(t, redis.address, 78, a, b)
}

func flushAll(t testing.TB, address string) {
	t.Helper()
	where, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", where.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer := make([]byte, 5)
	if _, err := io.WriteString(conn, "FLUSHALL\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "+OK\r\n" {
		t.Fatalf("%q %v", answer, err)
	}
}

func TestGatewaysOnOneRedisAndOneDatabaseAddUp(t *testing.T) {
	redis, sql := startRedis(t), startPostgres(t).address
	gateways := []*gateway{
		startLedger(t, shape{redis: redis.address, sql: sql}), startLedger(t, shape{redis: redis.address, sql: sql}), startLedger(t, shape{sql: sql}),
	}
	var clients sync.WaitGroup
	for _, g := range gateways {
		for range 4 {
			clients.Go(func() { g.requests(100) })
		}
	}
	clients.Wait()
	for i, g := range gateways {
		within(t, 5*time.Second, fmt.Sprintf("gateway %d has the sum", i), func() bool {
			requests, tokens := g.month()
			return requests == 1200 && tokens == 1200
		})
	}
}

func TestRedisThatIsAwayAtTheStart(t *testing.T) {
	host, port := freeAddress(t)
	g := startLedger(t, shape{redis: "redis://" + net.JoinHostPort(host, port)})
	g.requests(5)
	status := g.Status(t.Context())
	if !strings.HasPrefix(status.Reason, "quota-counter-redis-unavailable") || status.Probe.Reachable {
		t.Errorf("%+v %+v", status, status.Probe)
	}
	if requests, _ := g.month(); requests != 5 {
		t.Errorf("%d", requests)
	}
	for range 50 {
		if took, err := g.request(); err != nil || took > 20*time.Millisecond {
			t.Errorf("%v, %v", took, err)
		}
	}
}

func TestWithoutLocalCountingAStoreThatIsAwayIsAnError(t *testing.T) {
	redis := startRedis(t)
	g := startLedger(t, shape{redis: redis.address, edit: func(s *quota.Settings) {
		s.Distributed.DegradeToLocal, s.FailOpen = false, false
	}})
	g.requests(10)
	exactSoon(t, redis.address, 10, g)
	redis.kill()
	refused := 0
	for range 20 {
		if _, err := g.request(); errors.Is(err, quota.ErrUnavailable) {
			refused++
		}
	}
	if refused != 20 {
		t.Errorf("%d refused", refused)
	}
	if requests, tokens := g.month(); requests != 10 || tokens != 10 {
		t.Errorf("refused requests are counted: %d/%d", requests, tokens)
	}
	open := true
	g.Edit(quota.Edit{FailOpen: &open})
	g.requests(5)
	redis.run()
	exactSoon(t, redis.address, 15, g)
}

// TestRepliesThatGetLostDoNotCountTwice cuts the connection after Redis has done
// what it was told, and before anybody hears of it.
func TestRepliesThatGetLostDoNotCountTwice(t *testing.T) {
	redis := startRedis(t)
	proxy := startFaultProxy(t, redis.address)
	g := startLedger(t, shape{redis: proxy.address, edit: func(s *quota.Settings) {
		s.Distributed.Timeout = schema.Duration(10 * time.Millisecond)
	}})
	want := int64(0)
	for range 20 {
		for range 20 {
			proxy.mute.Store(want%3 == 0)
			g.requests(1)
			want++
		}
		proxy.cut()
		proxy.mute.Store(false)
	}
	proxy.cut()
	exactSoon(t, redis.address, want, g)
}

// faultProxy stands between a gateway and Redis.
type faultProxy struct {
	address string
	mute    atomic.Bool  // replies are swallowed
	delay   atomic.Int64 // of replies, in nanoseconds
	mu      sync.Mutex
	open    []net.Conn
}

func startFaultProxy(t testing.TB, to string) *faultProxy {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &faultProxy{address: "redis://" + listener.Addr().String() + "/0"}
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			backend, err := new(net.Dialer).DialContext(context.Background(), "tcp", target.Host)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.mu.Lock()
			p.open = append(p.open, client, backend)
			p.mu.Unlock()
			go func() { _, _ = io.Copy(backend, client) }()
			go p.replies(client, backend)
		}
	}()
	return p
}

func (p *faultProxy) replies(client, backend net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := backend.Read(buf)
		if err != nil {
			_ = client.Close()
			return
		}
		if delay := time.Duration(p.delay.Load()); delay > 0 {
			<-time.After(delay)
		}
		if p.mute.Load() {
			_ = client.Close() // half a conversation cannot go on
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// cut closes every connection.
func (p *faultProxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.open {
		_ = conn.Close()
	}
	p.open = nil
}

// TestSlowRedis is about one that answers, but not always in time.
func TestSlowRedis(t *testing.T) {
	redis := startRedis(t)
	proxy := startFaultProxy(t, redis.address)
	g := startLedger(t, shape{redis: proxy.address, edit: func(s *quota.Settings) {
		s.Distributed.Timeout = schema.Duration(300 * time.Millisecond)
	}})
	g.requests(1)
	proxy.delay.Store(int64(40 * time.Millisecond))
	g.requests(10)
	if status := g.Status(t.Context()); status.Reason != "" || status.Degradations != 0 {
		t.Errorf("in time: %+v", status)
	}
	proxy.delay.Store(int64(500 * time.Millisecond))
	for range 100 {
		if took, err := g.request(); err != nil || took > 400*time.Millisecond {
			t.Errorf("%v, %v", took, err)
		}
	}
	failures := g.Stats().CounterFailures
	if status := g.Status(t.Context()); status.Probe.Reachable || status.Degradations != 100 || failures == 0 {
		t.Errorf("too late: %+v %+v, %d failures", status, status.Probe, failures)
	}
	proxy.delay.Store(0)
	exactSoon(t, redis.address, 111, g)
}

func TestPostgresThatIsAwayLosesNothing(t *testing.T) {
	postgres := startPostgres(t)
	g := startLedger(t, shape{sql: postgres.address})
	g.requests(10)
	eventually(t, "written", func() bool { return g.Stats().RowsWritten > 0 })
	postgres.kill()
	g.requests(10)
	eventually(t, "degraded", func() bool { return strings.HasPrefix(g.Status(t.Context()).Reason, "quota-store-unavailable") })
	g.requests(10)
	if requests, _ := g.month(); requests != 30 {
		t.Errorf("%d while it is away", requests)
	}
	postgres.run()
	postgres.ready()
	within(t, 8*time.Second, "well again", func() bool { return g.Status(t.Context()).Reason == "" })
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := startLedger(t, shape{sql: postgres.address})
	if requests, tokens := other.month(); requests != 30 || tokens != 30 {
		t.Errorf("%d/%d in the database", requests, tokens)
	}
}
