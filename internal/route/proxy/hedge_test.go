package proxy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// hedgedEngine takes about 50 ms for a request of the tests.
var hedgedEngine = engine.Spec{Block: 16, Cache: 1 << 20, Token: 0.0005, Request: 0.005, Width: 4}

// hedgedRequest is a request for one vector of about a hundred tokens.
func hedgedRequest(random *rand.Rand) string {
	text := ""
	for range 80 + random.IntN(40) {
		text += " word"
	}
	return fmt.Sprintf(`{"model":"m","dimensions":4,"input":[%q]}`, text)
}

// load sends so many requests, which come at random times, and returns their records.
func (c *clockwork) load(random *rand.Rand, requests int, each time.Duration) []time.Duration {
	var mu sync.Mutex
	var took []time.Duration
	var running sync.WaitGroup
	for range requests {
		<-time.After(time.Duration(random.ExpFloat64() * float64(each)))
		body := hedgedRequest(random)
		running.Go(func() {
			began := time.Now()
			c.ask((*schema.Request).ParseEmbedding, body)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
		})
	}
	running.Wait()
	return took
}

// With least-time and one of four instances that becomes 20 times slower, the slowest of a
// hundred requests take a fifth of the time or less, with few more calls.
func TestSlowInstancesDoNotMatter(t *testing.T) {
	const learned, measured = 2000, 1000
	worst := func(t *testing.T, on bool) (p99 time.Duration, calls int) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			c, end := newClockwork(t, schema.Embedding, []engine.Spec{hedgedEngine, hedgedEngine, hedgedEngine, hedgedEngine}, func(s *config.Service) {
				s.LoadBalancer, s.Hedge.Enabled = balance.LeastTime, on
			})
			defer end()
			count := func() (all int) {
				for _, b := range c.engines {
					all += b.Stats().Arrived
				}
				return all
			}
			c.load(random, learned, 60*time.Millisecond)
			before := count()
			if on && float64(before) > 1.05*learned {
				t.Errorf("%d calls for %d requests", before, learned)
			}
			c.engines[3].Engine().Slow(20)
			took := c.load(random, measured, 60*time.Millisecond)
			slices.Sort(took)
			p99, calls = took[measured*99/100-1], count()
			t.Logf("hedged %v: p50 %v, p95 %v, p99 %v, longest %v, %d calls for %d requests after it became slow", on,
				took[measured/2-1], took[measured*95/100-1], p99, took[measured-1], calls-before, measured)
			for n, i := range c.instances() {
				if i.InFlight() != 0 || i.Ended(breaker.Failure) != 0 || i.Engine().Picture(time.Now()).Waiting != 0 {
					t.Errorf("instance %d: %d in flight, %d failed", n, i.InFlight(), i.Ended(breaker.Failure))
				}
			}
		})
		return p99, calls
	}
	off, _ := worst(t, false)
	on, calls := worst(t, true)
	if on*5 > off || float64(calls) > 1.05*(learned+measured) {
		t.Errorf("p99 is %v with hedging and %v without, %d calls", on, off, calls)
	}
}

// learnAll answers enough requests at each instance that their times are known.
func (c *clockwork) learnAll() {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		c.ask((*schema.Request).ParseEmbedding, hedgedRequest(random))
	}
}

// The answer that comes first is that of the request, and the record has both calls.
func TestTheFirstAnswerIsTaken(t *testing.T) {
	for name, row := range map[string]struct {
		slow, other float64 // by how much the instances are
		want        metrics.Hedged
		tries       int
		after       func(*clockwork)
	}{
		"none is due":     {slow: 1, other: 1, want: metrics.HedgeNone, tries: 1},
		"the second wins": {slow: 20, other: 1, want: metrics.HedgeWon, tries: 2},
		"the first wins":  {slow: 2, other: 20, want: metrics.HedgeLost, tries: 2},
		"others wait for a slot": {slow: 20, other: 1, want: metrics.HedgeRefused, tries: 1, after: func(c *clockwork) {
			i := c.instances()[1]
			for range 2 {
				if _, ok := i.Acquire(time.Now()); !ok {
					c.t.Error("no slot")
				}
			}
		}},
		"the other one has failed": {slow: 20, other: 1, want: metrics.HedgeRefused, tries: 1, after: func(c *clockwork) { c.instances()[1].Troubled() }},
		"enough were made": {slow: 20, other: 1, want: metrics.HedgeRefused, tries: 1, after: func(c *clockwork) {
			for c.current.Load().Service(schema.Embedding).Find("m").Watch.Spend(true) {
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, end := newClockwork(t, schema.Embedding, []engine.Spec{hedgedEngine, hedgedEngine}, func(s *config.Service) {
					s.Hedge.Enabled = true
					s.Instances[1].MaxConcurrency = 2
				})
				defer end()
				c.learnAll()
				c.engines[0].Engine().Slow(row.slow)
				c.engines[1].Engine().Slow(row.other)
				if row.after != nil {
					row.after(c)
				}
				before := [2]int64{c.instances()[0].Ended(breaker.Cancelled), c.instances()[1].Ended(breaker.Cancelled)}
				body := hedgedRequest(rand.New(rand.NewPCG(1, 2)))
				record, answer := c.ask((*schema.Request).ParseEmbedding, body)
				if record.Instance == "" || answer == "" {
					t.Fatalf("no answer: %+v", record)
				}
				if record.Hedge != row.want || record.Attempts != row.tries || len(record.Described()) != row.tries {
					t.Errorf("hedge %q after %d attempts, %d described", record.Hedge, record.Attempts, len(record.Described()))
				}
				winner, loser := 0, 1
				if row.want == metrics.HedgeWon {
					winner, loser = 1, 0
				}
				if got := c.instances()[winner]; record.Instance != got.ID || record.Try().Code != "" || record.Try().Instance != got.ID || record.Series != got.Series {
					t.Errorf("%s answered, want %s; its code is %q", record.Instance, got.ID, record.Try().Code)
				}
				cancelled := c.instances()[loser].Ended(breaker.Cancelled) - before[loser]
				if wanted := int64(row.tries - 1); cancelled != wanted || c.instances()[winner].Ended(breaker.Cancelled) != before[winner] {
					t.Errorf("%d calls were cancelled at the loser", cancelled)
				}
				if row.tries == 2 {
					if lost := record.Described()[0]; lost.Code != calls.GivenUp || lost.Instance != c.instances()[loser].ID {
						t.Errorf("the loser is %+v", lost)
					}
				}
				for n, i := range c.instances() {
					if i.Ended(breaker.Failure) != 0 || row.after == nil && i.InFlight() != 0 {
						t.Errorf("instance %d: %d in flight, %d failed", n, i.InFlight(), i.Ended(breaker.Failure))
					}
				}
			})
		})
	}
}
