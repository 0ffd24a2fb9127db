package proxy

import (
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/routing"
)

// limits is what a request took from the rate limits of its service type and its
// model.
type limits struct {
	spent [2]ratelimit.Spent
	// decision is that of the limit that applies to the request, if any does. The
	// caller is told what remains of it.
	decision ratelimit.Decision
}

// take counts the request in both limits, or in none if one of them is reached.
func (l *limits) take(pool *routing.Pool, client netip.Addr, now time.Time) error {
	for n, limiter := range [...]*ratelimit.Limiter{pool.Service.Limiter, pool.Limiter} {
		var decision ratelimit.Decision
		decision, l.spent[n] = limiter.Take(client, now)
		if decision.Limited {
			l.decision = decision
		}
		if !decision.Allowed {
			l.giveBack(now)
			l.decision = decision
			return overLimit(decision)
		}
	}
	return nil
}

// giveBack gives back what the request took, because it reaches no backend.
func (l *limits) giveBack(now time.Time) {
	for n := range l.spent {
		if left := l.spent[n].Return(now); left.Limited {
			l.decision = left
		}
	}
}

// move counts the request in the limit of another model in place of that of its own, if
// that limit allows it.
func (l *limits) move(to *routing.Pool, client netip.Addr, now time.Time) bool {
	decision, spent := to.Limiter.Take(client, now)
	if !decision.Allowed {
		return false
	}
	const model = 1 // its place in spent
	l.spent[model].Return(now)
	l.spent[model] = spent
	if decision.Limited {
		l.decision = decision
	}
	return true
}

// hold notes that the request waits for a slot, until use or giveBack is called.
func (l *limits) hold() {
	for n := range l.spent {
		l.spent[n].Hold()
	}
}

// use notes that the wait is over.
func (l *limits) use(now time.Time) {
	for n := range l.spent {
		l.spent[n].Use(now)
	}
}

// limitDecision returns the state of the limit that applies to the request: that of its
// service type or model, or else that of the instance that was called.
// The time is zero where it is not known.
func (c *choice) limitDecision(called *backend.Instance, now time.Time) ratelimit.Decision {
	switch {
	case c.limits.decision.Limited:
		return c.limits.decision
	case called != nil:
		if now.IsZero() {
			now = time.Now()
		}
		return called.Limiter.Peek(netip.Addr{}, now)
	}
	return PeekLimit(c.table.Service(c.record.Service), c.req.Model, c.caller.Addr)
}

// PeekLimit returns the state of the limit that would apply to a request that was
// refused before it was counted. Where the instances have limits of their own, it is
// that of the instance with the most remaining.
func PeekLimit(service *routing.Service, model []byte, client netip.Addr) ratelimit.Decision {
	if service == nil {
		return ratelimit.Decision{}
	}
	now := time.Now()
	found := service.Limiter.Peek(client, now)
	pool := service.FindBytes(model)
	if pool == nil || found.Limited {
		return found
	}
	found = pool.Limiter.Peek(client, now)
	for _, i := range pool.Instances {
		if own := i.Limiter.Peek(netip.Addr{}, now); own.Limited && (!found.Limited || own.Remaining > found.Remaining) {
			found = own
		}
	}
	return found
}
