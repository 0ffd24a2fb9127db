package proxy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/queue"
	"github.com/patchbay-ai/patchbay/internal/routing"
)

// pick chooses and acquires an instance that was not tried yet. While all slots
// are taken it waits in the pool's queue.
func (r *Reply) pick(ctx context.Context) error {
	var deadline time.Time
	again := false // it had its turn and found nothing
	for {
		now := time.Now()
		// Who comes while others wait goes to the back, unless it is its turn.
		if again || r.Attempts > 0 || r.pool.Queue.Len() == 0 {
			if r.acquireReady(now) {
				if again && r.due() {
					r.pool.Queue.Wake() // there is more room than one turn was given for
				}
				return nil
			}
		}
		worst := r.obstacle(now)
		if worst != backend.NoSlot && worst != backend.NoObstacle {
			if again {
				r.pool.Queue.Wake() // the others wait in vain, too
			}
			return unavailable(r.pool, now)
		}
		settings := r.pool.Service.Policy.Queue
		if settings.Size == 0 || r.Attempts > 0 {
			r.shed(metrics.ShedNoSlot)
			return noSlot(r.pool, time.Second)
		}
		if deadline.IsZero() {
			deadline = now.Add(settings.Timeout.Std())
		}
		err := r.pool.Queue.Wait(ctx, r.caller.Key(), settings, deadline, again, r.due)
		r.record.Queued += time.Since(now)
		switch {
		case errors.Is(err, queue.ErrFull):
			r.shed(metrics.ShedQueueFull)
			return noSlot(r.pool, time.Second)
		case errors.Is(err, queue.ErrTimeout):
			r.shed(metrics.ShedQueueTime)
			return noSlot(r.pool, time.Second)
		case err != nil:
			return err
		}
		again = true
		r.renew()
	}
}

// due tells whether one of those who wait should have a turn: there is a place,
// or there is nothing left to wait for.
func (r *Reply) due() bool {
	r.renew()
	return r.obstacle(time.Now()) != backend.NoSlot
}

// renew makes a request that waited follow the edits of that time: who waits for
// a slot must neither miss a new instance nor exceed a new bound. A pool that is
// gone stays as it was.
func (r *Reply) renew() {
	if pool := r.proxy.current.Load().Service(r.req.Service).Find(r.Model); pool != nil {
		r.pool = pool
	}
}

// acquireReady picks among the instances that are ready now.
func (r *Reply) acquireReady(now time.Time) bool {
	for {
		r.candidates = appendReady(r.candidates[:0], r.pool, r.tried, now)
		if len(r.candidates) == 0 {
			return false
		}
		instance := r.pool.Balancer.Pick(r.candidates, r.caller.Addr)
		if permit, ok := instance.Acquire(now); ok {
			r.tried = append(r.tried, instance)
			r.notePick(instance, now)
			r.Instance, r.permit, r.held = instance, permit, true
			return true
		}
		// Somebody took its last place between the question and the answer; the
		// next look at the obstacles sees it.
		now = time.Now()
	}
}

// appendReady adds the instances of a pool that may be picked now.
func appendReady(to []*backend.Instance, pool *routing.Pool, tried []*backend.Instance, now time.Time) []*backend.Instance {
	for _, i := range pool.Instances {
		if i.Obstacle(now) == backend.NoObstacle && !slices.Contains(tried, i) {
			to = append(to, i)
		}
	}
	return to
}

// obstacle returns what keeps the pool's untried instances from taking the
// request: the least lasting obstacle among them, because that is what to wait
// for.
func (r *Reply) obstacle(now time.Time) backend.Obstacle { return obstacle(r.pool, r.tried, now) }

func obstacle(pool *routing.Pool, tried []*backend.Instance, now time.Time) backend.Obstacle {
	least := backend.Disabled
	for _, i := range pool.Instances {
		if slices.Contains(tried, i) {
			continue
		}
		o := i.Obstacle(now)
		if o == backend.NoObstacle {
			return o
		}
		least = max(least, o)
	}
	return least
}

// refuseAtOnce turns a request away that no instance can take, now or soon.
func (r *Reply) refuseAtOnce(now time.Time) error {
	switch r.obstacle(now) {
	case backend.NoObstacle, backend.NoSlot:
		return nil
	}
	return unavailable(r.pool, now)
}
