package account

import (
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// KeyLimits returns the states of the limits of the key and its tenant that have the least
// left.
func (a *Account) KeyLimits() (requests, tokens ratelimit.Decision) {
	return a.use.Requests, a.use.Tokens
}

// Limit returns the state of the limit of the service type or the model, if one applies.
func (a *Account) Limit() ratelimit.Decision { return a.limits.decision }

// limits holds the permits that a request took from the rate limits of its service type
// and its model.
type limits struct {
	spent [2]ratelimit.Spent
	// decision is the decision of the limit that applies to the request, if any does.
	// The caller is told the remaining amount.
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

// LimitOfService names the rate limit of a service type in a refusal.
func LimitOfService(service schema.ServiceType) string { return "service/" + service.String() }

// LimitOfModel names the rate limit of a model in a refusal.
func LimitOfModel(model string) string { return "model/" + model }

// takeLimits counts the request in the limits of its service type and its model.
func (a *Account) takeLimits(now time.Time) *schema.Error {
	l, service := &a.limits, a.service()
	if service == nil || !service.Policy.RateLimit.Enabled {
		return nil
	}
	if !l.take(ofService, service.Limiter, a.Caller.Addr, now) {
		return OverLimit(l.decision, LimitOfService(a.Asks.Service))
	}
	if a.Pool == nil || l.take(ofModel, a.Pool.Limiter, a.Caller.Addr, now) {
		return nil
	}
	refusal := OverLimit(l.decision, LimitOfModel(a.Pool.Model))
	if len(a.takeovers()) == 0 {
		reached := l.decision
		l.giveBack(now)
		l.decision = reached
		return refusal
	}
	a.overLimit = refusal
	return nil
}

// Move is a request that is counted in the limits of two models, until it is certain which of
// them serves it. The zero Move belongs to no request.
type Move struct {
	account *Account
	before  limits
}

// Move counts the request in the limit of another model as well, if that limit allows it. Keep
// or Undo must follow.
func (a *Account) Move(to *routing.Pool, now time.Time) (Move, bool) {
	if a.stage != open {
		return Move{}, true
	}
	before := a.limits
	if !a.limits.take(ofModel, to.Limiter, a.Caller.Addr, now) {
		a.limits = before
		return Move{}, false
	}
	return Move{a, before}, true
}

// Keep gives back the count in the limit of the model before.
func (m *Move) Keep(now time.Time) {
	if m.account != nil {
		m.before.spent[ofModel].Return(now)
	}
}

// Undo gives back the count in the limit of the other model.
func (m *Move) Undo(now time.Time) {
	if a := m.account; a != nil {
		a.limits.spent[ofModel].Return(now)
		a.limits = m.before
	}
}

func (l *limits) giveBack(now time.Time) {
	for n := range l.spent {
		if left := l.spent[n].Return(now); left.Limited {
			l.decision = left
		}
	}
}

// Hold notes that the request waits for a slot, until Resume or GiveBack is called.
func (a *Account) Hold() {
	for n := range a.limits.spent {
		a.limits.spent[n].Hold()
	}
}

// Resume notes that the wait is over.
func (a *Account) Resume(now time.Time) {
	for n := range a.limits.spent {
		a.limits.spent[n].Use(now)
	}
}

// PeekLimit returns the state of the limit that would apply to a request that was
// refused before it was counted. Where the instances have limits of their own, it is
// the state of the instance with the most remaining.
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
		if own := i.Limiter.Peek(netip.Addr{}, now); own.Limited &&
			(!found.Limited || own.Remaining > found.Remaining) {
			found = own
		}
	}
	return found
}
