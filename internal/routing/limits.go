package routing

import (
	"iter"

	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/tally"
)

// limiters returns all rate limiters of the table, with the names under which gateways
// share them.
func (t *Table) limiters() iter.Seq2[string, *ratelimit.Limiter] {
	return func(yield func(string, *ratelimit.Limiter) bool) {
		for _, s := range t.services {
			if s == nil {
				continue
			}
			service := s.Type.String()
			if !yield(service, s.Limiter) {
				return
			}
			for _, pool := range s.Pools {
				if !yield(service+"/model/"+pool.Model, pool.Limiter) {
					return
				}
				for _, i := range pool.Instances {
					if !yield(service+"/instance/"+i.ID, i.Limiter) {
						return
					}
				}
			}
		}
	}
}

// shareLimits connects the limiters with those of other gateways.
func (t *Table) shareLimits(pool *tally.Pool) {
	if pool == nil {
		return
	}
	for name, limiter := range t.limiters() {
		limiter.Share(pool, name)
	}
}

// withdrawLimits ends the part that this gateway has in limits of the table that its
// successor has not. A nil table has none.
func (t *Table) withdrawLimits(next *Table) {
	if t == nil {
		return
	}
	kept := map[*ratelimit.Limiter]bool{}
	for _, limiter := range next.limiters() {
		kept[limiter] = true
	}
	for _, limiter := range t.limiters() {
		if !kept[limiter] {
			limiter.Withdraw()
		}
	}
}
