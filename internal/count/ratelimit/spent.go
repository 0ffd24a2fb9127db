package ratelimit

import (
	"net/netip"
	"time"
)

// Spent is what one request took from a limit, so that it can be given back. The
// zero value is that of a request that took nothing.
type Spent struct {
	limiter *Limiter // nil where there is nothing to give back
	plan    *plan    // by which the request was counted
	client  netip.Addr
	at      int64 // when it was counted
	held    bool
	receipt Receipt // of a limit that is shared with other gateways
}

// Take is Allow for a request that may yet be refused for another reason.
func (l *Limiter) Take(client netip.Addr, now time.Time) (Decision, Spent) {
	p := l.plan.Load()
	if p.leases != nil {
		d, receipt := p.leases.take(client, now)
		if !d.Allowed {
			return d, Spent{}
		}
		return d, Spent{limiter: l, client: client, receipt: receipt}
	}
	d := l.decideBy(p, client, now, true)
	if !d.Limited || !d.Allowed {
		return d, Spent{}
	}
	return d, Spent{limiter: l, plan: p, client: client, at: l.sinceStart(now)}
}

// Hold says that the request has to wait. Until Use or Return, what it took leaves
// no room that fills up again: otherwise requests that are refused after a long
// wait would give back more than the limit holds.
func (s *Spent) Hold() {
	if s.receipt.lease != nil {
		s.receipt.Hold()
		return
	}
	if s.limiter != nil && !s.held {
		s.held = true
		s.revise(s.at, (*spending).hold)
	}
}

// Use says that the wait is over and that the request goes on.
func (s *Spent) Use(now time.Time) {
	s.receipt.Use()
	if s.held {
		s.held = false
		s.revise(s.limiter.sinceStart(now), (*spending).use)
	}
}

// Return gives back what was taken, because the request is refused after all, and
// tells where the limit stands then. Only the first call counts; what it answers
// where nothing was taken is not limited.
func (s *Spent) Return(now time.Time) Decision {
	l := s.limiter
	if l == nil {
		return Decision{}
	}
	if s.receipt.lease != nil {
		s.receipt.Return(now)
		s.limiter = nil
		return l.Peek(s.client, now)
	}
	s.Use(now)
	s.revise(l.sinceStart(now), (*spending).giveBack)
	s.limiter = nil
	return l.Peek(s.client, now)
}

// revise changes the spending in which the request was counted. If another spending has
// replaced it meanwhile, changing the old one has no effect.
func (s *Spent) revise(now int64, change func(t *spending, r *rules, at, now int64)) {
	if s.plan.settings.ClientIPEnable {
		s.plan.clients.revise(s.client, s.at, now, change)
	} else {
		s.plan.whole.revise(s.at, now, change)
	}
}
