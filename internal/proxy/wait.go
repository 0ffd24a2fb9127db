package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/metrics"
	"github.com/patchbay-ai/patchbay/internal/queue"
)

// wait waits in the queue of the pool for a slot, then acquires an instance.
func (c *choice) wait(ctx context.Context, a *attempt) error {
	began := time.Now()
	c.Hold()
	defer func() {
		now := time.Now()
		c.Record.Queued += now.Sub(began)
		c.Resume(now)
	}()
	turn := turn{queue: c.pool.Queue, due: c.isTurnDue}
	defer turn.abandon()
	settings := c.pool.Service.Policy.Queue
	for {
		err := turn.wait(ctx, c.Caller.Key(), settings, began.Add(settings.Timeout.Std()))
		switch {
		case errors.Is(err, queue.ErrFull):
			c.shed(metrics.ShedQueueFull)
			return noSlot(c.pool)
		case errors.Is(err, queue.ErrTimeout):
			c.shed(metrics.ShedQueueTime)
			return noSlot(c.pool)
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
		if !c.survey().mayComeFree() {
			turn.end() // the next request in the queue finds the same
			return c.survey().unavailable(&c.excluded)
		}
		if c.excluded.reason != nil {
			// A slot may be free at an instance that cannot express this request but
			// can express others, so that they go first.
			turn.end()
			turn.standing = queue.Standing{}
		}
	}
}

// isTurnDue tells whether the first request in the queue should look again: a slot may
// be free, or no slot will become free.
func (c *choice) isTurnDue() bool {
	return c.refreshPool() != nil || c.survey().shortestObstacle != backend.NoSlot
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

// end ends the turn, so that the next request in the queue may have one.
func (t *turn) end() {
	t.has = false
	t.queue.Done(t.due)
}

// abandon ends the turn after a panic, so that the other requests do not wait for it.
func (t *turn) abandon() {
	if t.has {
		t.queue.Done(func() bool { return true })
	}
}
