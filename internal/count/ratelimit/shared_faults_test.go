package ratelimit_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// TestSharedLimitBelowItsRateIsNotNoticed: while requests come more slowly than the
// limit allows, none is refused, more than 99 % of them do not wait, and there are far
// fewer round trips than requests.
func TestSharedLimitBelowItsRateIsNotNoticed(t *testing.T) {
	for _, algorithm := range []ratelimit.Algorithm{ratelimit.TokenBucket, ratelimit.SlidingWindow} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, sharedLimit(algorithm, 2000, 1000))
				defer c.close()
				c.load(1, 2*time.Second, 200, 200, 200)
				calls := c.store.Calls()
				random := rand.New(rand.NewPCG(1, 2))
				refused, waited := 0, 0
				const asked = 6_000
				for range asked {
					<-time.After(time.Duration(random.ExpFloat64() / 600 * float64(time.Second)))
					before := time.Now()
					if d, _ := c.gateways[random.IntN(3)].lease.Take(1, before); !d.Allowed {
						refused++
					}
					if time.Since(before) > 0 {
						waited++
					}
				}
				if calls = c.store.Calls() - calls; refused > 0 || waited > asked/100 || calls > asked/20 {
					t.Errorf("of %d requests %d were refused and %d waited, with %d exchanges", asked, refused, waited, calls)
				}
			})
		})
	}
}

// TestSharedLimitUnderFaults runs random histories of load, outages for all gateways or
// one, lost answers, lost data and gateways that are killed, and checks that no interval ever has more
// requests than the limit, apart from one lease for each gateway after data was lost.
func TestSharedLimitUnderFaults(t *testing.T) {
	histories := uint64(12)
	if n, err := strconv.ParseUint(os.Getenv("PATCHBAY_LIMIT_HISTORIES"), 10, 64); err == nil {
		histories = n
	}
	for seed := range histories {
		random := rand.New(rand.NewPCG(seed, 3))
		settings := sharedLimit(ratelimit.Algorithm(seed%4), 1+random.IntN(120), 1+random.IntN(120))
		if settings.Capacity < 6 {
			settings.Capacity += 6 // shares are at least one permit
		}
		t.Run(fmt.Sprint(seed, settings.Algorithm, settings.Capacity, "/", settings.RefillRate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { history(t, random, settings) })
		})
	}
}

func history(t *testing.T, random *rand.Rand, settings ratelimit.Settings) {
	c := newCluster(t, settings)
	defer c.close()
	rate := float64(settings.RefillRate)
	flushed := 0
	var known time.Time // from when on the store is not the only one to know what was used
	lose := func() {
		<-time.After(time.Until(known))
		c.store.Flush()
		flushed++
	}
	for step := range 8 {
		loads := make([]float64, 3)
		for n := range loads {
			loads[n] = []float64{0, 0.2, 1, 3}[random.IntN(4)] * rate
		}
		var wg sync.WaitGroup
		long := time.Duration(1+random.IntN(8)) * time.Second
		if random.IntN(8) == 0 {
			long += tally.ForgetAfter
		}
		wg.Go(func() { c.load(uint64(step), long+time.Second, loads...) })
		<-time.After(time.Duration(random.IntN(900)) * time.Millisecond)
		switch random.IntN(7) {
		case 0:
			c.store.SetDown(true)
			<-time.After(time.Duration(random.Int64N(int64(long))))
			if random.IntN(2) == 0 {
				lose()
			}
			c.store.SetDown(false)
		case 1:
			lose()
		case 2:
			n := random.IntN(3)
			<-time.After(tally.SilentAfter) // the store hears of it after an earlier outage
			c.gateway(n).SetCutOff(true)
			<-time.After(min(time.Duration(random.Int64N(int64(long))), tally.ForgetAfter-2*time.Second))
			c.gateway(n).SetCutOff(false)
		case 3:
			for n := range c.gateways { // slow, but in time
				c.gateway(n).SetDelay(time.Duration(random.IntN(40)) * time.Millisecond)
			}
		case 4:
			<-time.After(tally.SilentAfter) // the store hears what it used in an earlier outage
			c.restart(random.IntN(3), settings)
			known = time.Now().Add(windowOf(settings))
		case 5:
			n := random.IntN(3)
			c.gateway(n).SetDeaf(true)
			<-time.After(min(time.Duration(random.Int64N(int64(long))), tally.ForgetAfter-2*time.Second))
			c.gateway(n).SetDeaf(false)
		}
		wg.Wait()
		for n := range c.gateways {
			c.gateway(n).SetDelay(200 * time.Microsecond)
		}
	}
	lease := max(1, settings.Capacity/6)
	allowance := 0
	if flushed > 0 {
		allowance = 3 * lease
	}
	if settings.Algorithm == ratelimit.SlidingWindow {
		if n := c.excessInWindow(settings.Capacity, windowOf(settings)); n > allowance {
			t.Errorf("%d too many in a window, %d times all data were lost", n, flushed)
		}
	} else if n := c.excess(float64(settings.Capacity), rate); n > float64(allowance)+0.001 {
		t.Errorf("%.2f too many, %d times all data were lost", n, flushed)
	}
}

// TestSharedLimitIsExactFiveSecondsAfterTheStoreIsBack: while the store is away, a gateway
// that gets all requests takes its third of the limit. Five seconds after it is back, with
// or without its data, the gateway has the whole limit again, and no interval of the time
// between had more than the limit.
func TestSharedLimitIsExactFiveSecondsAfterTheStoreIsBack(t *testing.T) {
	const rate = 60
	for algorithm := range ratelimit.Algorithm(4) {
		for _, isFlushed := range []bool{false, true} {
			settings := sharedLimit(algorithm, 2*rate, rate)
			t.Run(fmt.Sprint(algorithm, isFlushed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCluster(t, settings)
					defer c.close()
					c.load(1, 30*time.Second, 3*rate)
					_, before := c.load(6, time.Minute, 3*rate)
					c.store.SetDown(true)
					c.load(2, 10*time.Second, 3*rate)
					_, divided := c.load(3, 10*time.Second, 3*rate)
					if divided > 10*rate/3+rate || divided < 10*rate/4 {
						t.Errorf("%d of %d were let in while the store was away; a third is the share", divided, 10*rate)
					}
					if isFlushed {
						c.store.Flush()
					}
					c.store.SetDown(false)
					c.load(4, 5*time.Second, 3*rate)
					if failure := c.gateways[0].pool.Stats().Failure; failure != nil {
						t.Errorf("five seconds after the store is back: %v", failure)
					}
					if isFlushed && algorithm == ratelimit.WarmUp {
						return // it warms up once more
					}
					if _, after := c.load(5, time.Minute, 3*rate); after*100 < before*97 || before < 54*rate {
						t.Errorf("%d were let in five seconds after the store was back, and %d before it was away", after, before)
					}
					allowance := 0.0
					if isFlushed {
						allowance = float64(3 * settings.Capacity / 6)
					}
					if algorithm == ratelimit.SlidingWindow {
						if n := c.excessInWindow(settings.Capacity, windowOf(settings)); n > int(allowance) {
							t.Errorf("%d too many in a window", n)
						}
					} else if n := c.excess(2*rate, rate); n > allowance+0.001 {
						t.Errorf("%.2f too many", n)
					}
				})
			})
		}
	}
}

// TestGatewayThatEndsInAnOutageTakesNothingFromTheOthers: when the store is back, they
// have what is not kept for the gateway that is gone.
func TestGatewayThatEndsInAnOutageTakesNothingFromTheOthers(t *testing.T) {
	for _, algorithm := range []ratelimit.Algorithm{ratelimit.TokenBucket, ratelimit.SlidingWindow} {
		t.Run(algorithm.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rate = 60
				c := newCluster(t, sharedLimit(algorithm, rate, rate))
				defer c.close()
				c.load(1, 5*time.Second, rate, rate, rate)
				c.store.SetDown(true)
				<-time.After(2 * time.Second)
				c.gateways[2].SetCutOff(true)
				<-time.After(time.Second)
				c.store.SetDown(false)
				c.load(2, 5*time.Second, 3*rate, 3*rate) // as long as it may take until all is exact
				const long = 10 * time.Second
				_, allowed := c.load(3, long, 3*rate, 3*rate)
				if theirs := rate * int(long.Seconds()) * 2 / 3; allowed < theirs*9/10 || allowed > theirs*11/10 {
					t.Errorf("%d were let in, of %d that are for the two gateways", allowed, theirs)
				}
			})
		})
	}
}

// TestLostAnswersDoNotRaiseTheLimit: the store has heard of a gateway that hears nothing,
// and gives the others the whole limit for as long as it takes that one for present.
func TestLostAnswersDoNotRaiseTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const capacity, rate = 30, 300
		c := newCluster(t, sharedLimit(ratelimit.TokenBucket, capacity, rate))
		defer c.close()
		c.gateways[2].SetDelay(storeTimeout * 4 / 5)
		var wg sync.WaitGroup
		wg.Go(func() { c.load(1, 8*time.Second, 3*rate, 3*rate, 3*rate) })
		for range 4 {
			<-time.After(200 * time.Millisecond)
			c.gateways[2].SetDeaf(true)
			<-time.After(1500 * time.Millisecond)
			c.gateways[2].SetDeaf(false)
		}
		wg.Wait()
		if n := c.excess(capacity, rate); n > 0.001 {
			t.Errorf("%.2f too many", n)
		}
	})
}
