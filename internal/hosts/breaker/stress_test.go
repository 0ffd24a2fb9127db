package breaker

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// tripped returns a breaker that opened just now.
func tripped(settings Settings) *Breaker {
	b := New(settings, time.Now(), nil)
	for range settings.FailureThreshold {
		permit, _ := b.Acquire(time.Now())
		b.Done(permit, Failure, time.Now())
	}
	return b
}

func TestAThousandCallersAtTheMomentOfRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := tripped(DefaultSettings())
		var admitted atomic.Int64
		release := make(chan struct{})
		for range 1000 {
			go func() {
				<-time.After(30 * time.Second)
				permit, ok := b.Acquire(time.Now())
				if !ok {
					return
				}
				admitted.Add(1)
				<-release
				b.Done(permit, Success, time.Now())
			}()
		}
		<-time.After(30 * time.Second)
		synctest.Wait()
		if n := admitted.Load(); n != 3 {
			t.Errorf("%d trials at the moment of recovery, want 3", n)
		}
		close(release)
		synctest.Wait()
		if s := b.Snapshot(); s.State != Closed {
			t.Errorf("%v after three successes", s.State)
		}
	})
}

// Trials that come and go at full speed, in real concurrency: cancelled ones
// keep the breaker half open, so that every acquire competes.
func TestTrialsNeverExceedTheirLimit(t *testing.T) {
	settings := DefaultSettings()
	b := tripped(settings)
	recovered := time.Now().Add(settings.RecoveryTimeout.Std())
	var inFlight, most, admitted atomic.Int64
	var all sync.WaitGroup
	start := make(chan struct{})
	for range 1000 {
		all.Go(func() {
			<-start
			for range 50 {
				permit, ok := b.Acquire(recovered)
				if !ok {
					continue
				}
				n := inFlight.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				admitted.Add(1)
				inFlight.Add(-1)
				b.Done(permit, Cancelled, recovered)
			}
		})
	}
	close(start)
	all.Wait()
	if most.Load() > 3 || admitted.Load() < 3 {
		t.Errorf("at most %d in flight of %d admitted; 3 may be at a time", most.Load(), admitted.Load())
	}
	if s := b.Snapshot(); s.State != HalfOpen || b.trials != 0 {
		t.Errorf("%v with %d trials in flight at the end", s.State, b.trials)
	}
}

// Failures that end together, all begun before the first of them opened the
// breaker: one of them opens it, the others come too late.
func TestFailuresAtOnceOpenOnce(t *testing.T) {
	settings := DefaultSettings()
	settings.FailureThreshold = 1
	now := time.Now()
	for range 500 {
		var opened atomic.Int64
		b := New(settings, now, func(Change) { opened.Add(1) })
		var ready, all sync.WaitGroup
		ready.Add(1)
		for range 16 {
			permit, _ := b.Acquire(now)
			all.Go(func() {
				ready.Wait()
				b.Done(permit, Failure, now)
			})
		}
		ready.Done()
		all.Wait()
		if s := b.Snapshot(); s.FailureCount != 1 || opened.Load() != 1 {
			t.Fatalf("%d failures counted, opened %d times", s.FailureCount, opened.Load())
		}
	}
}

func TestEverythingAtOnce(t *testing.T) {
	settings := small()
	var opened, closed atomic.Int64
	start := time.Now()
	b := New(settings, start, func(c Change) {
		switch c.To {
		case Open:
			opened.Add(1)
		case Closed:
			closed.Add(1)
		}
	})
	var clock atomic.Int64
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for range 500 {
				now := start.Add(time.Duration(clock.Add(int64(10 * time.Millisecond))))
				if !b.Ready(now) {
					continue
				}
				if permit, ok := b.Acquire(now); ok {
					b.Done(permit, Outcome(rand.IntN(3)), now)
				}
			}
		})
	}
	all.Go(func() {
		for i := range 200 {
			settings.FailureThreshold = 1 + i%5
			b.Update(settings, start)
			b.Snapshot()
			b.RetryAfter(start)
		}
	})
	all.Wait()
	if diff := opened.Load() - closed.Load(); opened.Load() == 0 || diff < 0 {
		t.Errorf("opened %d times, closed %d times", opened.Load(), closed.Load())
	}
	now := start.Add(time.Duration(clock.Load()) + settings.RecoveryTimeout.Std())
	for range settings.SuccessThreshold {
		permit, ok := b.Acquire(now)
		if !ok {
			t.Fatalf("stuck: %+v", b.Snapshot())
		}
		b.Done(permit, Success, now)
	}
	if b.trials != 0 {
		t.Errorf("%d trials left", b.trials)
	}
}
