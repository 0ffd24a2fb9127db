package quota

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/tallytest"
)

// sharedLedger is a ledger that counts with others.
func sharedLedger(redis Shared, settings ...Settings) *Ledger {
	settings = append(settings, DefaultSettings())
	settings[0].Enabled = true
	return openShared(settings[0], redis, new(MemorySnapshots))
}

// running returns a pool that runs until it is stopped.
func running(store tally.Store, timeout time.Duration) (pool *tally.Pool, stop func()) {
	pool = poolOf(store, timeout)
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { pool.Run(ctx) })
	return pool, func() {
		cancel()
		ended.Wait()
	}
}

// TestRequestWaitsForTheTimeoutAndNotLonger: a request that may be counted by this gateway
// alone never waits for the shared counter. One that may not waits for the timeout to the
// nanosecond, even if the client library never comes back, and after it nobody waits.
func TestRequestWaitsForTheTimeoutAndNotLonger(t *testing.T) {
	for _, failOpen := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			redis := newStuckStore()
			settings := DefaultSettings()
			settings.FailOpen, settings.Distributed.DegradeToLocal = failOpen, failOpen
			settings.Distributed.Timeout = Timeout(70 * time.Millisecond)
			pool, stop := running(redis, settings.Distributed.Timeout.Std())
			l := sharedLedger(pool, settings)
			<-time.After(time.Millisecond)
			redis.stuck.Store(true)
			for n := range 10 {
				var ticket Ticket
				began := time.Now()
				err := l.Admit(&ticket, benchSubject, began)
				want := settings.Distributed.Timeout.Std()
				if n > 0 || failOpen {
					want = 0
				}
				if took := time.Since(began); took != want || (err == nil) != failOpen {
					t.Errorf("request %d with fail-open %t waited %v: %v", n, failOpen, took, err)
				}
				ticket.Settle(schema.Usage{Known: true, Total: 3})
			}
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
			stop()
		})
	}
}

// A status that says degraded has counted a degradation, although no request met it, and
// counts it once for each outage however often it is asked.
func TestAnOutageThatNoRequestMetCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := NewShared()
		l := sharedLedger(redis)
		for outage := range int64(3) {
			if status := l.Status(t.Context()); status.Reason != "" || status.Degradations != outage {
				t.Errorf("before outage %d: %+v", outage, status)
			}
			redis.Down = true
			for range 5 {
				if status := l.Status(t.Context()); status.Reason == "" || status.Degradations != outage+1 || l.Stats().Degradations != outage+1 {
					t.Errorf("in outage %d: %+v", outage, status)
				}
			}
			redis.Down = false
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestSteadyRequestsAreToldInBatches: whatever the load, the shared counter hears of it a
// few times a second, and has it all a moment later.
func TestSteadyRequestsAreToldInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := tallytest.New()
		pool, stop := running(store.Member("a"), 50*time.Millisecond)
		l := sharedLedger(pool)
		<-time.After(2 * time.Second)
		before := store.Told()
		const seconds, perSecond = 10, 200
		for range seconds * perSecond {
			countOne(t, l)
			<-time.After(time.Second / perSecond)
		}
		if told := store.Told() - before; told > seconds*5 {
			t.Errorf("the counter was told %d times in %d seconds", told, seconds)
		}
		<-time.After(pushEvery)
		if total := sum(rowsOf(store, OpenWindows(time.Now(), []Window{Month}))); len(total) != 1 || total[0].Requests != seconds*perSecond || total[0].Tokens != 3*seconds*perSecond {
			t.Errorf("the counter has %v", total)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		stop()
	})
}

// TestAPartThatLostItsDataIsFilledAgain: where parts of the counter can lose their data
// alone, a gateway notices it by the marks that it left there.
func TestAPartThatLostItsDataIsFilledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := NewShared()
		redis.Spread = true
		l := sharedLedger(redis)
		countOne(t, l)
		<-time.After(2 * time.Second)
		month := OpenWindows(time.Now(), []Window{Month})
		redis.store.Flush() // nobody says so
		if len(redis.Rows(month)) != 0 {
			t.Error("nothing was lost")
		}
		<-time.After(5 * time.Second)
		if total := sum(redis.Rows(month)); len(total) != 1 || total[0].Requests != 1 {
			t.Errorf("the counter has %v", total)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// lateStore does not answer one of its calls in time.
type lateStore struct {
	*tallytest.Member

	late atomic.Bool // the next call
}

func (l *lateStore) Tell(ctx context.Context, sheets []tally.Sheet, isNews bool) ([]map[string]string, error) {
	if l.late.CompareAndSwap(true, false) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return l.Member.Tell(ctx, sheets, isNews)
}

// TestOneLateBatchDelaysTheOthersAndLosesNone: counts are told in batches, and when one of
// these is too late, all that waited is told at the next ticks.
func TestOneLateBatchDelaysTheOthersAndLosesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := tallytest.New()
		redis := &lateStore{Member: store.Member("a")}
		settings := DefaultSettings()
		settings.Windows = []Window{Month}
		pool, stop := running(redis, settings.Distributed.Timeout.Std())
		l := sharedLedger(pool, settings)
		const users = 3 * pushBatch
		request := func(round int64) {
			t.Helper()
			for n := range users {
				var ticket Ticket
				if err := l.Admit(&ticket, Subject{User: fmt.Append(nil, n), Service: schema.Chat, Model: "m"}, time.Now()); err != nil {
					t.Fatal(err)
				}
				ticket.Settle(schema.Usage{Known: true, Total: round})
			}
		}
		tokens := func() (sum int64) {
			for _, row := range rowsOf(store, OpenWindows(time.Now(), []Window{Month})) {
				sum += row.Tokens
			}
			return sum
		}
		<-time.After(2 * time.Second) // what the database has was pushed
		request(1)
		redis.late.Store(true)
		<-time.After(backgroundTime + 5*pushEvery)
		if got := tokens(); redis.late.Load() || got != users {
			t.Errorf("%d tokens of %d arrived after a late batch", got, users)
		}
		// What was late once is not forgotten either when it changes again.
		request(2)
		<-time.After(2 * pushEvery)
		if got := tokens(); got != 3*users {
			t.Errorf("%d tokens of %d arrived", got, 3*users)
		}
		if status := l.Status(t.Context()); status.Reason != "" {
			t.Errorf("degraded after one late batch: %s", status.Reason)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		stop()
	})
}

// TestSharedCounterIsExactFiveSecondsAfterItIsBack: also if it came back empty, and
// for what gateways have counted that are gone.
func TestSharedCounterIsExactFiveSecondsAfterItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis, sql := tallytest.New(), new(MemorySnapshots)
		gateways := 0
		start := func() *Ledger {
			settings := DefaultSettings()
			settings.Enabled = true
			gateways++
			pool, stop := running(redis.Member(fmt.Sprint(gateways)), settings.Distributed.Timeout.Std())
			t.Cleanup(stop)
			return openShared(settings, pool, sql)
		}
		requests := func(l *Ledger, n int) {
			t.Helper()
			for range n {
				var ticket Ticket
				if err := l.Admit(&ticket, benchSubject, time.Now()); err != nil {
					t.Fatal(err)
				}
				ticket.Settle(schema.Usage{Known: true, Total: 3})
			}
		}
		exact := func(want int64, gateways ...*Ledger) {
			t.Helper()
			<-time.After(5 * time.Second)
			if total := sum(rowsOf(redis, OpenWindows(time.Now(), []Window{Month}))); len(total) != 1 || total[0].Requests != want || total[0].Tokens != 3*want {
				t.Errorf("the counter has %v, want %d requests", total, want)
			}
			for i, l := range gateways {
				usage, _, err := l.Usage(t.Context(), UsageQuery{Window: new(Month)})
				if err != nil || len(usage) != 1 || usage[0].Requests != want || usage[0].Tokens != 3*want || l.Status(t.Context()).Reason != "" {
					t.Errorf("gateway %d has %v, want %d requests; %v", i, usage, want, err)
				}
			}
		}
		gone := start()
		requests(gone, 7)
		if err := gone.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		a, b := start(), start()
		requests(a, 20)
		requests(b, 30)
		exact(57, a, b)
		redis.Flush()
		requests(a, 1)
		exact(58, a, b)
		redis.SetDown(true)
		<-time.After(time.Minute)
		requests(a, 10)
		requests(b, 10)
		redis.Flush()
		redis.SetDown(false)
		exact(78, a, b)
		for _, l := range []*Ledger{a, b} {
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestTurningOnDoesNotDelayRequests: while a journal is read and a store does not answer,
// what the ledger says about itself does not wait.
func TestTurningOnDoesNotDelayRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		settings := DefaultSettings()
		settings.Distributed.Enabled = true
		l := New(settings, Options{
			OpenSnapshots: func(context.Context) (Snapshots, error) { return new(MemorySnapshots), nil },
			Shared: tally.NewPool(tally.Options{
				Open: func(ctx context.Context) (tally.Store, error) { <-ctx.Done(); return nil, ctx.Err() },
				Log:  slog.New(slog.DiscardHandler),
			}),
			disk: newMemoryDisk(),
		})
		began, on := time.Now(), true
		done := make(chan struct{})
		go func() { l.Edit(Edit{Enabled: &on}); close(done) }()
		synctest.Wait() // it waits for the counter
		if l.On() || !l.Settings().Enabled || l.Stats().Enabled || l.Status(t.Context()).Settings.FailOpen != settings.FailOpen {
			t.Errorf("%+v", l.Settings())
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("held up for %v", took)
		}
		<-done
		if took := time.Since(began); !l.On() || took == 0 {
			t.Errorf("on: %t after %v", l.On(), took)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
		l.Edit(Edit{Enabled: &on})
		if l.On() {
			t.Error("turned on after its end")
		}
	})
}
