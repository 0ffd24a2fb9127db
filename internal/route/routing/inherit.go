package routing

import (
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/hedge"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
)

// inherit gives a pool the living state of its predecessor, or new state if there is
// none.
func (p *Pool) inherit(before *Pool, now time.Time) {
	policy := &p.Service.Policy
	p.Balancer, p.Strategy = balance.New(policy.LoadBalancer, len(p.Instances)), policy.LoadBalancer.String()
	p.Soonest, _ = p.Balancer.(*balance.Soonest)
	p.Splits = policy.Split.On()
	p.inheritWatch(before)
	if before == nil {
		p.Limiter = ratelimit.New(scoped(policy.RateLimit, ratelimit.PerModel), now)
		p.Queue = queue.New()
		return
	}
	p.Limiter, p.Queue = before.Limiter, before.Queue
	if was := before.share(); was > 0 && before.Service.Policy.LoadBalancer == policy.LoadBalancer {
		balance.Carry(p.Balancer, before.Balancer, p.slotsIn(before), float64(p.share())/float64(was))
	}
}

// inheritWatch gives a pool with hedged calls the known times of its calls.
func (p *Pool) inheritWatch(before *Pool) {
	if !p.Service.Policy.Hedge.Enabled {
		return
	}
	if before == nil || before.Watch == nil {
		p.Watch = hedge.NewWatch()
		return
	}
	ids := make([]string, len(p.Instances))
	for n, i := range p.Instances {
		ids[n] = i.ID
	}
	p.Watch = before.Watch
	p.Watch.Keep(ids)
}

// share is the sum of the weights of the pool.
func (p *Pool) share() int64 {
	var total int64
	for _, i := range p.Instances {
		total += i.Share
	}
	return total
}

// slotsIn returns the positions of the instances of p in an older pool.
func (p *Pool) slotsIn(older *Pool) []int {
	slots := make([]int, len(p.Instances))
	for n, i := range p.Instances {
		slots[n] = slices.IndexFunc(older.Instances, func(o *backend.Instance) bool { return o.ID == i.ID })
	}
	return slots
}
