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

	"github.com/patchbay-ai/patchbay/internal/ratelimit"
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
// one, lost data and gateways that are killed, and checks that no interval ever has more
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
	for step := range 8 {
		loads := make([]float64, 3)
		for n := range loads {
			loads[n] = []float64{0, 0.2, 1, 3}[random.IntN(4)] * rate
		}
		var wg sync.WaitGroup
		long := time.Duration(1+random.IntN(8)) * time.Second
		if random.IntN(8) == 0 {
			long += ratelimit.ForgetAfter
		}
		wg.Go(func() { c.load(uint64(step), long+time.Second, loads...) })
		<-time.After(time.Duration(random.IntN(900)) * time.Millisecond)
		switch random.IntN(6) {
		case 0:
			c.store.SetDown(true)
			<-time.After(time.Duration(random.Int64N(int64(long))))
			if random.IntN(2) == 0 {
				c.store.Flush()
				flushed++
			}
			c.store.SetDown(false)
		case 1:
			c.store.Flush()
			flushed++
		case 2:
			n := random.IntN(3)
			c.gateway(n).SetCutOff(true)
			<-time.After(min(time.Duration(random.Int64N(int64(long))), ratelimit.ForgetAfter-2*time.Second))
			c.gateway(n).SetCutOff(false)
		case 3:
			for n := range c.gateways { // slow, but in time
				c.gateway(n).SetDelay(time.Duration(random.IntN(40)) * time.Millisecond)
			}
		case 4:
			c.restart(random.IntN(3), settings)
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
