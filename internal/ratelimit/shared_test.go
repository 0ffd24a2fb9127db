package ratelimit_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/ratelimit/limittest"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// cluster is three gateways that share a limit through a model of the central store, in
// a bubble of synctest.
type cluster struct {
	t        *testing.T
	store    *limittest.Model
	gateways []*member
	began    time.Time

	mu    sync.Mutex
	taken []time.Duration // when requests were let in, since the beginning
}

type member struct {
	*limittest.Member
	pool  *ratelimit.Pool
	lease *ratelimit.Lease
	stop  context.CancelFunc
	done  chan struct{}
}

const storeTimeout = 50 * time.Millisecond

func newCluster(t *testing.T, settings ratelimit.Settings) *cluster {
	c := &cluster{t: t, store: limittest.New(), began: time.Now()}
	for n := range 3 {
		c.gateways = append(c.gateways, c.join(fmt.Sprint("g", n), settings))
	}
	<-time.After(2 * ratelimit.ProbationTime)
	return c
}

func (c *cluster) join(id string, settings ratelimit.Settings) *member {
	m := &member{Member: c.store.Member(id), done: make(chan struct{})}
	m.SetDelay(200 * time.Microsecond)
	m.pool = ratelimit.NewPool(ratelimit.PoolOptions{
		Open:    func(context.Context) (ratelimit.Central, error) { return m.Member, nil },
		Timeout: storeTimeout, Log: slog.New(slog.DiscardHandler),
	})
	m.lease = m.pool.Lease("chat", settings)
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.pool.Begin(ctx)
	go func() {
		m.pool.Run(ctx)
		close(m.done)
	}()
	return m
}

// restart kills a gateway and starts it again with the same id.
func (c *cluster) restart(n int, settings ratelimit.Settings) {
	old := c.gateways[n]
	old.SetCutOff(true)
	old.stop()
	<-old.done
	next := c.join(fmt.Sprint("g", n), settings)
	c.mu.Lock()
	c.gateways[n] = next
	c.mu.Unlock()
}

// gateway returns a gateway as it is now.
func (c *cluster) gateway(n int) *member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gateways[n]
}

func (c *cluster) close() {
	for _, m := range c.gateways {
		m.stop()
		<-m.done
	}
}

// load sends requests to gateways for a time: each gateway gets as many a second as its
// rate says, at random moments.
func (c *cluster) load(seed uint64, long time.Duration, perSecond ...float64) (asked, allowed int) {
	var wg sync.WaitGroup
	end := time.Now().Add(long)
	var mu sync.Mutex
	for n, rate := range perSecond {
		if rate <= 0 {
			continue
		}
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		wg.Go(func() {
			for {
				<-time.After(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
				if !time.Now().Before(end) {
					return
				}
				wg.Go(func() {
					d, _ := c.gateway(n).lease.Take(1, time.Now())
					mu.Lock()
					asked++
					if d.Allowed {
						allowed++
					}
					mu.Unlock()
					if d.Allowed {
						c.mu.Lock()
						c.taken = append(c.taken, time.Since(c.began))
						c.mu.Unlock()
					}
				})
			}
		})
	}
	wg.Wait()
	return asked, allowed
}

// excess returns by how much the requests of the busiest interval are more than a
// bucket of this capacity and rate lets in.
func (c *cluster) excess(capacity, rate float64) float64 {
	worst, lowest := -capacity, 0.0
	for i, at := range c.taken {
		level := float64(i) - (at-c.taken[0]).Seconds()*rate
		lowest = min(lowest, level)
		worst = max(worst, level-lowest+1-capacity)
	}
	return worst
}

// excessInWindow is excess for a sliding window.
func (c *cluster) excessInWindow(capacity int, window time.Duration) int {
	worst, first := -capacity, 0
	for i, at := range c.taken {
		for at-c.taken[first] >= window {
			first++
		}
		worst = max(worst, i-first+1-capacity)
	}
	return worst
}

func sharedLimit(algorithm ratelimit.Algorithm, capacity, rate int) ratelimit.Settings {
	return ratelimit.Settings{
		Enabled: true, Shared: true, Algorithm: algorithm, Capacity: capacity, RefillRate: rate,
		WarmUpPeriod: schema.Duration(20 * time.Second),
	}
}

// window is the length of the sliding window of settings.
func windowOf(s ratelimit.Settings) time.Duration {
	return max(time.Second, time.Duration(s.Capacity)*time.Second/time.Duration(s.RefillRate))
}

// TestSharedLimitIsKeptAndUsed: under a steady load that is too high, all gateways
// together get no more than the limit and at least 90 % of it, with far fewer round
// trips than requests.
func TestSharedLimitIsKeptAndUsed(t *testing.T) {
	for _, settings := range []ratelimit.Settings{
		sharedLimit(ratelimit.TokenBucket, 100, 100),
		sharedLimit(ratelimit.LeakyBucket, 60, 300),
		sharedLimit(ratelimit.TokenBucket, 10, 100),
		sharedLimit(ratelimit.TokenBucket, 1000, 500),
		sharedLimit(ratelimit.SlidingWindow, 100, 100),
		sharedLimit(ratelimit.SlidingWindow, 60, 20),
		sharedLimit(ratelimit.SlidingWindow, 500, 500),
	} {
		for n, spread := range [][]float64{{1, 1, 1}, {2, 0.1, 0.1}, {2, 0, 0}} {
			if n > 0 && settings.Capacity != 100 {
				continue // how the load is spread matters for all limits alike
			}
			t.Run(fmt.Sprint(settings.Algorithm, settings.Capacity, "/", settings.RefillRate, spread), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, settings)
					defer c.close()
					rate := float64(settings.RefillRate)
					const long = 8 * time.Second
					before := c.store.Calls()
					asked, allowed := c.load(1, long, 2*rate*spread[0], 2*rate*spread[1], 2*rate*spread[2])
					calls := c.store.Calls() - before
					possible := rate * long.Seconds()
					if float64(allowed) < 0.9*possible {
						t.Errorf("%d of %d were let in, which is %.0f %% of the limit", allowed, asked, 100*float64(allowed)/possible)
					}
					if settings.Algorithm == ratelimit.SlidingWindow {
						if n := c.excessInWindow(settings.Capacity, windowOf(settings)); n > 0 {
							t.Errorf("%d too many in a window", n)
						}
					} else if n := c.excess(float64(settings.Capacity), rate); n > 0.001 {
						t.Errorf("%.2f too many", n)
					}
					t.Logf("%d of %d, %d exchanges, %.1f %%", allowed, asked, calls, 100*float64(allowed)/possible)
				})
			})
		}
	}
}
