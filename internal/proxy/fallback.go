package proxy

import (
	"errors"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/naming"
	"github.com/patchbay-ai/patchbay/internal/prices"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// savedChoice is which model a request is at, so that a move to another one can be undone.
type savedChoice struct {
	// fallback is the model that took over, empty where none did.
	fallback string
	pool     *routing.Pool
	model    string
	// reason is that of the exclusions.
	reason     *schema.Error
	calledHere int
}

func (c *choice) save() savedChoice {
	return savedChoice{c.fallback, c.pool, c.model, c.excluded.reason, c.calledHere}
}

func (c *choice) restore(s savedChoice) {
	c.fallback, c.pool, c.model, c.excluded.reason = s.fallback, s.pool, s.model, s.reason
	c.calledHere, c.stale = s.calledHere, true
}

// fallBack moves a request that has not been sent to any instance to the next model that
// may take over from the one that it is at, because of an error; nil means that the
// request would wait for a slot. A model that can take the request at once goes first;
// one for which it would have to wait is taken only if it cannot wait where it is.
func (c *choice) fallBack(because error) bool {
	why, known := refusalReason(because)
	if !known {
		return false
	}
	before := c.save()
	list := c.fallbacks(why)
	for _, mayWait := range []bool{false, true} {
		if mayWait && because == nil {
			break
		}
		for n := c.nextFallback; n < len(list); n++ {
			if c.moveTo(list[n], mayWait) {
				c.noteFallback(n, why)
				return true
			}
			c.restore(before)
		}
	}
	return false
}

// fallBackAfter moves a request whose attempt failed to the next model that may take over
// and has an instance for it, and begins an attempt there. The retry budget decides as it
// does for another instance of the same model; but a request that is too long says nothing
// about the state of a backend.
func (c *choice) fallBackAfter(failed *fault, a *attempt) bool {
	why, known := failed.reason()
	if !known {
		return false
	}
	before := c.save()
	list := c.fallbacks(why)
	for n := c.nextFallback; n < len(list); n++ {
		if c.moveTo(list[n], false) && (why == naming.Context && c.acquire(a) || why != naming.Context && c.acquireAnother(a)) {
			c.noteFallback(n, why)
			return true
		}
		c.restore(before)
	}
	return false
}

// fallbacks returns the models that take over for a reason from the one that the caller
// asked for.
func (c *choice) fallbacks(why naming.Reason) []routing.Fallback {
	return c.table.Service(c.req.Service).Fallbacks(string(c.req.Model), why)
}

// mayFallBack tells whether the model that the caller asked for has fallbacks.
func (c *choice) mayFallBack() bool { return c.fallback != "" || c.pool.HasFallbacks }

// hasMoreFallbacks tells whether another model may yet take over.
func (c *choice) hasMoreFallbacks() bool { return len(c.moreFallbacks()) > 0 }

// moreFallbacks returns the models that may yet take over, whatever the reason.
func (c *choice) moreFallbacks() []routing.Fallback {
	if !c.mayFallBack() {
		return nil
	}
	for _, why := range naming.Reasons() {
		if list := c.fallbacks(why); len(list) > c.nextFallback { // it is the same for all reasons in force
			return list[c.nextFallback:]
		}
	}
	return nil
}

// mayUse tells whether the caller may use a fallback.
func (c *choice) mayUse(to routing.Fallback) bool {
	return c.caller.MayUse(c.req.Service, to.Name) || c.caller.MayUse(c.req.Service, to.Model)
}

// priceOf returns the price of a fallback, nil where it has none or cannot serve the
// request.
func (c *choice) priceOf(to routing.Fallback) *prices.Price {
	pool := c.table.Service(c.req.Service).Find(to.Model)
	if pool == nil || !c.mayUse(to) {
		return nil
	}
	return pool.Price
}

// mayCost tells whether the model, or one that may take over from it, has a price.
func (c *choice) mayCost() bool {
	if c.pool.Price != nil {
		return true
	}
	for _, to := range c.moreFallbacks() {
		if c.priceOf(to) != nil {
			return true
		}
	}
	return false
}

// costs returns what the request may cost at its model, and at the dearest one that may
// serve it.
func (c *choice) costs() (own, dearest prices.Amount) {
	own = c.pool.Price.Cost(c.taken.most.Quantity)
	dearest = own
	for _, to := range c.moreFallbacks() {
		dearest = max(dearest, c.priceOf(to).Cost(c.taken.most.Quantity))
	}
	return own, dearest
}

// noteFallback notes that the model at an index of the fallbacks took over.
func (c *choice) noteFallback(n int, why naming.Reason) {
	c.nextFallback = n + 1
	c.record.Fallbacks++
	c.proxy.recorder.FellBack(c.record.Service, why)
}

// moveTo moves the request to a model if the caller may use it, an instance can take the
// request at once, or later if the request may wait, its limit allows it, and it costs no
// more than what was reserved. The caller of moveTo restores what was before if it did not.
func (c *choice) moveTo(to routing.Fallback, mayWait bool) bool {
	if !c.mayUse(to) {
		return false
	}
	c.fallback, c.excluded.reason, c.calledHere = to.Model, nil, 0
	if c.refreshPool() != nil || !c.taken.allows(c.pool.Price) {
		return false
	}
	s := c.survey()
	atOnce := len(s.ready) > 0 && c.pool.Queue.Quiet()
	if !atOnce && !(mayWait && s.refusal(&c.excluded, c.pool.Queue.Len()) == nil) {
		return false
	}
	if c.refuseUntranslatable() != nil {
		return false
	}
	return !c.limited || c.limits.move(c.pool, c.caller.Addr, s.now)
}

// wouldWait tells whether the request would wait for a slot.
func (c *choice) wouldWait() bool {
	return len(c.survey().ready) == 0 || !c.pool.Queue.Quiet()
}

// refusalReason returns for which reason a request was refused before it was sent, if a
// fallback can help.
func refusalReason(err error) (naming.Reason, bool) {
	if err == nil {
		return naming.Overloaded, true
	}
	var known *schema.Error
	if !errors.As(err, &known) {
		return 0, false
	}
	switch known.Code {
	case schema.CodeServiceUnavailable, schema.CodeCircuitBreakerOpen:
		return naming.Unavailable, true
	case schema.CodeNoSlot, schema.CodeRateLimitExceeded:
		return naming.Overloaded, true
	}
	return 0, false
}

// reason returns why an attempt failed, if a fallback can help.
func (f *fault) reason() (naming.Reason, bool) {
	switch {
	case f.tooLong:
		return naming.Context, true
	case !f.failover:
		return 0, false
	case f.outcome == breaker.Cancelled:
		return naming.Overloaded, true
	}
	return naming.Unavailable, true
}
