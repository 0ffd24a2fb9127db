package proxy

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
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
				return nil
			}
		}
		worst := r.obstacle(now)
		if worst != backend.NoSlot && worst != backend.NoObstacle {
			return unavailable(r.pool, now)
		}
		settings := r.pool.Service.Policy.Queue
		if settings.Size == 0 || r.Attempts > 0 {
			return noSlot(r.pool, time.Second)
		}
		if deadline.IsZero() {
			deadline = now.Add(settings.Timeout.Std())
		}
		err := r.pool.Queue.Wait(ctx, r.caller.Key(), settings, deadline, again)
		switch {
		case errors.Is(err, queue.ErrFull), errors.Is(err, queue.ErrTimeout):
			return noSlot(r.pool, time.Second)
		case err != nil:
			return err
		}
		again = true
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
