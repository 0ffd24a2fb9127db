package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/queue"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// pick chooses and acquires an instance. While all slots are taken it waits in
// the pool's queue.
func (r *Reply) pick(ctx context.Context) error {
	// Who comes while others wait goes to the back.
	if r.pool.Queue.Quiet() && r.acquireReady(time.Now()) {
		return nil
	}
	now := time.Now()
	settings := r.pool.Service.Policy.Queue
	switch worst := r.obstacle(now); {
	case worst != backend.NoSlot && worst != backend.NoObstacle:
		return r.nobody(now)
	case settings.Size == 0:
		r.shed(metrics.ShedNoSlot)
		return noSlot(r.pool)
	}
	return r.wait(ctx, settings)
}

// another picks an instance that was not tried yet, for one more attempt. That
// does not wait: the request has been served already, badly. An instance that is
// well gets it in any case; one that failed itself only within the budget, so
// that an outage is not made worse.
func (r *Reply) another() bool {
	// The first attempt may have taken long: what was switched off or deleted
	// since then is not called any more.
	if !r.renew() {
		return false
	}
	now := time.Now()
	if r.acquire(now, (*backend.Instance).Well) {
		r.budget().owe()
		return true
	}
	switch r.obstacle(now) {
	case backend.NoObstacle:
	case backend.NoSlot:
		r.shed(metrics.ShedNoSlot)
		return false
	default:
		return false
	}
	if !r.retrying && !r.budget().mayRetry() {
		return false
	}
	r.retrying = true
	return r.acquireReady(now)
}

// endRetry gives the place in the budget back if one was taken.
func (r *Reply) endRetry() {
	if r.retrying {
		r.retrying = false
		r.budget().retried()
	}
}

// wait waits for a slot in the queue.
func (r *Reply) wait(ctx context.Context, settings queue.Settings) error {
	line := r.pool.Queue
	began := time.Now()
	for n := range r.spent {
		r.spent[n].Hold()
	}
	defer func() {
		now := time.Now()
		r.record.Queued += now.Sub(began)
		for n := range r.spent {
			r.spent[n].Use(now)
		}
	}()
	var standing queue.Standing
	hasTurn := false
	endTurn := func() {
		hasTurn = false
		line.Done(r.due)
	}
	defer func() {
		if hasTurn { // a panic must not keep everybody else waiting
			line.Done(func() bool { return true })
		}
	}()
	for {
		hasTurn = false // who waits again gives its turn back
		err := line.Wait(ctx, r.caller.Key(), &standing, settings, began.Add(settings.Timeout.Std()), r.due)
		switch {
		case errors.Is(err, queue.ErrFull):
			r.shed(metrics.ShedQueueFull)
			return noSlot(r.pool)
		case errors.Is(err, queue.ErrTimeout):
			r.shed(metrics.ShedQueueTime)
			return noSlot(r.pool)
		case err != nil:
			return err
		}
		hasTurn = true
		if !r.renew() {
			endTurn() // nor is anything left for the others
			return unknownModel(r.proxy.current.Load().Service(r.req.Service), r.req.Service, r.Model)
		}
		now := time.Now()
		if r.acquireReady(now) {
			endTurn()
			return nil
		}
		if worst := r.obstacle(now); worst != backend.NoSlot && worst != backend.NoObstacle {
			endTurn() // the others wait in vain, too
			return r.nobody(now)
		}
		if r.mistake != nil {
			// There may be room that is of use to everybody else: they go first.
			endTurn()
			standing = queue.Standing{}
		}
	}
}

// due tells whether one of those who wait should have a turn: there is a place,
// or there is nothing left to wait for.
func (r *Reply) due() bool {
	return !r.renew() || r.obstacle(time.Now()) != backend.NoSlot
}

// renew makes a request that waited follow the edits of that time: it must
// neither miss a new instance nor exceed a new bound nor go where nothing is to
// go any more. False means that nobody serves the model now.
func (r *Reply) renew() bool {
	pool := r.proxy.current.Load().Service(r.req.Service).Find(r.Model)
	if pool == nil {
		return false
	}
	r.pool = pool
	return true
}

// acquireReady picks among the instances that are ready now.
func (r *Reply) acquireReady(now time.Time) bool { return r.acquire(now, nil) }

// acquire picks among the instances that are ready now and, unless that is nil,
// such as wanted, and writes the call to it. Writing takes time and memory, so it
// is left until the limits let the request in and it has a slot.
func (r *Reply) acquire(now time.Time, wanted func(*backend.Instance) bool) bool {
	for {
		r.candidates = appendReady(r.candidates[:0], r.pool, r.tried, now)
		if wanted != nil {
			r.candidates = keep(r.candidates, wanted)
		}
		if len(r.candidates) == 0 {
			return false
		}
		instance := r.pool.Balancer.Pick(r.candidates, r.caller.Addr)
		if !r.canExpress(instance) {
			continue
		}
		if permit, ok := instance.Acquire(now); ok {
			failed := r.Instance
			r.Instance, r.permit, r.held = instance, permit, true
			r.record.Begin(instance.ID, instance.Kind.Name, now)
			if err := instance.Target.Speak.Call(r.req, instance.Target, &r.call); err != nil {
				r.giveBack(failed, err)
				continue
			}
			r.tried = append(r.tried, instance)
			r.noteFailover(failed)
			return true
		}
		// Somebody took its last place between the question and the answer; the
		// next look at the obstacles sees it.
		now = time.Now()
	}
}

// keep leaves those of a list that are wanted, in its own memory.
func keep(list []*backend.Instance, wanted func(*backend.Instance) bool) []*backend.Instance {
	kept := list[:0]
	for _, i := range list {
		if wanted(i) {
			kept = append(kept, i)
		}
	}
	return kept
}

// appendReady adds the instances of a pool that may be picked now. One that
// traffic found missing, or that said it has too much to do, is among them only
// where no other is well: then it is better than nothing.
func appendReady(to []*backend.Instance, pool *routing.Pool, tried []*backend.Instance, now time.Time) []*backend.Instance {
	well, avoided := false, false
	for _, i := range pool.Instances {
		switch {
		case isTried(tried, i):
		case i.Avoided(now):
			avoided = true
		default:
			o := i.Obstacle(now)
			well = well || o.Busy()
			if o == backend.NoObstacle {
				to = append(to, i)
			}
		}
	}
	if well || !avoided {
		return to
	}
	for _, i := range pool.Instances {
		if i.Avoided(now) && i.Obstacle(now) == backend.NoObstacle && !isTried(tried, i) {
			to = append(to, i)
		}
	}
	return to
}

// isTried tells whether an instance is one of those that were tried. An edit in
// the meantime leaves it the same backend.
func isTried(tried []*backend.Instance, i *backend.Instance) bool {
	for _, t := range tried {
		if t.State == i.State {
			return true
		}
	}
	return false
}

// obstacle returns what keeps the pool's untried instances from taking the
// request: the least lasting obstacle among them, because that is what to wait
// for.
func (r *Reply) obstacle(now time.Time) backend.Obstacle { return obstacle(r.pool, r.tried, now) }

// obstacle goes by the same rules as appendReady.
func obstacle(pool *routing.Pool, tried []*backend.Instance, now time.Time) backend.Obstacle {
	least, avoided := backend.Disabled, backend.Disabled
	for _, i := range pool.Instances {
		if isTried(tried, i) {
			continue
		}
		o := i.Obstacle(now)
		if i.Avoided(now) {
			avoided = avoided.Milder(o)
			continue
		}
		if o == backend.NoObstacle {
			return o
		}
		least = least.Milder(o)
	}
	if least.Busy() {
		return least
	}
	return least.Milder(avoided)
}

// refuseAtOnce turns a request away that no instance can take, now or soon.
func (r *Reply) refuseAtOnce(now time.Time) error {
	err := refusal(r.pool, r.tried, r.pool.Queue.Len(), now)
	switch {
	case err == nil:
		return nil
	case err.Code != schema.CodeNoSlot:
		return r.nobody(now)
	case r.pool.Service.Policy.Queue.Size > 0:
		r.shed(metrics.ShedQueueFull)
	default:
		r.shed(metrics.ShedNoSlot)
	}
	return err
}

// refusal says why a request to a pool is turned away at once; nil where it gets
// an instance that was not tried, or a place in the queue of which so many are
// taken.
func refusal(pool *routing.Pool, tried []*backend.Instance, waiting int, now time.Time) *schema.Error {
	worst := obstacle(pool, tried, now)
	switch {
	case worst != backend.NoObstacle && worst != backend.NoSlot:
		return unavailable(pool, tried, now)
	case (worst == backend.NoSlot || waiting > 0) && waiting >= pool.Service.Policy.Queue.Size:
		return noSlot(pool)
	}
	return nil
}
