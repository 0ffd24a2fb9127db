package ratelimit_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/testing/tallytest"
)

// newColdCluster is a cluster whose store is as new as its gateways.
func newColdCluster(t *testing.T, gateways int, settings ratelimit.Settings) *cluster {
	c := &cluster{t: t, store: tallytest.New(), began: time.Now()}
	for n := range gateways {
		c.gateways = append(c.gateways, c.join(fmt.Sprint("g", n), settings))
	}
	return c
}

// TestANewStoreRefusesNothingBelowATenthOfTheLimit: in the first second of a store that has
// never seen the limit, requests that are a tenth of it pass, however they are spread over
// the time and the gateways.
func TestANewStoreRefusesNothingBelowATenthOfTheLimit(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector itself crashes on so many goroutines in virtual time")
	}
	for _, settings := range []ratelimit.Settings{
		sharedLimit(ratelimit.TokenBucket, 100, 100), sharedLimit(ratelimit.TokenBucket, 100_000, 100_000), sharedLimit(ratelimit.LeakyBucket, 1000, 100),
		sharedLimit(ratelimit.SlidingWindow, 100, 100), sharedLimit(ratelimit.SlidingWindow, 20_000, 20_000),
	} {
		for _, gateways := range []int{1, 2, 3, 5} {
			for _, spread := range []string{"at once", "steady", "in two bursts", "one after the other"} {
				t.Run(fmt.Sprint(settings.Algorithm, settings.Capacity, "/", settings.RefillRate, " ", gateways, " ", spread), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := newColdCluster(t, gateways, settings)
						defer c.close()
						random := rand.New(rand.NewPCG(1, 2))
						requests := settings.Capacity / 10
						var wg sync.WaitGroup
						var mu sync.Mutex
						refused := 0
						for n := range requests {
							at := map[string]time.Duration{
								"steady":              500 * time.Millisecond * time.Duration(n) / time.Duration(requests),
								"in two bursts":       300 * time.Millisecond * time.Duration(2*n/requests),
								"one after the other": 100 * time.Millisecond * time.Duration(n*gateways/requests),
							}[spread]
							to := random.IntN(gateways)
							if spread == "one after the other" {
								to = n * gateways / requests
							}
							wg.Go(func() {
								<-time.After(at)
								if d, _ := c.gateways[to].lease.Take(1, time.Now()); !d.Allowed {
									mu.Lock()
									refused++
									mu.Unlock()
								}
							})
						}
						wg.Wait()
						if refused > 0 {
							t.Errorf("%d of %d requests were refused", refused, requests)
						}
					})
				})
			}
		}
	}
}

// TestARequestOfATenthOfTheLimitLeavesRoomForOthers: what a gateway takes in advance for more
// of its like is not missing at the others.
func TestARequestOfATenthOfTheLimitLeavesRoomForOthers(t *testing.T) {
	for _, algorithm := range []ratelimit.Algorithm{ratelimit.TokenBucket, ratelimit.SlidingWindow} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newColdCluster(t, 2, sharedLimit(algorithm, 10_000, 1000))
				defer c.close()
				for _, g := range c.gateways {
					if d, _ := g.lease.Take(1034, time.Now()); !d.Allowed {
						t.Errorf("refused: %+v", d)
					}
				}
			})
		})
	}
}

// TestANewStoreKeepsTheLimit: gateways that take what they can from the first moment on get
// no more than the limit together, also those that come later within the first second.
func TestANewStoreKeepsTheLimit(t *testing.T) {
	for seed := range uint64(24) {
		random := rand.New(rand.NewPCG(seed, 5))
		settings := sharedLimit(ratelimit.Algorithm(seed%4), 6+random.IntN(300), 1+random.IntN(300))
		gateways := 1 + random.IntN(4)
		t.Run(fmt.Sprint(seed, settings.Algorithm, settings.Capacity, "/", settings.RefillRate, " ", gateways), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newColdCluster(t, gateways, settings)
				defer func() { c.close() }()
				loads := make([]float64, gateways)
				for n := range loads {
					loads[n] = float64(settings.Capacity) * []float64{0, 1, 10}[random.IntN(3)]
				}
				var wg sync.WaitGroup
				wg.Go(func() { c.load(seed, 3*time.Second, loads...) })
				<-time.After(time.Duration(random.IntN(1000)) * time.Millisecond)
				late := c.join("late", settings)
				for range settings.Capacity {
					if d, _ := late.lease.Take(1, time.Now()); d.Allowed {
						c.mu.Lock()
						c.taken = append(c.taken, time.Since(c.began))
						c.mu.Unlock()
					}
				}
				wg.Wait()
				c.gateways = append(c.gateways, late)
				if settings.Algorithm == ratelimit.SlidingWindow {
					if n := c.excessInWindow(settings.Capacity, windowOf(settings)); n > 0 {
						t.Errorf("%d too many in a window", n)
					}
				} else if n := c.excess(float64(settings.Capacity), float64(settings.RefillRate)); n > 0.001 {
					t.Errorf("%.2f too many", n)
				}
			})
		})
	}
}
