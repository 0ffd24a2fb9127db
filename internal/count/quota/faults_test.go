package quota_test

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// TestFrozenRedisDelaysNobody: requests do not ask Redis, and nothing else asks it often
// while it is frozen.
func TestFrozenRedisDelaysNobody(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	g := startLedger(t, shape{redis: redis.URL})
	g.requests(50)
	exactSoon(t, redis.URL, 50, g)
	redis.Freeze()
	before := g.Stats().CounterPushes
	g.requests(200)
	if asked := g.Stats().CounterPushes - before; asked > 6 {
		t.Errorf("Redis was asked %d times for 200 requests", asked)
	}
	var status quota.Status
	waittest.Eventually(t, "it is noticed", func() bool {
		status = g.Status(t.Context())
		return strings.HasPrefix(status.Reason, "quota-counter-redis-timeout") && !status.Probe.Reachable && status.Probe.Status == quota.ProbeError
	})
	g.requests(10)
	if after := g.Status(t.Context()).Degradations; after != status.Degradations+10 {
		t.Errorf("%d requests were counted locally, want 10", after-status.Degradations)
	}
	if requests, tokens := g.month(); requests != 260 || tokens != 260 {
		t.Errorf("while frozen: %d/%d", requests, tokens)
	}
	redis.Thaw()
	exactSoon(t, redis.URL, 260, g)
}

func TestRedisThatLosesEverythingIsFilledAgain(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	sql := storetest.Postgres(t).URL
	gone := startLedger(t, shape{redis: redis.URL, sql: sql})
	gone.requests(7)
	if err := gone.Close(t.Context()); err != nil { // its share is in the database
		t.Fatal(err)
	}
	a := startLedger(t, shape{redis: redis.URL, sql: sql})
	b := startLedger(t, shape{redis: redis.URL, sql: sql})
	a.requests(20)
	b.requests(30)
	exactSoon(t, redis.URL, 57, a, b)
	storetest.FlushAll(t, redis)
	a.requests(1)
	exactSoon(t, redis.URL, 58, a, b)
	redis.Kill()
	a.requests(10)
	b.requests(10)
	redis.Start() // empty
	exactSoon(t, redis.URL, 78, a, b)
}

func TestRedisUnavailableAtStart(t *testing.T) {
	t.Parallel()
	g := startLedger(t, shape{redis: "redis://" + waittest.Nobody(t)})
	g.requests(5)
	status := g.Status(t.Context())
	if !strings.HasPrefix(status.Reason, "quota-counter-redis-unavailable") || status.Probe.Reachable {
		t.Errorf("%+v %+v", status, status.Probe)
	}
	if requests, _ := g.month(); requests != 5 {
		t.Errorf("%d", requests)
	}
	g.requests(50)
	if asked := g.Stats().CounterPushes; asked != 0 {
		t.Errorf("%d requests waited for nobody", asked)
	}
}

func TestWithoutLocalCountingAStoreThatIsAwayIsAnError(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	g := startLedger(t, shape{redis: redis.URL, edit: func(s *quota.Settings) {
		s.Distributed.DegradeToLocal, s.FailOpen = false, false
		s.Distributed.Timeout = quota.Timeout(5 * time.Second) // a busy machine is no failure of Redis
	}})
	g.requests(10)
	exactSoon(t, redis.URL, 10, g)
	redis.Kill()
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
	redis.Start()
	exactSoon(t, redis.URL, 15, g)
}

// TestRepliesThatGetLostDoNotCountTwice cuts the connection after Redis has done
// what it was told, and before anybody hears of it.
func TestRepliesThatGetLostDoNotCountTwice(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	way := storetest.Between(t, redis)
	g := startLedger(t, shape{redis: way.URL, edit: func(s *quota.Settings) {
		s.Distributed.Timeout = quota.Timeout(10 * time.Millisecond)
	}})
	want := int64(0)
	for range 4 {
		for range 20 {
			g.requests(1)
			want++
		}
		way.Tear(rand.N(60))
		for range 5 {
			g.requests(1)
			want++
		}
		way.Heal()
		waittest.Eventually(t, "Redis is back", func() bool { return g.Status(t.Context()).Reason == "" })
	}
	exactSoon(t, redis.URL, want, g)
}

// TestSlowRedis is about one that answers in time, and one that does not.
func TestSlowRedis(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	way := storetest.Between(t, redis)
	start := func(timeout time.Duration) *gateway {
		return startLedger(t, shape{redis: way.URL, edit: func(s *quota.Settings) { s.Distributed.Timeout = quota.Timeout(timeout) }})
	}
	patient, hasty := start(5*time.Second), start(50*time.Millisecond)
	patient.requests(1)
	waittest.Eventually(t, "Redis is there for both", func() bool { return hasty.Status(t.Context()).Reason == "" })
	way.Slow(40 * time.Millisecond)
	patient.requests(10)
	if status := patient.Status(t.Context()); status.Reason != "" || status.Degradations != 0 {
		t.Errorf("in time: %+v", status)
	}
	way.Heal()
	way.Slow(500 * time.Millisecond)
	waittest.Eventually(t, "it is too late for one", func() bool { return hasty.Status(t.Context()).Reason != "" })
	before := hasty.Status(t.Context()).Degradations
	asked := hasty.Stats().CounterPushes
	hasty.requests(100)
	status, stats := hasty.Status(t.Context()), hasty.Stats()
	if status.Probe.Reachable || status.Degradations-before != 100 || stats.CounterFailures == 0 {
		t.Errorf("too late: %+v %+v, %d failures", status, status.Probe, stats.CounterFailures)
	}
	if asked := stats.CounterPushes - asked; asked > 6 {
		t.Errorf("%d requests waited", asked)
	}
	way.Heal()
	exactSoon(t, redis.URL, 111, patient, hasty)
}

// TestFarRedisIsFilledAgain is about one that answers within the timeout, but
// only just: what takes several round trips must not take their sum from it.
func TestFarRedisIsFilledAgain(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	way := storetest.Between(t, redis)
	// One round trip fits into the timeout with room for a busy machine, two do not.
	const far, timeout = 250 * time.Millisecond, 400 * time.Millisecond
	way.Slow(far)
	g := startLedger(t, shape{redis: way.URL, edit: func(s *quota.Settings) { s.Distributed.Timeout = quota.Timeout(timeout) }})
	g.requests(3)
	exactSoon(t, redis.URL, 3, g)
	storetest.FlushAll(t, redis)
	g.requests(3)
	exactSoon(t, redis.URL, 6, g)
	redis.Kill()
	g.requests(3)
	redis.Start() // empty, and all connections are new
	exactSoon(t, redis.URL, 9, g)
	way.Heal()
	for n := range 1000 { // four cells each
		if _, err := g.requestOf(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	way.Slow(far)
	storetest.FlushAll(t, redis)
	exactSoon(t, redis.URL, 1009, g)
}

// TestFaultyConnectionsToBothStores has two gateways count while the ways to Redis and
// to PostgreSQL are slow, deaf, torn and cut, in any combination.
func TestFaultyConnectionsToBothStores(t *testing.T) {
	t.Parallel()
	redis, postgres := storetest.Redis(t), storetest.Postgres(t)
	ways := []*storetest.Faults{storetest.Between(t, redis), storetest.Between(t, postgres)}
	gateways := []*gateway{
		startLedger(t, shape{redis: ways[0].URL, sql: ways[1].URL}), startLedger(t, shape{redis: ways[0].URL, sql: ways[1].URL}),
	}
	var counted atomic.Int64
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for _, g := range gateways {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				if _, err := g.request(); err != nil {
					t.Error(err)
				}
				counted.Add(1)
			}
		})
	}
	for range 12 {
		for _, way := range ways {
			way.Any()
		}
		before := counted.Load()
		waittest.Eventually(t, "requests pass", func() bool { return counted.Load() > before+100 })
		for _, way := range ways {
			way.Heal()
		}
	}
	close(stop)
	clients.Wait()
	exactSoon(t, redis.URL, counted.Load(), gateways...)
	for _, g := range gateways {
		if err := g.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	other := startLedger(t, shape{sql: postgres.URL})
	if requests, tokens := other.month(); requests != counted.Load() || tokens != counted.Load() {
		t.Errorf("%d/%d in the database, want %d", requests, tokens, counted.Load())
	}
}

// TestDroppedTablesAreCreatedAgain: a database that was replaced by an empty one
// gets what is not safe elsewhere.
func TestDroppedTablesAreCreatedAgain(t *testing.T) {
	t.Parallel()
	postgres := storetest.Postgres(t)
	g := startLedger(t, shape{sql: postgres.URL})
	g.requests(10)
	waittest.Eventually(t, "written", func() bool { return g.Stats().RowsWritten > 0 })
	db, err := sql.Open("pgx", postgres.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{"DROP TABLE quota_usage", "DROP TABLE quota_schema"} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	g.requests(10)
	waittest.Eventually(t, "the new tables have it all", func() bool {
		var requests, tokens int64
		err := db.QueryRowContext(t.Context(), "SELECT sum(request_count), sum(token_count) FROM quota_usage WHERE window_type = 'MONTH'").Scan(&requests, &tokens)
		return err == nil && requests == 20 && tokens == 20
	})
}

// TestExistingTablesNeedNoRightToCreate: who may only write opens what an owner has
// made.
func TestExistingTablesNeedNoRightToCreate(t *testing.T) {
	t.Parallel()
	postgres := storetest.Postgres(t)
	openSQL(t, postgres.URL, "")
	db, err := sql.Open("pgx", postgres.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		"CREATE ROLE counter LOGIN", "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
		"GRANT SELECT, INSERT, UPDATE, DELETE ON quota_usage, quota_schema TO counter",
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	store := openSQL(t, strings.Replace(postgres.URL, "patchbay@", "counter@", 1), "")
	if err := store.Write(t.Context(), []quota.Row{row("w", "u", quota.Day, time.Now(), 1, 1)}); err != nil {
		t.Error(err)
	}
}

func TestFrozenPostgresDelaysNobody(t *testing.T) {
	t.Parallel()
	postgres := storetest.Postgres(t)
	g := startLedger(t, shape{sql: postgres.URL})
	g.requests(10)
	waittest.Eventually(t, "written", func() bool { return g.Stats().RowsWritten > 0 })
	median := func(requests int) time.Duration {
		waits := make([]time.Duration, requests)
		for i := range waits {
			took, err := g.request()
			if err != nil {
				t.Fatal(err)
			}
			waits[i] = took
		}
		slices.Sort(waits)
		return waits[requests/2]
	}
	usual, total := median(500), 510
	postgres.Freeze()
	var frozen []time.Duration
	waittest.Eventually(t, "a flush hangs", func() bool {
		frozen = append(frozen, median(100))
		total += 100
		return time.Since(g.Stats().LastFlush) > 2*time.Second // one is due every second
	})
	// Nine of ten hundreds are as fast as ever, apart from what the machine does.
	slices.Sort(frozen)
	if most := frozen[len(frozen)*9/10]; most > 10*usual+time.Millisecond {
		t.Errorf("requests wait %v while a flush hangs, and %v before", most, usual)
	}
	postgres.Thaw()
	waittest.Eventually(t, "well again", func() bool { return g.Status(t.Context()).Reason == "" })
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := int64(total)
	other := startLedger(t, shape{sql: postgres.URL})
	if requests, tokens := other.month(); requests != want || tokens != want {
		t.Errorf("%d/%d in the database, want %d", requests, tokens, want)
	}
}

func TestPostgresThatIsAwayLosesNothing(t *testing.T) {
	t.Parallel()
	postgres := storetest.Postgres(t)
	g := startLedger(t, shape{sql: postgres.URL})
	g.requests(10)
	waittest.Eventually(t, "written", func() bool { return g.Stats().RowsWritten > 0 })
	postgres.Kill()
	g.requests(10)
	waittest.Eventually(t, "degraded", func() bool { return strings.HasPrefix(g.Status(t.Context()).Reason, "quota-store-unavailable") })
	g.requests(10)
	if requests, _ := g.month(); requests != 30 {
		t.Errorf("%d while it is away", requests)
	}
	postgres.Start()
	waittest.Eventually(t, "well again", func() bool { return g.Status(t.Context()).Reason == "" })
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := startLedger(t, shape{sql: postgres.URL})
	if requests, tokens := other.month(); requests != 30 || tokens != 30 {
		t.Errorf("%d/%d in the database", requests, tokens)
	}
}
