package proxy

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// survey is one look at the instances of a pool: which of them may be picked, and
// what keeps the others. Routing, waiting, refusals and explanations all read a
// survey, so that they cannot disagree. Its memory is used for the next look.
type survey struct {
	pool *routing.Pool
	now  time.Time
	// ready are the instances that may be picked, in the order of their slots.
	ready []*backend.Instance
	// obstacles are what keeps each instance of the pool, by its slot.
	obstacles []backend.Obstacle
	// mildest is the least lasting obstacle among the instances that are not
	// excluded, because that is what to wait for. It is NoObstacle if and only if
	// an instance is ready.
	mildest backend.Obstacle
	// avoided are free, and passed over for others that are well.
	avoided []*backend.Instance
}

// look surveys a pool. An instance that is avoided, because nothing answered
// at its address or because it said that it is overloaded, is ready only where no
// other one is ready or busy: then it is better than nothing.
func (s *survey) look(pool *routing.Pool, excluded *exclusions, now time.Time) {
	s.pool, s.now = pool, now
	s.ready, s.avoided, s.obstacles = s.ready[:0], s.avoided[:0], s.obstacles[:0]
	mildest, ofAvoided := backend.Disabled, backend.Disabled
	for _, i := range pool.Instances {
		o := i.Obstacle(now)
		s.obstacles = append(s.obstacles, o)
		switch {
		case excluded.has(i):
		case i.Avoided(now):
			ofAvoided = ofAvoided.Milder(o)
			if o == backend.NoObstacle {
				s.avoided = append(s.avoided, i)
			}
		default:
			mildest = mildest.Milder(o)
			if o == backend.NoObstacle {
				s.ready = append(s.ready, i)
			}
		}
	}
	if mildest.Busy() {
		for _, i := range s.avoided {
			s.obstacles[i.Slot] = backend.Unhealthy
		}
	} else {
		mildest = mildest.Milder(ofAvoided)
		s.ready, s.avoided = s.avoided, s.ready
	}
	s.mildest = mildest
}

// mayComeFree tells whether an instance takes a request now, or as soon as one of
// its slots is free.
func (s *survey) mayComeFree() bool {
	return s.mildest == backend.NoObstacle || s.mildest == backend.NoSlot
}

// refusal returns why a request to the pool is turned away at once; nil where it
// gets an instance, or a place in the queue of which so many are taken.
func (s *survey) refusal(excluded *exclusions, waiting int) *schema.Error {
	switch {
	case !s.mayComeFree():
		return s.unavailable(excluded)
	case (s.mildest == backend.NoSlot || waiting > 0) && waiting >= s.pool.Service.Policy.Queue.Size:
		return noSlot(s.pool)
	}
	return nil
}

// reset forgets everything but the memory.
func (s *survey) reset() {
	clear(s.ready[:cap(s.ready)])
	clear(s.avoided[:cap(s.avoided)])
	*s = survey{ready: s.ready[:0], avoided: s.avoided[:0], obstacles: s.obstacles[:0]}
}

// exclusions are the instances that a request must not be given.
type exclusions struct {
	// called are those that were called already.
	called []*backend.Instance
	// inexpressible are those whose dialects cannot express the request, and
	// reason says why the first of them cannot.
	inexpressible []*backend.Instance
	reason        *schema.Error
}

func (e *exclusions) has(i *backend.Instance) bool {
	return contains(e.called, i) || contains(e.inexpressible, i)
}

// contains tells whether an instance is in a list. An edit in the meantime leaves
// it the same backend.
func contains(list []*backend.Instance, i *backend.Instance) bool {
	for _, other := range list {
		if other.State == i.State {
			return true
		}
	}
	return false
}

// reset forgets everything but the memory.
func (e *exclusions) reset() {
	clear(e.called)
	clear(e.inexpressible)
	*e = exclusions{called: e.called[:0], inexpressible: e.inexpressible[:0]}
}
