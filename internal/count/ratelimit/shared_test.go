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

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/tallytest"
)

// cluster is three gateways that share a limit through a model of the central store, in
// a bubble of synctest.
type cluster struct {
	t        *testing.T
	store    *tallytest.Model
	gateways []*member
	began    time.Time

	mu    sync.Mutex
	taken []time.Duration // when requests were let in, since the beginning
}

type member struct {
	*tallytest.Member
	pool  *tally.Pool
	lease *ratelimit.Lease
	stop  context.CancelFunc
	done  chan struct{}
}

const storeTimeout = 50 * time.Millisecond

func newCluster(t *testing.T, settings ratelimit.Settings) *cluster {
	c := &cluster{t: t, store: tallytest.New(), began: time.Now()}
	for n := range 3 {
		c.gateways = append(c.gateways, c.join(fmt.Sprint("g", n), settings))
	}
	<-time.After(2 * tally.ProbationTime)
	return c
}

func (c *cluster) join(id string, settings ratelimit.Settings) *member {
	m := &member{Member: c.store.Member(id), done: make(chan struct{})}
	m.SetDelay(200 * time.Microsecond)
	m.pool = tally.NewPool(tally.Options{
		Open:    func(context.Context) (tally.Store, error) { return m.Member, nil },
		Timeout: storeTimeout, Log: slog.New(slog.DiscardHandler),
	})
	m.lease = ratelimit.NewLease(m.pool, "chat", settings)
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

// TestSharedWindowUnderALoadAboveItsRate: a load a fifth above the limit gets at least 90 % of
// it in every 1.5 s, once the first window is over: what was spent is forgotten when it is
// time, not when the store has heard of it.
func TestSharedWindowUnderALoadAboveItsRate(t *testing.T) {
	for _, settings := range []ratelimit.Settings{
		sharedLimit(ratelimit.SlidingWindow, 100, 100), sharedLimit(ratelimit.SlidingWindow, 1000, 1000), sharedLimit(ratelimit.SlidingWindow, 300, 200),
	} {
		for _, spread := range [][]float64{{1, 1, 1}, {3, 0, 0}, {2.8, 0.1, 0.1}} {
			t.Run(fmt.Sprint(settings.Capacity, "/", settings.RefillRate, spread), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, settings)
					defer c.close()
					rate := 1.2 * float64(settings.RefillRate) / 3
					c.load(1, 3*time.Second, rate*spread[0], rate*spread[1], rate*spread[2])
					const parts = 16
					_, allowed := c.load(2, parts*1500*time.Millisecond, rate*spread[0], rate*spread[1], rate*spread[2])
					share := float64(allowed) / parts / 1.5 / float64(settings.RefillRate)
					if share < 0.9 {
						t.Errorf("%.1f %% of the limit were let in", 100*share)
					}
					if n := c.excessInWindow(settings.Capacity, windowOf(settings)); n > 0 {
						t.Errorf("%d too many in a window", n)
					}
					t.Logf("%.1f %%", 100*share)
				})
			})
		}
	}
}

// loadInTurn is load with requests that come one after the other, at random or in equal
// distances, to each gateway in its turn. It returns as well how many of them one window of
// one process lets in.
func (c *cluster) loadInTurn(settings ratelimit.Settings, long time.Duration, perSecond float64, isRandom bool, gateways ...int) (allowed, alone int) {
	plain := ratelimit.NewWindow(windowOf(settings), time.Now())
	plain.Resize(int64(settings.Capacity))
	random := rand.New(rand.NewPCG(3, 4))
	var mu sync.Mutex
	var wg sync.WaitGroup
	end := time.Now().Add(long)
	for n := 0; time.Now().Before(end); n++ {
		if plain.Take(1, time.Now()).Allowed {
			alone++
		}
		wg.Go(func() {
			if d, _ := c.gateway(gateways[n%len(gateways)]).lease.Take(1, time.Now()); d.Allowed {
				mu.Lock()
				defer mu.Unlock()
				allowed++
				c.mu.Lock()
				defer c.mu.Unlock()
				c.taken = append(c.taken, time.Since(c.began))
			}
		})
		distance := 1.0
		if isRandom {
			distance = random.ExpFloat64()
		}
		<-time.After(time.Duration(distance / perSecond * float64(time.Second)))
	}
	wg.Wait()
	return allowed, alone
}

// TestSmallSharedWindows: of a window of 10 or 20 requests a second, a steady load a fifth
// above the limit gets at least 90 %, and a random one 90 % of what one gateway alone would
// let in: requests that come at random leave a small window unused at times, whoever counts.
func TestSmallSharedWindows(t *testing.T) {
	for _, settings := range []ratelimit.Settings{
		sharedLimit(ratelimit.SlidingWindow, 10, 10), sharedLimit(ratelimit.SlidingWindow, 20, 20), sharedLimit(ratelimit.SlidingWindow, 10, 1), sharedLimit(ratelimit.SlidingWindow, 20, 5),
	} {
		for _, isRandom := range []bool{false, true} {
			for _, gateways := range [][]int{{0, 1, 2}, {0}, {0, 0, 0, 0, 0, 0, 0, 0, 1, 2}} {
				t.Run(fmt.Sprint(settings.Capacity, "/", settings.RefillRate, gateways, isRandom), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := newCluster(t, settings)
						defer c.close()
						rate := 1.2 * float64(settings.RefillRate)
						c.loadInTurn(settings, 3*windowOf(settings), rate, isRandom, gateways...)
						long := 16 * windowOf(settings)
						allowed, alone := c.loadInTurn(settings, long, rate, isRandom, gateways...)
						possible := float64(settings.RefillRate) * long.Seconds()
						if isRandom {
							possible = float64(alone)
						}
						t.Logf("%.1f %% of the limit, %.1f %% of what one gateway lets in", 100*float64(allowed)/float64(settings.RefillRate)/long.Seconds(), 100*float64(allowed)/float64(alone))
						if float64(allowed) < 0.9*possible {
							t.Errorf("%d of %.0f were let in", allowed, possible)
						}
						if n := c.excessInWindow(settings.Capacity, windowOf(settings)); n > 0 {
							t.Errorf("%d too many in a window", n)
						}
					})
				})
			}
		}
	}
}

// TestSharedWindowIsGivenOutWithinASecondAndAHalf: under a steady load that is too high, at
// least 90 % of a sliding window are used 1.5 s after the load has begun, however it is
// spread and whatever gateways had taken in advance.
func TestSharedWindowIsGivenOutWithinASecondAndAHalf(t *testing.T) {
	for _, settings := range []ratelimit.Settings{
		sharedLimit(ratelimit.SlidingWindow, 100, 10), sharedLimit(ratelimit.SlidingWindow, 100, 100),
		sharedLimit(ratelimit.SlidingWindow, 30, 1), sharedLimit(ratelimit.SlidingWindow, 1000, 100),
		sharedLimit(ratelimit.SlidingWindow, 10, 10), sharedLimit(ratelimit.SlidingWindow, 20, 20), sharedLimit(ratelimit.SlidingWindow, 10, 1),
	} {
		for _, spread := range [][]float64{{1, 1, 1}, {2, 0.1, 0.1}, {2, 0, 0}, {1, 1, 0}, {3, 0.02, 0.02}} {
			t.Run(fmt.Sprint(settings.Capacity, "/", settings.RefillRate, spread), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, settings)
					defer c.close()
					capacity := float64(settings.Capacity)
					c.load(1, 500*time.Millisecond, capacity/10, capacity/10, capacity/10) // all take some in advance
					<-time.After(windowOf(settings))
					_, allowed := c.load(2, 1500*time.Millisecond, 2*capacity*spread[0], 2*capacity*spread[1], 2*capacity*spread[2])
					if float64(allowed) < 0.9*capacity {
						t.Errorf("%d were let in, which is %.0f %% of the limit", allowed, 100*float64(allowed)/capacity)
					}
					if n := c.excessInWindow(settings.Capacity, windowOf(settings)); n > 0 {
						t.Errorf("%d too many in a window", n)
					}
					t.Logf("%.0f %%", 100*float64(allowed)/capacity)
				})
			})
		}
	}
}
