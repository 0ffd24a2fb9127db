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

	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/storetest"
)

func TestFrozenRedisCostsTheTimeoutAFewTimes(t *testing.T) {
	redis := storetest.Redis(t)
	g := startLedger(t, shape{redis: redis.URL})
	timeout := g.Settings().Distributed.Timeout.Std()
	g.requests(50)
	exactSoon(t, redis.URL, 50, g)
	redis.Freeze()
	late := lateness(t, timeout)
	var waits []time.Duration
	waited := 0
	for range 200 {
		took, err := g.request()
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, took)
		if took > timeout/2 {
			waited++
		}
	}
	slices.Sort(waits)
	longest, median, machine := waits[199], waits[100], late()
	t.Logf("%d of 200 requests waited, the longest %v, the median %v; a plain timer was up to %v late", waited, longest, median, machine)
	if waited > 5 || longest > timeout+5*time.Millisecond+machine || median > time.Millisecond {
		t.Errorf("%d requests waited, the longest %v, the median %v", waited, longest, median)
	}
	status := g.Status(t.Context())
	if !strings.HasPrefix(status.Reason, "quota-counter-redis-timeout") || status.Probe.Reachable || status.Probe.Status != quota.ProbeError || status.Degradations == 0 {
		t.Errorf("%+v %+v", status, status.Probe)
	}
	if requests, tokens := g.month(); requests != 250 || tokens != 250 {
		t.Errorf("while frozen: %d/%d", requests, tokens)
	}
	redis.Thaw()
	exactSoon(t, redis.URL, 250, g)
}

// lateness tells how late a plain timer fires on this machine, at its worst,
// until it is asked.
func lateness(t testing.TB, period time.Duration) func() time.Duration {
	t.Helper()
	done, worst := make(chan struct{}), make(chan time.Duration)
	go func() {
		most := time.Duration(0)
		for {
			began := time.Now()
			select {
			case <-done:
				worst <- most
				return
			case <-time.After(period / 10):
				most = max(most, time.Since(began)-period/10)
			}
		}
	}()
	return func() time.Duration {
		close(done)
		return <-worst
	}
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

func TestRedisThatIsAwayAtTheStart(t *testing.T) {
	g := startLedger(t, shape{redis: "redis://" + storetest.FreeAddress(t)})
	g.requests(5)
	status := g.Status(t.Context())
	if !strings.HasPrefix(status.Reason, "quota-counter-redis-unavailable") || status.Probe.Reachable {
		t.Errorf("%+v %+v", status, status.Probe)
	}
	if requests, _ := g.month(); requests != 5 {
		t.Errorf("%d", requests)
	}
	var waits []time.Duration
	for range 50 {
		took, err := g.request()
		if err != nil {
			t.Error(err)
		}
		waits = append(waits, took)
	}
	slices.Sort(waits)
	if median := waits[25]; median > time.Millisecond {
		t.Errorf("requests wait %v for nobody", median)
	}
}

func TestWithoutLocalCountingAStoreThatIsAwayIsAnError(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	g := startLedger(t, shape{redis: redis.URL, edit: func(s *quota.Settings) {
		s.Distributed.DegradeToLocal, s.FailOpen = false, false
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
		within(t, 5*time.Second, "Redis is back", func() bool { return g.Status(t.Context()).Reason == "" })
	}
	exactSoon(t, redis.URL, want, g)
}

// TestSlowRedis is about one that answers, but not always in time.
func TestSlowRedis(t *testing.T) {
	redis := storetest.Redis(t)
	way := storetest.Between(t, redis)
	g := startLedger(t, shape{redis: way.URL, edit: func(s *quota.Settings) {
		s.Distributed.Timeout = quota.Timeout(300 * time.Millisecond)
	}})
	g.requests(1)
	way.Slow(40 * time.Millisecond)
	g.requests(10)
	if status := g.Status(t.Context()); status.Reason != "" || status.Degradations != 0 {
		t.Errorf("in time: %+v", status)
	}
	way.Heal()
	way.Slow(500 * time.Millisecond)
	late := lateness(t, 300*time.Millisecond)
	longest := time.Duration(0)
	for range 100 {
		took, err := g.request()
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, took)
	}
	if machine := late(); longest > 305*time.Millisecond+machine {
		t.Errorf("a request waited %v; a plain timer was %v late", longest, machine)
	}
	failures := g.Stats().CounterFailures
	if status := g.Status(t.Context()); status.Probe.Reachable || status.Degradations != 100 || failures == 0 {
		t.Errorf("too late: %+v %+v, %d failures", status, status.Probe, failures)
	}
	way.Heal()
	exactSoon(t, redis.URL, 111, g)
}

// TestFarRedisIsFilledAgain is about one that answers within the timeout, but
// only just: what takes several round trips must not take their sum from it.
func TestFarRedisIsFilledAgain(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	way := storetest.Between(t, redis)
	way.Slow(30 * time.Millisecond)
	g := startLedger(t, shape{redis: way.URL})
	g.requests(5)
	exactSoon(t, redis.URL, 5, g)
	storetest.FlushAll(t, redis)
	g.requests(5)
	exactSoon(t, redis.URL, 10, g)
	redis.Kill()
	g.requests(5)
	redis.Start() // empty, and all connections are new
	exactSoon(t, redis.URL, 15, g)
	way.Heal()
	for n := range 3000 { // four cells each
		if _, err := g.requestOf(fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	way.Slow(30 * time.Millisecond)
	storetest.FlushAll(t, redis)
	exactSoon(t, redis.URL, 3015, g)
}

// TestFaultyWaysToBothStores has two gateways count while the ways to Redis and
// to PostgreSQL are slow, deaf, torn and cut, in any combination.
func TestFaultyWaysToBothStores(t *testing.T) {
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
		eventually(t, "requests pass", func() bool { return counted.Load() > before+100 })
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

// TestTablesThatVanishAreMadeAgain: a database that was replaced by an empty one
// gets what is not safe elsewhere.
func TestTablesThatVanishAreMadeAgain(t *testing.T) {
	t.Parallel()
	postgres := storetest.Postgres(t)
	g := startLedger(t, shape{sql: postgres.URL})
	g.requests(10)
	eventually(t, "written", func() bool { return g.Stats().RowsWritten > 0 })
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
	within(t, 8*time.Second, "well again", func() bool { return g.Status(t.Context()).Reason == "" })
	if requests, tokens := g.month(); requests != 20 || tokens != 20 {
		t.Errorf("%d/%d", requests, tokens)
	}
}

// TestTablesNeedNoRightToBeMadeTwice: who may only write opens what an owner has
// made.
func TestTablesNeedNoRightToBeMadeTwice(t *testing.T) {
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
	eventually(t, "written", func() bool { return g.Stats().RowsWritten > 0 })
	postgres.Freeze()
	var waits []time.Duration
	eventually(t, "two flushes are due", func() bool {
		for range 100 {
			took, err := g.request()
			if err != nil {
				t.Fatal(err)
			}
			waits = append(waits, took)
		}
		return time.Since(g.Stats().LastFlush) > 3*time.Second
	})
	slices.Sort(waits)
	if p99 := waits[len(waits)*99/100]; p99 > 5*time.Millisecond {
		t.Errorf("one of a hundred requests waited %v", p99)
	}
	postgres.Thaw()
	within(t, 8*time.Second, "well again", func() bool { return g.Status(t.Context()).Reason == "" })
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := int64(10 + len(waits))
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
	eventually(t, "written", func() bool { return g.Stats().RowsWritten > 0 })
	postgres.Kill()
	g.requests(10)
	eventually(t, "degraded", func() bool { return strings.HasPrefix(g.Status(t.Context()).Reason, "quota-store-unavailable") })
	g.requests(10)
	if requests, _ := g.month(); requests != 30 {
		t.Errorf("%d while it is away", requests)
	}
	postgres.Start()
	within(t, 8*time.Second, "well again", func() bool { return g.Status(t.Context()).Reason == "" })
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := startLedger(t, shape{sql: postgres.URL})
	if requests, tokens := other.month(); requests != 30 || tokens != 30 {
		t.Errorf("%d/%d in the database", requests, tokens)
	}
}
