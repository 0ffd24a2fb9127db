package proxy

import (
	"net/netip"
	"time"

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
