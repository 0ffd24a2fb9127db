package proxy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
)

// benchStrategies are measured each on its own.
func benchStrategies() []balance.Strategy {
	all := make([]balance.Strategy, len(balance.RoundRobin.Names()))
	for n := range all {
		all[n] = balance.Strategy(n)
	}
	return all
}

// everyPolicy switches on all that can be: slots, a queue, a limit, breakers.
func everyPolicy(strategy balance.Strategy) func(*config.Service) {
	return func(s *config.Service) {
		slots(1000, queue.Settings{Size: 100, Timeout: schema.Duration(time.Minute)})(s)
		s.LoadBalancer = strategy
		limited(1_000_000_000, ratelimit.PerService)(s)
		s.RateLimit.RefillRate = 1_000_000_000
	}
}

// pickAndSettle is the traffic policy of one request, and nothing else.
func (r *run) pickAndSettle(b testing.TB) {
	if !r.choice.acquire(&r.attempt) {
		b.Fatal("nobody is ready")
	}
	r.attempt.hasSlot = false
	r.attempt.instance.Release(r.attempt.permit, breaker.Success, r.choice.last.Now)
	r.choice.pool.Queue.Wake()
}

// BenchmarkPickAcquireSettle is for one request among eight instances.
func BenchmarkPickAcquireSettle(b *testing.B) {
	for _, strategy := range benchStrategies() {
		b.Run(strategy.String(), func(b *testing.B) {
			r := newDesk(b, 8, everyPolicy(strategy)).request(1)
			b.ReportAllocs()
			for b.Loop() {
				r.pickAndSettle(b)
			}
		})
	}
}

// BenchmarkPolicyUnderContention is all of the policy with 32 goroutines for
// each core; the time is what one request costs in CPU.
func BenchmarkPolicyUnderContention(b *testing.B) {
	for _, strategy := range benchStrategies() {
		b.Run(strategy.String(), func(b *testing.B) {
			d := newDesk(b, 8, everyPolicy(strategy))
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				r := d.request(1)
				for pb.Next() {
					if r.let(context.Background()) != nil {
						b.Error("refused")
						return
					}
					r.pickAndSettle(b)
				}
			})
		})
	}
}

// BenchmarkPolicyByPoolSize is all of the policy of one request, in pools from small
// to large.
func BenchmarkPolicyByPoolSize(b *testing.B) {
	for _, size := range []int{1, 20, 200} {
		for _, strategy := range benchStrategies() {
			b.Run(fmt.Sprintf("%d/%s", size, strategy), func(b *testing.B) {
				r := newDesk(b, size, everyPolicy(strategy)).request(1)
				b.ReportAllocs()
				for b.Loop() {
					r.choice.stale = true
					if r.let(context.Background()) != nil {
						b.Fatal("refused")
					}
					r.pickAndSettle(b)
				}
			})
		}
	}
}

// The policy of a request takes no memory.
func TestPolicyDoesNotAllocate(t *testing.T) {
	if testing.CoverMode() != "" || raceEnabled {
		t.Skip("instrumented builds allocate on their own")
	}
	for _, strategy := range benchStrategies() {
		r := newDesk(t, 8, everyPolicy(strategy)).request(1)
		if n := testing.AllocsPerRun(200, func() {
			if r.let(context.Background()) != nil {
				t.Fatal("refused")
			}
			r.pickAndSettle(t)
		}); n > 0 {
			t.Errorf("%s: %v allocations", strategy, n)
		}
	}
}
