package quota

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// deafCounter takes what it is told and never answers, whatever its context says.
type deafCounter struct {
	MemoryCounter

	deaf  bool
	ended chan struct{}
}

func (d *deafCounter) Push(ctx context.Context, rows []Push) (bool, error) {
	if d.deaf {
		<-d.ended
	}
	return d.MemoryCounter.Push(ctx, rows)
}

// sharedLedger is a ledger that counts with others.
func sharedLedger(counter Counter, settings ...Settings) *Ledger {
	settings = append(settings, DefaultSettings())
	settings[0].Enabled, settings[0].Distributed.Enabled = true, true
	return New(settings[0], Options{
		OpenSnapshots: func(context.Context) (Snapshots, error) { return new(MemorySnapshots), nil },
		OpenCounter:   func(context.Context) (Counter, error) { return counter, nil },
		disk:          newMemoryDisk(),
	})
}

// TestRequestWaitsForTheTimeoutAndNotLonger: what a request waits for the shared
// counter is its timeout to the nanosecond, even if the client library never
// comes back; and after a few of them nobody waits.
func TestRequestWaitsForTheTimeoutAndNotLonger(t *testing.T) {
	for _, failOpen := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			redis := &deafCounter{ended: make(chan struct{})}
			settings := DefaultSettings()
			settings.FailOpen, settings.Distributed.DegradeToLocal = failOpen, failOpen
			settings.Distributed.Timeout = Timeout(70 * time.Millisecond)
			l := sharedLedger(redis, settings)
			redis.deaf = true
			for n := range 10 {
				var ticket Ticket
				began := time.Now()
				err := l.Admit(&ticket, benchSubject, began)
				want := settings.Distributed.Timeout.Std()
				if n >= maxTimeouts {
					want = 0
				}
				if took := time.Since(began); took != want || (err == nil) != failOpen {
					t.Errorf("request %d with fail-open %t waited %v: %v", n, failOpen, took, err)
				}
				ticket.Settle(schema.Usage{Known: true, Total: 3})
			}
			close(redis.ended)
			if err := l.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// lateCounter does not answer one of its pushes in time.
type lateCounter struct {
	MemoryCounter

	late atomic.Bool // the next push
}

func (l *lateCounter) Push(ctx context.Context, rows []Push) (bool, error) {
	if l.late.CompareAndSwap(true, false) {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return l.MemoryCounter.Push(ctx, rows)
}

// TestOneLateBatchDelaysTheOthersAndLosesNone: tokens are pushed in batches, and
// when one of these is too late, all that waited is pushed at the next ticks.
func TestOneLateBatchDelaysTheOthersAndLosesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis := new(lateCounter)
		settings := DefaultSettings()
		settings.Windows = []Window{Month}
		l := sharedLedger(redis, settings)
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
			rows, _ := redis.Read(t.Context(), openWindows(time.Now(), []Window{Month}))
			for _, row := range rows {
				sum += row.Tokens
			}
			return sum
		}
		<-time.After(2 * time.Second) // what the database has was pushed
		request(1)
		redis.late.Store(true)
		<-time.After(backgroundTime + 4*pushEvery)
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
	})
}

// TestSharedCounterIsExactFiveSecondsAfterItIsBack: also if it came back empty, and
// for what gateways have counted that are gone.
func TestSharedCounterIsExactFiveSecondsAfterItIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redis, sql := new(MemoryCounter), new(MemorySnapshots)
		start := func() *Ledger {
			settings := DefaultSettings()
			settings.Enabled, settings.Distributed.Enabled = true, true
			return New(settings, Options{
				OpenSnapshots: func(context.Context) (Snapshots, error) { return sql, nil },
				OpenCounter:   func(context.Context) (Counter, error) { return redis, nil },
				disk:          newMemoryDisk(),
			})
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
		down := func(so bool) {
			redis.mu.Lock()
			defer redis.mu.Unlock()
			redis.Down = so
		}
		exact := func(want int64, gateways ...*Ledger) {
			t.Helper()
			<-time.After(5 * time.Second)
			rows, err := redis.Read(t.Context(), openWindows(time.Now(), []Window{Month}))
			if total := sum(rows); err != nil || len(total) != 1 || total[0].Requests != want || total[0].Tokens != 3*want {
				t.Errorf("the counter has %v, want %d requests; %v", total, want, err)
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
		redis.Wipe()
		requests(a, 1)
		exact(58, a, b)
		down(true)
		<-time.After(time.Minute)
		requests(a, 10)
		requests(b, 10)
		redis.Wipe()
		down(false)
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
			OpenCounter:   func(ctx context.Context) (Counter, error) { <-ctx.Done(); return nil, ctx.Err() },
			disk:          newMemoryDisk(),
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
