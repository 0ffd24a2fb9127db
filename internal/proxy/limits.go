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
	// standing is where the request stands in the limit that covers it, if any does.
	standing ratelimit.Decision
}

// take counts the request. One that is refused has taken nothing.
func (l *limits) take(pool *routing.Pool, client netip.Addr, now time.Time) error {
	for n, limiter := range [...]*ratelimit.Limiter{pool.Service.Limiter, pool.Limiter} {
		var decision ratelimit.Decision
		decision, l.spent[n] = limiter.Take(client, now)
		if decision.Limited {
			l.standing = decision
		}
		if !decision.Allowed {
			l.giveBack(now)
			l.standing = decision
			return overLimit(decision)
		}
	}
	return nil
}

// giveBack gives back what a request took that reaches no backend: refused
// requests cost nothing.
func (l *limits) giveBack(now time.Time) {
	for n := range l.spent {
		if left := l.spent[n].Return(now); left.Limited {
			l.standing = left
		}
	}
}

// hold says that the request has to wait, until use or giveBack.
func (l *limits) hold() {
	for n := range l.spent {
		l.spent[n].Hold()
	}
}

// use says that the wait is over.
func (l *limits) use(now time.Time) {
	for n := range l.spent {
		l.spent[n].Use(now)
	}
}

// standing returns where the client stands in the limit that covers the request. An
// instance may have a limit of its own.
func (c *choice) standing(called *backend.Instance) ratelimit.Decision {
	switch {
	case c.limits.standing.Limited:
		return c.limits.standing
	case called != nil:
		return called.Limiter.Peek(netip.Addr{}, time.Now())
	}
	return PeekLimit(c.table.Service(c.record.Service), c.req.Model, c.caller.Addr)
}

// PeekLimit returns where a client stands in the limit that would cover a request
// which does not get as far as being counted. Where every instance has a limit of
// its own, it is that of the one with most left.
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
