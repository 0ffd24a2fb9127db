package routing

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/fleet"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/tally"
)

// Current is the table in force. Requests load it once; one writer stores it.
type Current struct {
	table     atomic.Pointer[Table]
	observers atomic.Pointer[[]func(*Table)]
	// fleet is where the strategy of least time chooses from; nil means that it knows
	// nothing of any instance.
	fleet *fleet.Fleet
	// shared is where the limits are that this gateway shares with others; nil means
	// that it shares none.
	shared *tally.Pool
}

// Share makes rate limits whose settings say so common to all gateways of a pool. It
// is called before the first table is stored.
func (c *Current) Share(pool *tally.Pool) { c.shared = pool }

// Follow gives the instances of services that are balanced by least time their places in a
// fleet. It is called before the first table is stored.
func (c *Current) Follow(f *fleet.Fleet) { c.fleet = f }

// Load returns the table in force.
func (c *Current) Load() *Table { return c.table.Load() }

// Store puts a table into force for the requests that come from now on.
func (c *Current) Store(t *Table) {
	before := c.table.Load()
	t.shareLimits(c.shared)
	left := before.engines()
	t.joinFleet(c.fleet)
	c.table.Store(t)
	t.activate(time.Now())
	before.withdrawLimits(t)
	for engine := range t.engines() {
		delete(left, engine)
	}
	for engine := range left {
		engine.Remove()
	}
	if observers := c.observers.Load(); observers != nil {
		for _, observe := range *observers {
			observe(t)
		}
	}
}

// Observe makes f be called with every table that comes into force from now on.
// It runs in the writer's goroutine and must not wait. Observe must not be called
// concurrently.
func (c *Current) Observe(f func(*Table)) {
	var all []func(*Table)
	if before := c.observers.Load(); before != nil {
		all = append(all, *before...)
	}
	all = append(all, f)
	c.observers.Store(&all)
}

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

// joinFleet gives the instances of services that are balanced by least time their places in
// a fleet, and takes those of the others away.
func (t *Table) joinFleet(f *fleet.Fleet) {
	for _, pool := range t.Pools() {
		for _, i := range pool.Instances {
			if pool.Soonest != nil {
				i.Join(f)
			} else {
				i.Join(nil)
			}
		}
	}
}

// engines returns the places in the fleet that instances of the table have; a nil table has
// none. Instances may share one: one server gives a model two names.
func (t *Table) engines() map[*fleet.Instance]bool {
	all := map[*fleet.Instance]bool{}
	if t == nil {
		return all
	}
	for _, i := range t.Instances() {
		if engine := i.Engine(); engine != nil {
			all[engine] = true
		}
	}
	return all
}
