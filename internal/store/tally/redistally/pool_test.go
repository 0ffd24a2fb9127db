package redistally_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/store/tally/redistally"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// gateway is one of several gateways that share a limit.
type gateway struct {
	pool  *tally.Pool
	lease *ratelimit.Lease
	stop  context.CancelFunc
	done  chan struct{}
}

// patient is a timeout that a busy machine does not reach.
const patient = 20 * time.Second

func start(t *testing.T, url, id string, timeout time.Duration, settings ratelimit.Settings) *gateway {
	t.Helper()
	g := &gateway{done: make(chan struct{})}
	g.pool = tally.NewPool(tally.Options{
		Open: func(ctx context.Context) (tally.Store, error) {
			return redistally.Open(ctx, url, "test", id)
		},
		Timeout: timeout, Log: slog.New(slog.DiscardHandler),
	})
	g.lease = ratelimit.NewLease(g.pool, "chat", settings)
	ctx, cancel := context.WithCancel(context.Background())
	g.stop = cancel
	g.pool.Begin(ctx)
	go func() {
		g.pool.Run(ctx)
		close(g.done)
	}()
	t.Cleanup(g.halt)
	return g
}

func (g *gateway) halt() {
	g.stop()
	<-g.done
}

func limit(algorithm ratelimit.Algorithm, capacity, rate int) ratelimit.Settings {
	return ratelimit.Settings{
		Enabled: true, Shared: true, Algorithm: algorithm, Capacity: capacity, RefillRate: rate,
		WarmUpPeriod: schema.Duration(time.Minute),
	}
}

// take is a request that was let in at some moment between two times.
type take struct{ asked, answered time.Duration }

// takes are all requests that were let in.
type takes struct {
	began time.Time
	mu    sync.Mutex
	all   []take
}

func newTakes() *takes { return &takes{began: time.Now()} }

// load lets gateways ask as fast as they can, with short pauses, until the end.
func (s *takes) load(end <-chan struct{}, gateways ...*gateway) {
	const each = 3
	var wg sync.WaitGroup
	for n := range each * len(gateways) {
		g := gateways[n%len(gateways)]
		wg.Go(func() {
			for {
				asked := time.Now()
				d, _ := g.lease.Take(1, asked)
				if d.Allowed {
					s.mu.Lock()
					s.all = append(s.all, take{asked.Sub(s.began), time.Since(s.began)})
					s.mu.Unlock()
				}
				select {
				case <-end:
					return
				case <-time.After(2 * time.Millisecond):
				}
			}
		})
	}
	wg.Wait()
}

// during loads the gateways while something happens.
func (s *takes) during(happens func(), gateways ...*gateway) {
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { s.load(end, gateways...) })
	happens()
	close(end)
	wg.Wait()
}

// reach waits until so many requests were let in, at most for a time.
func (s *takes) reach(count int, most time.Duration) {
	for deadline := time.Now().Add(most); time.Now().Before(deadline); wait(10 * time.Millisecond) {
		s.mu.Lock()
		reached := len(s.all) >= count
		s.mu.Unlock()
		if reached {
			return
		}
	}
}

// excess returns by how much the busiest interval is above what a bucket of this
// capacity and rate allows. Requests count that are within the interval for sure.
func (s *takes) excess(capacity, rate int) float64 {
	byAnswer := slices.SortedFunc(slices.Values(s.all), func(a, b take) int { return cmp.Compare(a.answered, b.answered) })
	worst := -float64(capacity)
	for _, first := range byAnswer {
		count := 0
		for _, last := range byAnswer {
			if last.asked < first.asked {
				continue
			}
			count++
			worst = max(worst, float64(count-capacity)-(last.answered-first.asked).Seconds()*float64(rate))
		}
	}
	return worst
}

// TestBurstIsOneOverAllGateways: a capacity of 10 lets 10 of 25 requests through,
// however they are spread.
func TestBurstIsOneOverAllGateways(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []ratelimit.Algorithm{ratelimit.TokenBucket, ratelimit.LeakyBucket, ratelimit.SlidingWindow} {
		t.Run(algorithm.String(), func(t *testing.T) {
			t.Parallel()
			redis := storetest.Redis(t)
			var all []*gateway
			for n := range 3 {
				settings := limit(algorithm, 10, 1)
				all = append(all, start(t, redis.URL, fmt.Sprint("g", n), patient, settings))
			}
			<-time.After(tally.ProbationTime) // the store is new
			began := time.Now()
			allowed := 0
			for n := range 25 {
				if d, _ := all[n%3].lease.Take(1, time.Now()); d.Allowed {
					allowed++
				}
			}
			if most := 10 + int(time.Since(began).Seconds()) + 1; allowed < 10 || allowed > most {
				t.Errorf("%d of 25 were let in", allowed)
			}
		})
	}
}
