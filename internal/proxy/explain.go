package proxy

import (
	"net/netip"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Explanation is what would happen to a request if it came now.
type Explanation struct {
	// Pool is nil where nobody serves the model.
	Pool       *routing.Pool
	Candidates []Candidate
	// Pick is the instance that would be called; nil where none would, or where
	// only chance knows.
	Pick *backend.Instance
	// ServiceLimit and ModelLimit are what the limits of the service type and of
	// the model would say.
	ServiceLimit, ModelLimit ratelimit.Decision
	// Waiting is how many requests wait for a slot.
	Waiting int
	// Refusal is what the caller would be told in place of an answer, nil where
	// the request would reach a backend.
	Refusal *schema.Error
}

// Candidate is an instance that serves the model.
type Candidate struct {
	*backend.Instance
	Obstacle backend.Obstacle
	// Reason says why the instance would not be picked; empty where it might be.
	Reason string
	// Chance is the instance's share among those that might be picked, by weight.
	Chance float64
}

// Explain tells what would happen to a request. It goes the way of Do up to the
// call, by the same rules, and consumes nothing.
func Explain(table *routing.Table, serviceType schema.ServiceType, model string, client netip.Addr, now time.Time) Explanation {
	service := table.Service(serviceType)
	var x Explanation
	x.Pool = service.Find(model)
	if x.Pool == nil {
		x.Refusal = unknownModel(service, serviceType, model)
		return x
	}
	x.Waiting = x.Pool.Queue.Len()
	x.ServiceLimit = service.Limiter.Peek(client, now)
	x.ModelLimit = x.Pool.Limiter.Peek(client, now)
	ready := appendReady(nil, x.Pool, nil, now)
	x.Candidates = candidates(x.Pool, ready, now)
	if len(ready) > 0 {
		x.Pick = x.Pool.Balancer.Peek(ready, client)
	}
	x.Refusal = x.refusal(now)
	if x.Refusal != nil {
		x.Pick = nil
	}
	return x
}

// refusal finds the first reason for which the request would be turned away, in
// the order in which Do looks for them.
func (x *Explanation) refusal(now time.Time) *schema.Error {
	if err := refusal(x.Pool, nil, x.Waiting, now); err != nil {
		return err
	}
	for _, limit := range []ratelimit.Decision{x.ServiceLimit, x.ModelLimit} {
		if !limit.Allowed {
			return overLimit(limit)
		}
	}
	return nil
}

func candidates(pool *routing.Pool, ready []*backend.Instance, now time.Time) []Candidate {
	all := make([]Candidate, len(pool.Instances))
	var total int64
	for n, i := range pool.Instances {
		all[n] = Candidate{Instance: i, Obstacle: i.Obstacle(now)}
		if all[n].Obstacle == backend.NoObstacle {
			if slices.Contains(ready, i) {
				total += i.Share
				continue
			}
			all[n].Obstacle = backend.Unhealthy // it is passed over
		}
		all[n].Reason = i.WhyNot(all[n].Obstacle, now)
		if all[n].Obstacle == backend.Faulty {
			all[n].Reason = i.Fault // operators may know what is missing
		}
	}
	for n := range all {
		if all[n].Obstacle == backend.NoObstacle {
			all[n].Chance = float64(all[n].Share) / float64(total)
		}
	}
	return all
}
