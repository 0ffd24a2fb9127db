package redistally_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

const (
	faultCapacity = 60
	faultRate     = 120
	// oneLease is what a gateway of three takes in advance.
	oneLease = faultCapacity / 6
)

// three starts three gateways that share a limit, one of each way to the store.
func three(t *testing.T, timeout time.Duration, urls ...string) []*gateway {
	t.Helper()
	var all []*gateway
	for n := range 3 {
		all = append(all, start(t, urls[n%len(urls)], fmt.Sprint("g", n), timeout, limit(ratelimit.TokenBucket, faultCapacity, faultRate)))
	}
	<-time.After(tally.ProbationTime) // the store is new
	return all
}

// exactSoon waits until all gateways reach the store and know each other.
func exactSoon(t *testing.T, all []*gateway) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, g := range all {
		for s := g.pool.Stats(); s.Failure != nil || s.Gateways != len(all); s = g.pool.Stats() {
			if time.Now().After(deadline) {
				t.Fatalf("not exact again: %+v %+v", s, s.Failure)
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

// divided waits until a gateway takes its share.
func divided(t *testing.T, all []*gateway) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for _, g := range all {
		for g.pool.Stats().Failure == nil {
			if time.Now().After(deadline) {
				t.Fatal("the outage was not noticed")
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

func wait(long time.Duration) { <-time.After(long) }

// TestBoundHoldsUnderRealFaults: three gateways under load with a Redis that is slow,
// frozen, killed or flushed never let in more than the limit, apart from one lease for
// each of them after Redis has lost its data, and are exact again afterwards.
func TestBoundHoldsUnderRealFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		fault func(t *testing.T, redis *storetest.Server, way *storetest.Faults, all []*gateway)
		loses bool
	}{
		{"slow", func(_ *testing.T, _ *storetest.Server, way *storetest.Faults, _ []*gateway) {
			way.Slow(20 * time.Millisecond)
			wait(time.Second)
			way.Heal()
		}, false},
		{"too slow", func(t *testing.T, _ *storetest.Server, way *storetest.Faults, all []*gateway) {
			way.Slow(time.Second)
			divided(t, all)
			wait(2 * time.Second)
			way.Heal()
		}, false},
		{"frozen", func(t *testing.T, redis *storetest.Server, _ *storetest.Faults, all []*gateway) {
			redis.Freeze()
			divided(t, all)
			wait(2 * time.Second)
			redis.Thaw()
		}, false},
		{"killed", func(t *testing.T, redis *storetest.Server, _ *storetest.Faults, all []*gateway) {
			redis.Kill()
			divided(t, all)
			wait(time.Second)
			redis.Start() // empty
		}, true},
		{"flushed", func(t *testing.T, redis *storetest.Server, _ *storetest.Faults, _ []*gateway) {
			storetest.FlushAll(t, redis)
		}, true},
		{"connections cut", func(_ *testing.T, _ *storetest.Server, way *storetest.Faults, _ []*gateway) {
			way.Cut()
			wait(200 * time.Millisecond)
			way.Heal()
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			redis := storetest.Redis(t)
			way := storetest.Between(t, redis)
			all := three(t, 100*time.Millisecond, way.URL)
			exactSoon(t, all)
			taken := newTakes()
			taken.during(func() {
				wait(300 * time.Millisecond)
				test.fault(t, redis, way, all)
				exactSoon(t, all)
				wait(300 * time.Millisecond)
			}, all...)
			allowance := 0.0
			if test.loses {
				allowance = 3 * oneLease
			}
			if n := taken.excess(faultCapacity, faultRate); n > allowance {
				t.Errorf("%.1f too many of %d", n, len(taken.all))
			}
			if len(taken.all) < faultCapacity/2 {
				t.Errorf("only %d were let in", len(taken.all))
			}
		})
	}
}

// TestGatewayThatIsCutOffAloneTakesItsShareOnly: the others keep the share for it.
func TestGatewayThatIsCutOffAloneTakesItsShareOnly(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	way := storetest.Between(t, redis)
	all := three(t, 100*time.Millisecond, redis.URL, redis.URL, way.URL)
	exactSoon(t, all)
	taken := newTakes()
	taken.during(func() {
		way.Swallow()
		divided(t, all[2:])
		wait(3 * time.Second)
		way.Heal()
		exactSoon(t, all)
	}, all...)
	if n := taken.excess(faultCapacity, faultRate); n > 0 {
		t.Errorf("%.1f too many of %d", n, len(taken.all))
	}
}

// TestClusterAndSentinels: the limits work on both, and a new master that has not all
// that the old one had granted does not grant it again.
func TestClusterAndSentinels(t *testing.T) {
	t.Parallel()
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		redis := storetest.RedisCluster(t)
		all := three(t, patient, redis.URL)
		exactSoon(t, all)
		taken := newTakes()
		taken.during(func() { wait(time.Second) }, all...)
		if n := taken.excess(faultCapacity, faultRate); n > 0 || len(taken.all) < faultCapacity/2 {
			t.Errorf("%.1f too many of %d", n, len(taken.all))
		}
	})
	t.Run("sentinels", func(t *testing.T) {
		t.Parallel()
		sentinels := storetest.RedisSentinels(t)
		all := three(t, 100*time.Millisecond, sentinels.URL)
		exactSoon(t, all)
		taken := newTakes()
		taken.during(func() {
			wait(300 * time.Millisecond)
			sentinels.Master.Kill()
			divided(t, all)
			for deadline := time.Now().Add(time.Minute); !sentinels.Promoted(); {
				if time.Now().After(deadline) {
					t.Fatal("no new master")
				}
				wait(50 * time.Millisecond)
			}
			exactSoon(t, all)
			wait(300 * time.Millisecond)
		}, all...)
		if n := taken.excess(faultCapacity, faultRate); n > 3*oneLease {
			t.Errorf("%.1f too many of %d", n, len(taken.all))
		}
	})
}

// TestRedisUnavailableAtStart: the gateway serves with its share, which begins empty.
func TestRedisUnavailableAtStart(t *testing.T) {
	t.Parallel()
	g := start(t, "redis://"+waittest.Nobody(t), "g0", 100*time.Millisecond, limit(ratelimit.TokenBucket, 10, 1000))
	divided(t, []*gateway{g})
	deadline := time.Now().Add(time.Minute)
	for {
		d, _ := g.lease.Take(1, time.Now())
		if d.Allowed {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing is let in: %+v", d)
		}
		wait(max(time.Millisecond, d.RetryAfter))
	}
	if s := g.pool.Stats(); s.Divided == 0 || s.Failure == nil || s.Failures == 0 {
		t.Errorf("%+v", s)
	}
}
