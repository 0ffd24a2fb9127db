package backend

import (
	"sync/atomic"
	"time"
)

// Changes counts what may make an instance of a service type unready: a change of
// its health or its breaker, an overload, the last free slot being taken. Who found
// all instances ready knows by the count that they still are, without asking each
// of them again.
type Changes struct{ count atomic.Uint64 }

// Count returns the number of changes so far.
func (c *Changes) Count() uint64 { return c.count.Load() }

// note counts a change; a nil Changes counts nothing.
func (c *Changes) note() {
	if c != nil {
		c.count.Add(1)
	}
}

// Steady tells that an instance without an obstacle stays without one until Changes
// counts a change. It does not while a limit of its own or the time of a breaker's
// next trial decides.
func (i *Instance) Steady(now time.Time) bool {
	return !i.policy.Limit.Enabled && i.Breaker.Closed() && !i.Avoided(now)
}
