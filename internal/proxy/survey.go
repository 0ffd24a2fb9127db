package proxy

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// survey is the state of a pool at one moment: which instances may be picked, and why
// the others may not. Routing, waiting, refusals and explanations all read a survey,
// so that they cannot disagree. A survey can be taken again, to reuse its memory.
type survey struct {
	pool *routing.Pool
	now  time.Time
	// ready are the instances that may be picked, in the order of their positions, and
	// obstacles has what keeps each instance of the pool from being picked, by
	// Instance.Position. Both may belong to the pool: keep changes them.
	ready     []*backend.Instance
	obstacles []backend.Obstacle
	// shortestObstacle is the least lasting obstacle among the instances that are not
	// excluded, because that is what to wait for. It is NoObstacle if and only if
	// an instance is ready, or would be if it were well (see exclusions.onlyWell).
	shortestObstacle backend.Obstacle
	// avoided are instances without an obstacle that are not picked because others
	// are in a better state.
	avoided []*backend.Instance

	// found and reasons are memory for ready and obstacles, and standby for the
	// instances that are kept for later.
	found   []*backend.Instance
	standby []*backend.Instance
	reasons []backend.Obstacle
}

// take surveys a pool. While all eligible instances are known to be ready, it asks none
// of them.
func (s *survey) take(pool *routing.Pool, excluded *exclusions, now time.Time) {
	if excluded.none() && pool.AllReady() {
		s.pool, s.now = pool, now
		s.found, s.avoided, s.reasons = s.found[:0], s.avoided[:0], s.reasons[:0]
		s.ready, s.obstacles, s.shortestObstacle = pool.Eligible, pool.Barriers, backend.NoObstacle
		return
	}
	s.askAll(pool, excluded, now)
}

// askAll surveys a pool and asks every instance. An instance that is avoided, because
// nothing listened at its address or because it said that it is overloaded, is ready only
// where no other instance is ready or busy. Of the instances without an obstacle only
// those of the lowest tier are ready.
func (s *survey) askAll(pool *routing.Pool, excluded *exclusions, now time.Time) {
	s.pool, s.now = pool, now
	s.found, s.avoided, s.reasons = s.found[:0], s.avoided[:0], s.reasons[:0]
	changes, steady := pool.Service.Changes.Count(), excluded.none()
	shortestObstacle, ofAvoided := backend.Disabled, backend.Disabled
	for n, i := range pool.Instances {
		o := i.Obstacle(now)
		s.reasons = append(s.reasons, o)
		if barrier := pool.Barriers[n]; barrier != backend.Standby {
			steady = steady && o == barrier && (o != backend.NoObstacle || i.Steady(now))
		}
		wanted := o == backend.NoObstacle && (!excluded.onlyWell || i.Well())
		switch {
		case excluded.has(i):
		case i.Avoided(now):
			ofAvoided = ofAvoided.Shorter(o)
			if wanted {
				s.avoided = append(s.avoided, i)
			}
		default:
			shortestObstacle = shortestObstacle.Shorter(o)
			if wanted {
				s.found = append(s.found, i)
			}
		}
	}
	if shortestObstacle.Busy() {
		for _, i := range s.avoided {
			s.reasons[i.Position] = backend.Unhealthy
		}
	} else {
		shortestObstacle = shortestObstacle.Shorter(ofAvoided)
		s.found, s.avoided = s.avoided, s.found
	}
	if pool.Tiered {
		s.keepLowestTier()
	}
	s.ready, s.obstacles, s.shortestObstacle = s.found, s.reasons, shortestObstacle
	if steady && len(s.ready) > 0 {
		pool.FoundAllReady(changes)
	}
}

// keepLowestTier leaves only the instances of the lowest tier among those that were
// found ready. So a tier that is down or full passes its requests on to the next one
// before any of them waits.
func (s *survey) keepLowestTier() {
	var standby []*backend.Instance
	s.found, standby = routing.LowestTier(s.found, s.standby[:0])
	for _, i := range standby {
		s.reasons[i.Position] = backend.Standby
	}
	s.standby = standby
}

// keep leaves only the ready instances that are wanted.
func (s *survey) keep(wanted func(*backend.Instance) bool) {
	kept := s.found[:0]
	for _, i := range s.ready {
		if wanted(i) {
			kept = append(kept, i)
		}
	}
	s.found, s.ready = kept, kept
}

// mayComeFree tells whether an instance takes a request now, or as soon as one of
// its slots is free.
func (s *survey) mayComeFree() bool {
	return s.shortestObstacle == backend.NoObstacle || s.shortestObstacle == backend.NoSlot
}

// refusal returns the error with which a request to the pool is refused at once while
// waiting others are in its queue, or nil if the request gets an instance or a place in
// the queue.
func (s *survey) refusal(excluded *exclusions, waiting int) *schema.Error {
	switch {
	case !s.mayComeFree():
		return s.unavailable(excluded)
	case (s.shortestObstacle == backend.NoSlot || waiting > 0) && waiting >= s.pool.Service.Policy.Queue.Size:
		return noSlot(s.pool)
	}
	return nil
}

// reset clears the survey and keeps its memory.
func (s *survey) reset() {
	clear(s.found[:cap(s.found)])
	clear(s.avoided[:cap(s.avoided)])
	clear(s.standby[:cap(s.standby)])
	*s = survey{found: s.found[:0], avoided: s.avoided[:0], standby: s.standby[:0], reasons: s.reasons[:0]}
}

// exclusions are the instances that a request must not be given.
type exclusions struct {
	// called are those that were called already.
	called []*backend.Instance
	// untranslatable are those whose dialects cannot express the request, and
	// reason says why the first of them cannot.
	untranslatable []*backend.Instance
	reason         *schema.Error
	// onlyWell tells that only instances are picked that have not failed recently,
	// although the others count for what the request could wait for.
	onlyWell bool
}

func (e *exclusions) none() bool {
	return len(e.called) == 0 && len(e.untranslatable) == 0 && !e.onlyWell
}

func (e *exclusions) has(i *backend.Instance) bool {
	return contains(e.called, i) || contains(e.untranslatable, i)
}

// contains tells whether an instance is in a list. It compares the states, which stay
// the same when an edit of the configuration replaces the instances.
func contains(list []*backend.Instance, i *backend.Instance) bool {
	for _, other := range list {
		if other.State == i.State {
			return true
		}
	}
	return false
}

// reset clears the lists and keeps their memory.
func (e *exclusions) reset() {
	clear(e.called)
	clear(e.untranslatable)
	*e = exclusions{called: e.called[:0], untranslatable: e.untranslatable[:0]}
}
