package ratelimit

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// With the clock at rest, exactly the capacity is allowed, no matter how many
// ask at once: nobody is refused because others ask, and nobody slips through.
func TestManyAtOnceGetExactlyTheCapacity(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, perClient := range []bool{false, true} {
			settings := limit(algorithm, 3000, 1000)
			settings.ClientIPEnable = perClient
			start := time.Now()
			l := New(settings, start)
			now := start.Add(time.Hour)
			if algorithm == WarmUp || algorithm == TokenBucket {
				now = start // the cold start, and a bucket nobody touched
			}
			want := int64(3000)
			if algorithm == WarmUp {
				want = 1000
			}
			var allowed atomic.Int64
			var all sync.WaitGroup
			for range 64 {
				all.Go(func() {
					for range 100 {
						if l.Allow(v4(7), now).Allowed {
							allowed.Add(1)
						}
					}
				})
			}
			all.Wait()
			if allowed.Load() != want {
				t.Errorf("%v, per client %v: %d allowed, want %d", algorithm, perClient, allowed.Load(), want)
			}
		}
	}
}

// 64 clients ask for a minute as often as they can.
func TestSixtyFourClientsForAMinute(t *testing.T) {
	for algorithm, allowance := range map[Algorithm]float64{
		TokenBucket:   100 + 50*60,
		LeakyBucket:   100 + 50*60,
		SlidingWindow: 100*30 + 64,              // 30 windows, and one request of each client in the 31st
		WarmUp:        100/3 + 50*60*(1./3+1)/2, // the mean of a third and the whole
	} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				l := New(limit(algorithm, 100, 50), start)
				var allowed, told atomic.Int64
				for n := range 64 {
					go func() {
						tick := time.NewTicker(time.Duration(40+n%7) * time.Millisecond)
						defer tick.Stop()
						for now := start; now.Sub(start) <= time.Minute; now = <-tick.C {
							d := l.Allow(v4(uint32(n)), time.Now())
							if d.Allowed {
								allowed.Add(1)
							} else if d.RetryAfter <= 0 {
								told.Add(1)
							}
						}
					}()
				}
				<-time.After(2 * time.Minute)
				synctest.Wait()
				got := float64(allowed.Load())
				if got > allowance+1 || got < 0.98*allowance {
					t.Errorf("%v allowed, want %v at most and 98 %% of it at least", got, allowance)
				}
				if told.Load() != 0 {
					t.Errorf("%d refused without a time to retry", told.Load())
				}
			})
		})
	}
}

func TestEverythingAtOnce(t *testing.T) {
	settings := limit(TokenBucket, 50, 100)
	settings.ClientIPEnable = true
	start := time.Now()
	l := New(settings, start)
	var clock atomic.Int64
	var all sync.WaitGroup
	for n := range uint32(16) {
		all.Go(func() {
			for i := range uint32(500) {
				now := start.Add(time.Duration(clock.Add(int64(time.Millisecond))))
				if d := l.Allow(v4(i*n%97), now); d.Limited && (d.Remaining < 0 || d.Remaining > d.Limit) {
					t.Errorf("%+v", d)
				}
			}
		})
	}
	all.Go(func() {
		for i := range 200 {
			settings.Algorithm = algorithms[i/50]
			settings.Capacity = 20 + i
			settings.ClientIPEnable = i%3 > 0
			settings.Enabled = i%7 > 0
			now := start.Add(time.Duration(clock.Load()))
			l.Update(settings, now)
			l.Snapshot(now, 20)
		}
	})
	all.Wait()
}
