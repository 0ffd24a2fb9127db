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
	price    *prices.Price
	// reason is that of the exclusions.
	reason     *schema.Error
	calledHere int
}

func (c *choice) save() savedChoice {
	return savedChoice{c.fallback, c.pool, c.Model, c.Price, c.excluded.reason, c.calledHere}
}

func (c *choice) restore(s savedChoice) {
	c.fallback, c.pool, c.Model, c.Price, c.excluded.reason = s.fallback, s.pool, s.model, s.price, s.reason
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
	return c.table.Service(c.Asks.Service).Fallbacks(string(c.Asks.Model), why)
}

// mayFallBack tells whether the model that the caller asked for has fallbacks.
func (c *choice) mayFallBack() bool { return c.fallback != "" || c.pool.HasFallbacks }

// hasMoreFallbacks tells whether another model may yet take over.
func (c *choice) hasMoreFallbacks() bool {
	return c.mayFallBack() && len(c.table.Service(c.Asks.Service).Takeovers(string(c.Asks.Model))) > c.nextFallback
}

// noteFallback notes that the model at an index of the fallbacks took over.
func (c *choice) noteFallback(n int, why naming.Reason) {
	c.nextFallback = n + 1
	c.Record.Fallbacks++
	c.proxy.recorder.FellBack(c.Record.Service, why)
}

// moveTo moves the request to a model if the caller may use it, an instance can take the
// request at once, or later if the request may wait, its limit allows it, and it costs no
// more than what was reserved. The caller of moveTo restores what was before if it did not.
func (c *choice) moveTo(to routing.Fallback, mayWait bool) bool {
	if !c.MayUse(to) {
		return false
	}
	c.fallback, c.excluded.reason, c.calledHere = to.Model, nil, 0
	if c.refreshPool() != nil || !c.Allows(c.pool.Price) {
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
	return c.Move(c.pool, s.now)
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
