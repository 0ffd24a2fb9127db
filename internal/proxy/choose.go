package proxy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// choice finds an instance for a request and acquires it.
type choice struct {
	*request
	table    *routing.Table
	pool     *routing.Pool
	limits   limits
	excluded exclusions
	last     survey
	outdated bool // the last survey does not show what has happened since
	// expresses is the instance that was last found able to express the request.
	expresses *backend.Instance
	retrying  bool // a place in the budget for second attempts is taken
}

// follow takes the pool of the model from the table that is in force now. A
// request reads the table nowhere else: at its beginning, after every wait and
// before every further attempt. One that took its time must neither miss a new
// instance nor exceed a new bound nor go to an instance that was removed.
func (c *choice) follow() error {
	c.table = c.proxy.current.Load()
	service := c.table.Service(c.req.Service)
	pool := service.FindBytes(c.req.Model)
	if pool == nil {
		return unknownModel(service, c.req.Service, string(c.req.Model))
	}
	c.model, c.pool, c.outdated = pool.Model, pool, true
	return nil
}

// survey returns the survey of the pool, from another look if the last one is
// outdated.
func (c *choice) survey() *survey {
	if c.outdated {
		c.outdated = false
		c.last.look(c.pool, &c.excluded, time.Now())
	}
	return &c.last
}

// admit lets a request in: an instance can take it now or soon, a dialect can
// express it, and it is within the limits. The limits come last, because a request
// that is refused for another reason costs nothing.
func (c *choice) admit() error {
	if err := c.refuseAtOnce(); err != nil {
		return err
	}
	if err := c.refuseInexpressible(); err != nil {
		return err
	}
	if err := c.limits.take(c.pool, c.caller.Addr, c.last.now); err != nil {
		return err
	}
	c.record.Limited = c.record.At(c.last.now)
	return nil
}

// refuseAtOnce turns a request away that no instance can take, now or soon.
func (c *choice) refuseAtOnce() error {
	err := c.survey().refusal(&c.excluded, c.pool.Queue.Len())
	switch {
	case err == nil:
		return nil
	case err.Code != schema.CodeNoSlot:
	case c.pool.Service.Policy.Queue.Size > 0:
		c.shed(metrics.ShedQueueFull)
	default:
		c.shed(metrics.ShedNoSlot)
	}
	return err
}

// refuseInexpressible turns a request away that none of the instances that would
// take it can express. It looks at nothing but the fields of the request.
func (c *choice) refuseInexpressible() error {
	for ready := c.survey().ready; len(ready) > 0; ready = c.survey().ready {
		likely := c.pool.Balancer.Peek(ready, c.caller.Addr)
		if likely == nil { // only chance knows
			likely = ready[0]
		}
		if c.canExpress(likely) {
			return nil
		}
	}
	// Those that are not ready decide whether there is something to wait for.
	for _, i := range c.pool.Instances {
		if c.excluded.has(i) || !i.Settings.Enabled || i.Share == 0 {
			continue
		}
		if c.canExpress(i) && c.excluded.reason == nil {
			return nil
		}
	}
	return c.refuseAtOnce()
}

// canExpress asks whether the dialect of an instance can express the request, as
// far as its fields tell. An instance whose dialect cannot is excluded.
func (c *choice) canExpress(i *backend.Instance) bool {
	if c.expresses == i {
		return true
	}
	if err := i.Target.Refuse(c.req); err != nil {
		c.exclude(i, err)
		return false
	}
	c.expresses = i
	return true
}

// exclude notes that an instance cannot be given the request, and why.
func (c *choice) exclude(i *backend.Instance, err error) {
	c.excluded.inexpressible = append(c.excluded.inexpressible, i)
	if c.excluded.reason == nil {
		c.excluded.reason = untranslatable(err)
	}
	c.last.ready = slices.DeleteFunc(c.last.ready, func(r *backend.Instance) bool { return r == i })
	c.outdated = c.outdated || len(c.last.ready) == 0
}

// pick acquires an instance for the first attempt. While all slots are taken it
// waits in the pool's queue.
func (c *choice) pick(ctx context.Context, a *attempt) error {
	// A request that comes while others wait goes to the back of the queue.
	if c.pool.Queue.Quiet() && c.acquire(a, nil) {
		return nil
	}
	switch {
	case !c.survey().mayComeFree():
		return c.survey().unavailable(&c.excluded)
	case c.pool.Service.Policy.Queue.Size == 0:
		c.shed(metrics.ShedNoSlot)
		return noSlot(c.pool)
	}
	return c.wait(ctx, a)
}

// pickAnother acquires an instance that was not called yet, for one more attempt.
// It does not wait: the request has had its turn. An instance that is well gets
// the request in any case; one that failed itself only within the budget, so that
// an outage is not made worse.
func (c *choice) pickAnother(a *attempt) bool {
	if c.follow() != nil {
		return false
	}
	if c.acquire(a, (*backend.Instance).Well) {
		c.budget().owe()
		return true
	}
	c.outdated = true // only those that are well were left in it
	switch c.survey().mildest {
	case backend.NoObstacle:
	case backend.NoSlot:
		c.shed(metrics.ShedNoSlot)
		return false
	default:
		return false
	}
	if !c.retrying && !c.budget().mayRetry() {
		return false
	}
	c.retrying = true
	return c.acquire(a, nil)
}

// endRetry gives the place in the budget back if one was taken.
func (c *choice) endRetry() {
	if c.retrying {
		c.retrying = false
		c.budget().retried()
	}
}

// acquire picks one of the instances that are ready and, unless that is nil, such
// as wanted, acquires it and writes the call to it. Writing takes time and memory,
// so that it comes after the limits and with a slot in hand.
func (c *choice) acquire(a *attempt, wanted func(*backend.Instance) bool) bool {
	for {
		s := c.survey()
		if wanted != nil {
			s.ready = slices.DeleteFunc(s.ready, func(i *backend.Instance) bool { return !wanted(i) })
		}
		if len(s.ready) == 0 {
			return false
		}
		i := c.pool.Balancer.Pick(s.ready, c.caller.Addr)
		if !c.canExpress(i) {
			continue
		}
		permit, ok := i.Acquire(s.now)
		c.outdated = true // by this request, or by the one that was faster
		if !ok {
			continue
		}
		if err := a.begin(i, permit, s.now); err != nil {
			c.pool.Queue.Wake()
			c.exclude(i, err)
			continue
		}
		c.noteFailover()
		return true
	}
}

// noteCall notes that an instance is called, so that it is not called again.
func (c *choice) noteCall(i *backend.Instance) { c.excluded.called = append(c.excluded.called, i) }

// isLastAttempt tells whether the request has used up its attempts.
func (c *choice) isLastAttempt() bool {
	return len(c.excluded.called) >= c.table.Limits.MaxAttempts
}

// untranslatable returns what the caller is told where a dialect cannot express
// the request, or where there is no memory for expressing it.
func untranslatable(err error) *schema.Error {
	var known *schema.Error
	if errors.As(err, &known) {
		return known
	}
	return apiError(schema.CodeInternal, "The gateway could not write the request for the backend.")
}

// reset forgets everything but the memory.
func (c *choice) reset() {
	c.excluded.reset()
	c.last.reset()
	*c = choice{excluded: c.excluded, last: c.last}
}
