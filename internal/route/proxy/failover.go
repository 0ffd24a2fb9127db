package proxy

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/reply"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
)

// savedChoice holds the current model of a request, to undo a move to another one.
type savedChoice struct {
	// fallback is the model that took over, empty where none did.
	fallback string
	pool     *routing.Pool
	// reason is the reason of the exclusions.
	reason     *schema.Error
	calledHere int
}

func (c *choice) save() savedChoice {
	return savedChoice{c.fallback, c.pool, c.excluded.Reason, c.calledHere}
}

func (c *choice) restore(s savedChoice) {
	c.fallback, c.excluded.Reason, c.calledHere = s.fallback, s.reason, s.calledHere
	c.use(s.pool)
}

// fallBack moves a request that has not been sent to any instance to the next model that
// may take over from the one that it is at, because of an error; nil means that the
// request would wait for a slot. A model that can take the request at once goes first; a
// model with a wait is taken only if the request cannot wait where it is.
func (c *choice) fallBack(because error) bool {
	why, known := survey.RefusalReason(because)
	left := c.Model
	if !known || !c.moveOn(why, false, nil) && (because == nil || !c.moveOn(why, true, nil)) {
		return false
	}
	var refusal *schema.Error
	if c.Record.Left == "" && errors.As(because, &refusal) && refusal.Code == schema.CodeCircuitBreakerOpen {
		c.Record.Left = left
	}
	return true
}

// fallBackAfter moves a request after a failed attempt to the next model that may take
// over and has an instance for it, and begins an attempt there. The retry budget decides
// as it does for another instance of the same model; but a request that is too long says
// nothing about the state of a backend.
func (c *choice) fallBackAfter(failed *reply.Fault, a *attempt) bool {
	why, known := failed.Reason()
	return known && c.moveOn(why, false, func() bool {
		if why == naming.Context && !c.acquire(a) || why != naming.Context && !c.acquireAnother(a) {
			return false
		}
		return c.reserveResumed(a)
	})
}

// moveOn moves the request to the first fallback for a reason that was not tried yet and can
// take it, and acquires an instance there where acquires is given.
func (c *choice) moveOn(why naming.Reason, mayWait bool, acquires func() bool) bool {
	before := c.save()
	list := c.table.Service(c.Asks.Service).Fallbacks(string(c.Asks.Model), why)
	for n := c.nextFallback; n < len(list); n++ {
		move, ok := c.moveTo(list[n], mayWait)
		if ok && (acquires == nil || acquires()) {
			move.Keep(time.Now())
			c.nextFallback = n + 1
			c.Record.Fallbacks++
			c.proxy.recorder.Registry().FellBack(c.Record.Service, why)
			return true
		}
		move.Undo(time.Now())
		c.restore(before)
	}
	return false
}

// mayFallBack reports whether the model that the caller asked for has fallbacks.
func (c *choice) mayFallBack() bool { return c.fallback != "" || c.pool.HasFallbacks }

// hasMoreFallbacks reports whether another model may yet take over.
func (c *choice) hasMoreFallbacks() bool {
	return c.mayFallBack() && len(c.table.Service(c.Asks.Service).Takeovers(string(c.Asks.Model))) > c.nextFallback
}

// moveTo moves the request to a model if the caller may use it, an instance can take the
// request at once, or later if the request may wait, its limit allows it, and it costs no
// more than was reserved. The caller of moveTo ends the move, and restores the saved choice
// if there was none.
func (c *choice) moveTo(to routing.Fallback, mayWait bool) (move account.Move, ok bool) {
	if !c.MayUse(to) {
		return move, false
	}
	c.fallback, c.excluded.Reason, c.calledHere = to.Model, nil, 0
	if c.refreshPool() != nil || !c.Allows(c.pool) {
		return move, false
	}
	s := c.survey()
	atOnce := len(s.Ready) > 0 && c.pool.Queue.Quiet()
	if !atOnce && !(mayWait && s.Refusal(c.pool.IsFull(c.Class, c.Caller.Key)) == nil) {
		return move, false
	}
	if c.refuseUntranslatable() != nil {
		return move, false
	}
	return c.Move(c.pool, s.Now)
}

// wouldWait reports whether the request would wait for a slot. For the class Spare it is
// false: such a request is meant to wait.
func (c *choice) wouldWait() bool {
	if c.isSpare() {
		return false
	}
	return len(c.survey().Ready) == 0 || !c.pool.Queue.Quiet()
}

const (
	// retryPart bounds retries at instances that have failed recently: at most one in
	// retryPart requests in flight may be one. An outage must not double the load on
	// the other instances.
	retryPart = 5
	// retryFloor retries at a time are always allowed: a gateway with little traffic
	// can fail over, too.
	retryFloor = 3
	// retryCost is how many requests must have arrived for each retry beyond the
	// floor. The share alone does not bound the load: the faster retries fail, the
	// more of them fit into it.
	retryCost = 6
	// maxCredit is how many retries a time without failures can save up for the moment
	// when an instance goes away, and how far charge can overdraw.
	maxCredit = 20
)

// retryBudget keeps the retries of a service type in proportion to its traffic.
type retryBudget struct {
	inFlight atomic.Int64
	retries  atomic.Int64
	credit   atomic.Int64 // every request adds 1, every retry takes retryCost
	_        [40]byte     // keeps two budgets out of the same cache line
}

// enter counts a request that begins.
func (b *retryBudget) enter() {
	b.inFlight.Add(1)
	if b.credit.Load() < retryCost*maxCredit { // a race exceeds the bound by little
		b.credit.Add(1)
	}
}

// leave counts a request that ends.
func (b *retryBudget) leave() { b.inFlight.Add(-1) }

// beginRetry reports whether a request may be retried. If so, endRetry must follow.
func (b *retryBudget) beginRetry() bool {
	running := b.retries.Add(1)
	if running <= retryFloor {
		b.spend() // the retry is allowed even without credit
		return true
	}
	if running <= b.inFlight.Load()/retryPart && b.spend() {
		return true
	}
	b.retries.Add(-1)
	return false
}

// charge takes the cost of a retry that is made in any case, even if the credit
// becomes negative. At the beginning of an outage all instances still seem to be well;
// later retries make up for that.
func (b *retryBudget) charge() {
	if b.credit.Load() > -retryCost*maxCredit { // a race exceeds the bound by little
		b.credit.Add(-retryCost)
	}
}

// spend takes the cost of a retry if there is enough credit.
func (b *retryBudget) spend() bool {
	for {
		credit := b.credit.Load()
		if credit < retryCost {
			return false
		}
		if b.credit.CompareAndSwap(credit, credit-retryCost) {
			return true
		}
	}
}

// endRetry ends a retry that beginRetry allowed.
func (b *retryBudget) endRetry() { b.retries.Add(-1) }
