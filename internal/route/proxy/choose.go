package proxy

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/route/balance"
	"github.com/patchbay-ai/patchbay/internal/route/plan"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// choice finds an instance for a request and acquires it.
type choice struct {
	*request
	table    *routing.Table
	pool     *routing.Pool
	excluded survey.Exclusions
	last     survey.Survey
	stale    bool // the pool or its instances have changed since the last survey
	// translates is the last instance with a dialect that was found able to express the
	// request.
	translates *backend.Instance
	retrying   bool // the request holds a place in the retry budget
	// fallback is the model that took over from the one that the caller asked for, empty
	// where none did, and nextFallback the index of the first one that was not tried yet.
	fallback     string
	nextFallback int
	window       window
	// calledHere counts the attempts at instances of the model, and reached the attempts
	// at all models that reached an instance.
	calledHere, reached int
}

// refreshPool takes the pool of the model from the table that is in force now. It is
// called after every wait and before every further attempt: the request sees new
// instances and new limits and does not go to an instance that was removed.
func (c *choice) refreshPool() error {
	c.table = c.proxy.current.Load()
	service := c.table.Service(c.Asks.Service)
	var pool *routing.Pool
	if c.fallback == "" {
		pool = service.FindBytes(c.Asks.Model)
	} else {
		pool = service.Find(c.fallback)
	}
	if pool == nil {
		return c.unknownModel()
	}
	c.use(pool)
	return nil
}

// use makes a pool the one that serves the request.
func (c *choice) use(pool *routing.Pool) {
	c.pool, c.stale = pool, true
	c.excludeForbidden()
	c.excludeNarrow()
	c.ServeBy(pool)
}

// excludeForbidden excludes the instances that the caller's key may not use.
func (c *choice) excludeForbidden() {
	if c.pool == nil || !c.Caller.Grant.IsPlaced() {
		return
	}
	c.excluded.Forbid(c.pool, c.Caller.Grant.MayCall)
}

func (c *choice) unknownModel() *schema.Error {
	return account.UnknownModel(c.table, c.Asks.Service, string(c.Asks.Model), c.Caller.Grant)
}

// survey returns a survey of the pool: the last one unless it is stale.
func (c *choice) survey() *survey.Survey {
	if c.stale {
		c.stale = false
		c.last.Take(c.pool, &c.excluded, time.Now())
	}
	return &c.last
}

// start begins with the pool of a request that was admitted. It returns an error unless an
// instance can take the request now or soon and a dialect can express it. A fallback takes
// over from a model that cannot take the request now.
func (c *choice) start(ctx context.Context) error {
	c.table = c.Table
	if c.Pool != nil {
		c.use(c.Pool)
	} else if unknown := c.unknownModel(); !c.fallBack(unknown) {
		return unknown
	}
	c.countPrompt(ctx)
	err := c.refuse()
	if c.mayFallBack() && (err != nil || c.wouldWait()) && c.fallBack(err) {
		return nil
	}
	if err != nil && c.fallback == "" {
		err = c.waitForLarger(err)
	}
	if err == nil && c.fallback == "" {
		err = c.RefuseAsked()
	}
	return err
}

// refuse returns an error if no instance can take the request now or soon, or if no dialect
// can express it.
func (c *choice) refuse() error {
	if err := c.refuseAtOnce(); err != nil {
		return err
	}
	return c.refuseUntranslatable()
}

// refuseAtOnce returns an error if no instance can take the request now or soon.
func (c *choice) refuseAtOnce() error {
	err := c.survey().Refusal(c.pool.IsFull(c.Class, c.Caller.Key))
	switch {
	case err == nil:
		return nil
	case err.Code != schema.CodeNoSlot:
	case c.pool.Service.Policy.Queue.Size > 0:
		c.shedFromQueue(metrics.ShedQueueFull, c.pool.Outlook(c.Caller.Key(), c.Class))
	default:
		c.shed(metrics.ShedNoSlot)
	}
	return err
}

// refuseUntranslatable returns an error if no instance that could take the request has
// a dialect that can express it. It is cheap: it reads only the fields of the request
// and writes no call.
func (c *choice) refuseUntranslatable() error {
	for ready := c.survey().Ready; len(ready) > 0; ready = c.survey().Ready {
		likely := ready[0] // also where the strategy picks at random
		if len(c.pool.Instances) > 1 {
			likely = cmp.Or(c.pool.Balancer.Peek(ready, balance.Asked{Client: c.Caller.Addr}), likely)
		}
		if c.canTranslate(likely) {
			return nil
		}
	}
	// No ready instance can express the request. Another one may be worth waiting for.
	for _, i := range c.pool.Instances {
		if c.excluded.Has(i) || !i.Settings.Enabled || i.Share == 0 {
			continue
		}
		if c.canTranslate(i) && c.excluded.Reason == nil {
			return nil
		}
	}
	return c.refuseAtOnce()
}

// canTranslate reports whether the dialect of an instance can express the request,
// as far as its fields tell. It excludes the instance if it cannot.
func (c *choice) canTranslate(i *backend.Instance) bool {
	if c.translates == i || c.onlyLoads() {
		return true
	}
	if c.isSpare() && i.Settings.NeedsCaller() { // a batch keeps no credential of its owner
		c.exclude(i, schema.BadField("model", "call.batch_credential"))
		return false
	}
	if c.Client != nil && c.Client.RefuseInstance != nil {
		if err := c.Client.RefuseInstance(i.ID); err != nil {
			c.exclude(i, err)
			return false
		}
	}
	if err := i.Target.RefuseRequest(c.Asks, c.Client); err != nil {
		c.exclude(i, err)
		return false
	}
	if c.resumed != nil {
		if err := c.resumed.refuse(c.request, i); err != nil {
			c.exclude(i, err)
			return false
		}
	}
	c.translates = i
	return true
}

// exclude notes that the dialect of an instance cannot express the request, and why.
func (c *choice) exclude(i *backend.Instance, err error) {
	c.excluded.Untranslatable = append(c.excluded.Untranslatable, i)
	if c.excluded.Reason == nil {
		c.excluded.Reason = survey.TranslationError(err)
	}
	c.last.Keep(func(r *backend.Instance) bool { return r != i })
	c.stale = c.stale || len(c.last.Ready) == 0
}

// pick acquires an instance for the first attempt. While all slots are taken it
// waits in the pool's queue; a request of the class Spare is refused, and waits in AwaitSpareSlot.
func (c *choice) pick(ctx context.Context, a *attempt) error {
	// A request that arrives while others wait must not overtake them.
	if c.isNext() && c.acquire(a) {
		return nil
	}
	switch {
	case !c.survey().MayComeFree():
		return c.survey().Unavailable()
	case c.isSpare(), c.pool.Service.Policy.Queue.Size == 0:
		c.shed(metrics.ShedNoSlot)
		return survey.NoSlot(c.pool)
	}
	return c.wait(ctx, a)
}

// isNext reports whether no other request waits before the request. The survey of a request of the class
// Spare finds no slot that others wait for.
func (c *choice) isNext() bool { return c.isSpare() || c.pool.IsQuiet() }

// pickAnother acquires an instance that was not called yet, for one more attempt. It
// does not wait for a slot. An instance that is well gets the request in any case;
// one that has failed recently gets it only within the retry budget: retries must not
// make an outage worse.
func (c *choice) pickAnother(a *attempt) bool {
	return c.refreshPool() == nil && c.acquireAnother(a)
}

// acquireAnother is pickAnother in the pool as it was refreshed.
func (c *choice) acquireAnother(a *attempt) bool {
	// An instance that is well goes first, even before an instance of a lower tier that
	// has failed recently.
	c.excluded.OnlyWell, c.stale = true, true
	found := c.acquire(a)
	c.excluded.OnlyWell, c.stale = false, true
	if found {
		c.retryBudget().charge()
		return true
	}
	switch c.survey().Shortest {
	case backend.NoObstacle:
	case backend.NoSlot:
		c.shed(metrics.ShedNoSlot)
		return false
	default:
		return false
	}
	switch {
	case !c.retrying:
		c.retrying = c.retryBudget().beginRetry()
	case c.fallback != "":
		// The place in the budget is for the requested model. Each attempt at another one
		// costs as much.
		return c.retryBudget().spend() && c.acquire(a)
	}
	return c.retrying && c.acquire(a)
}

// endRetry gives back the place in the retry budget if the request holds one.
func (c *choice) endRetry() {
	if c.retrying {
		c.retrying = false
		c.retryBudget().endRetry()
	}
}

// acquire picks one of the instances that are ready, acquires it, and begins an attempt
// at it. Beginning writes the call, which takes time and memory, so it comes after the
// rate limits and after a slot is acquired. acquire returns false if no instance could be
// acquired.
func (c *choice) acquire(a *attempt) bool {
	for {
		s := c.survey()
		if len(s.Ready) == 0 {
			return false
		}
		i, followed := c.choose(s)
		if i == nil {
			continue
		}
		var ok bool
		if c.isSpare() {
			a.permit, ok = i.AcquireSpare(s.Now)
		} else {
			a.permit, ok = i.Acquire(s.Now)
		}
		c.stale = true // this request took a slot, or another one did
		if !ok {
			followed.Abort(s.Now)
			c.pool.ForgetAllReady()
			continue
		}
		a.permit.For(c.Caller.KeyID)
		if err := a.begin(i, followed, s.Now); err != nil {
			c.pool.Wake()
			c.exclude(i, err)
			continue
		}
		c.noteFailover()
		return true
	}
}

// returnUnused gives back the instance that was acquired and is not called after all.
func (c *choice) returnUnused(a *attempt) {
	a.returnUnused()
	c.pool.Wake()
}

// choose picks a ready instance with a dialect that can express the request, and returns the
// call to it in the picture of the fleet if the strategy has one. It returns no instance
// where it excluded one.
func (c *choice) choose(s *survey.Survey) (*backend.Instance, *fleet.Call) {
	asked := balance.Asked{Client: c.Caller.Addr, Request: c.Asks, Header: c.Caller.Header, Now: s.Now}
	ready := plan.Preferred(c.pool, s.Ready, c.pool.Soonest != nil, c.isSecond, s.Now)
	if c.pool.Soonest == nil || c.Asks.Uncounted {
		i := ready[0]
		if len(c.pool.Instances) > 1 {
			i = c.pool.Balancer.Pick(ready, asked)
		}
		if !c.canTranslate(i) {
			return nil, nil
		}
		return i, nil
	}
	if c.Client != nil && c.Client.RefuseInstance != nil {
		// One instance has the conversation: asking for each of the others would read the
		// prompt each time.
		for _, i := range s.Ready {
			if !c.canTranslate(i) {
				return nil, nil
			}
		}
	}
	asked.Recalled = c.Recalled()
	if c.resumed != nil {
		asked.Begun = c.resumed.begun
	}
	asked.Scope = c.pool.Service.Policy.PromptSharing.Scope(c.Caller.Tenant, c.Caller.KeyID)
	if asked.Goal = c.pool.Service.Policy.LeastTimeTo; asked.Goal == balance.ToAnswer {
		asked.Caller = c.Caller.Key()
	}
	i, followed := c.pool.Soonest.Begin(ready, asked)
	canTranslate := false
	defer func() {
		if !canTranslate { // also after a panic: a call that never ends looks like an engine that hangs
			followed.Abort(s.Now)
		}
	}()
	if canTranslate = c.canTranslate(i); !canTranslate {
		return nil, nil
	}
	return i, followed
}

// noteCall notes that an instance is called. It is not called again.
func (c *choice) noteCall(i *backend.Instance) {
	c.excluded.Called = append(c.excluded.Called, i)
	c.calledHere++
	c.reached++
}

// isLastAttempt reports whether the request has used up its attempts at instances
// of the model.
func (c *choice) isLastAttempt() bool { return c.calledHere >= c.table.Limits.MaxAttempts }

// reset clears the choice and keeps its memory for the next request.
func (c *choice) reset() {
	c.excluded.Reset()
	c.last.Reset()
	*c = choice{excluded: c.excluded, last: c.last}
}

// limitDecision returns the state of the limit that applies to the request: the limit
// of its service type or model, or else of the instance that was called. The time is
// zero where it is not known.
func (c *choice) limitDecision(called *backend.Instance, now time.Time) ratelimit.Decision {
	switch limit := c.Limit(); {
	case limit.Limited:
		return limit
	case called != nil:
		return called.Limit(now)
	}
	return account.PeekLimit(c.Table.Service(c.Record.Service), c.Asks.Model, c.Caller.Addr)
}

// wait waits in the queue of the pool for a slot, then acquires an instance.
func (c *choice) wait(ctx context.Context, a *attempt) error {
	began := time.Now()
	c.Hold()
	defer func() {
		now := time.Now()
		c.Record.Queued += now.Sub(began)
		c.Resume(now)
	}()
	turn := turn{queue: c.pool.Queue, due: c.isTurnDue, standing: queue.Standing{Class: c.Class}}
	if c.Target > 0 {
		turn.standing.Target = c.Record.Started.Add(c.Target)
	}
	defer turn.abandon()
	settings := c.pool.Service.Policy.Queue
	deadline := began.Add(settings.Timeout.Std())
	for {
		err := turn.wait(ctx, c.Caller.Key(), settings, deadline)
		switch {
		case errors.Is(err, queue.ErrFull):
			c.shedFromQueue(metrics.ShedQueueFull, c.pool.Outlook(c.Caller.Key(), c.Class))
			return survey.NoSlot(c.pool)
		case errors.Is(err, queue.ErrTimeout):
			c.shedFromQueue(metrics.ShedQueueTime, c.pool.Expect(turn.standing.Left()))
			return survey.NoSlot(c.pool)
		case err != nil:
			return err
		}
		if err := c.refreshPool(); err != nil {
			turn.end() // the next request in the queue finds the same
			return err
		}
		if c.acquire(a) {
			turn.end()
			return nil
		}
		if !c.survey().MayComeFree() {
			turn.end() // the next request in the queue finds the same
			return c.survey().Unavailable()
		}
		if c.excluded.Reason != nil {
			// A slot may be free at an instance that cannot express this request but can
			// express others. These go first.
			turn.end()
			turn.standing.Anew()
		}
	}
}

// isTurnDue reports whether the first request in the queue should look again: a slot
// may be free, or no slot will become free.
func (c *choice) isTurnDue() bool {
	return c.refreshPool() != nil || c.survey().Shortest != backend.NoSlot
}

// turn is the turn of a request in a queue.
type turn struct {
	queue    *queue.Queue
	due      func() bool
	standing queue.Standing
	has      bool
}

// wait waits for the turn. A request that already has a turn gives it back, and is the
// first in the queue.
func (t *turn) wait(ctx context.Context, caller string, settings queue.Settings, deadline time.Time) error {
	t.has = false
	err := t.queue.Wait(ctx, caller, &t.standing, settings, deadline, t.due)
	t.has = err == nil
	return err
}

// end ends the turn. The next request in the queue may have one.
func (t *turn) end() {
	t.has = false
	t.queue.Done(&t.standing, t.due)
}

// abandon ends the turn after a panic: the other requests must not wait for it.
func (t *turn) abandon() {
	if t.has {
		t.queue.Done(&t.standing, func() bool { return true })
	}
}
