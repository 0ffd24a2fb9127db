package admit

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
	// decision is that of the limit that applies to the request, if any does. The
	// caller is told what remains of it.
	decision ratelimit.Decision
}

// The places in limits.spent.
const (
	ofService = iota
	ofModel
)

// take counts the request in a limit, and reports whether that allows it.
func (l *limits) take(place int, limiter *ratelimit.Limiter, client netip.Addr, now time.Time) bool {
	decision, spent := limiter.Take(client, now)
	l.spent[place] = spent
	if decision.Limited {
		l.decision = decision
	}
	return decision.Allowed
}

// takeLimits counts the request in the limits of its service type and its model.
func (r *Request) takeLimits(now time.Time) error {
	l := &r.limits
	if service := r.service(); service != nil && !l.take(ofService, service.Limiter, r.Caller.Addr, now) {
		return OverLimit(l.decision)
	}
	if r.Pool == nil || l.take(ofModel, r.Pool.Limiter, r.Caller.Addr, now) {
		return nil
	}
	refusal := OverLimit(l.decision)
	if len(r.takeovers()) == 0 {
		reached := l.decision
		l.giveBack(now)
		l.decision = reached
		return refusal
	}
	r.barred = func() error { return refusal }
	return nil
}

// Move counts the request in the limit of another model in place of that of its own, if
// that limit allows it.
func (r *Request) Move(to *routing.Pool, now time.Time) bool {
	if !r.limited {
		return true
	}
	before := r.limits
	if !r.limits.take(ofModel, to.Limiter, r.Caller.Addr, now) {
		r.limits = before
		return false
	}
	before.spent[ofModel].Return(now)
	return true
}

func (l *limits) giveBack(now time.Time) {
	for n := range l.spent {
		if left := l.spent[n].Return(now); left.Limited {
			l.decision = left
		}
	}
}

// Hold notes that the request waits for a slot, until Resume or GiveBack is called.
func (r *Request) Hold() {
	for n := range r.limits.spent {
		r.limits.spent[n].Hold()
	}
}

// Resume notes that the wait is over.
func (r *Request) Resume(now time.Time) {
	for n := range r.limits.spent {
		r.limits.spent[n].Use(now)
	}
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
