// Package survey looks at the instances of a pool: which of them can take a request now, and
// why the others cannot. Routing, waiting, refusals and explanations all read a survey, so they
// cannot disagree.
package survey

import (
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/estimate"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// Survey is the state of a pool at one moment. It can be taken again, to reuse its memory.
type Survey struct {
	Now time.Time
	// Ready are the instances that may be picked, in the order of their positions, and
	// Obstacles has the obstacle of each instance of the pool, by Instance.Position.
	// Both may belong to the pool: Keep changes them.
	Ready     []*backend.Instance
	Obstacles []backend.Obstacle
	// Shortest is the least lasting obstacle among the instances that are not excluded. A
	// request waits for that. It is NoObstacle if and only if an instance is ready, or would be
	// if it were well (see Exclusions.OnlyWell).
	Shortest backend.Obstacle

	pool     *routing.Pool
	excluded *Exclusions
	// avoided are instances without an obstacle that are not picked because others
	// are in a better state.
	avoided []*backend.Instance
	// found and reasons are memory for Ready and Obstacles, and standby for the
	// instances that are kept for later.
	found   []*backend.Instance
	standby []*backend.Instance
	reasons []backend.Obstacle
}

// Take surveys a pool. While all eligible instances are known to be ready, it asks none
// of them.
func (s *Survey) Take(pool *routing.Pool, excluded *Exclusions, now time.Time) {
	if !excluded.none() || !pool.AllReady() {
		s.AskAll(pool, excluded, now)
		return
	}
	s.begin(pool, excluded, now)
	s.Ready, s.Obstacles, s.Shortest = pool.Eligible, pool.Barriers, backend.NoObstacle
}

func (s *Survey) begin(pool *routing.Pool, excluded *Exclusions, now time.Time) {
	s.pool, s.excluded, s.Now = pool, excluded, now
	s.found, s.avoided, s.reasons = s.found[:0], s.avoided[:0], s.reasons[:0]
}

// AskAll surveys a pool and asks every instance. An instance that is avoided, because
// nothing listened at its address or because it said that it is overloaded, is ready only
// where no other instance is ready or busy. Of the instances without an obstacle only
// those of the lowest tier are ready.
func (s *Survey) AskAll(pool *routing.Pool, excluded *Exclusions, now time.Time) {
	s.begin(pool, excluded, now)
	changes, steady := pool.Service.Changes.Count(), excluded.none()
	shortest, ofAvoided := backend.Disabled, backend.Disabled
	for n, i := range pool.Instances {
		o := excluded.obstacle(i, now)
		s.reasons = append(s.reasons, o)
		if barrier := pool.Barriers[n]; barrier != backend.Standby {
			steady = steady && o == barrier && (o != backend.NoObstacle || i.Steady(now))
		}
		if excluded.Has(i) {
			if Contains(excluded.Narrow, i) {
				s.reasons[n] = backend.Narrow
			}
			continue
		}
		least, list := &shortest, &s.found
		if i.Avoided(now) {
			least, list = &ofAvoided, &s.avoided
		}
		*least = least.Shorter(o)
		if o == backend.NoObstacle && (!excluded.OnlyWell || i.Well()) {
			*list = append(*list, i)
		}
	}
	if shortest.Busy() {
		for _, i := range s.avoided {
			s.reasons[i.Position] = backend.Unhealthy
		}
	} else {
		shortest = shortest.Shorter(ofAvoided)
		s.found, s.avoided = s.avoided, s.found
	}
	if excluded.Prompt.Likely > 0 {
		s.keepWidest()
	}
	if excluded.Spare {
		shortest = s.keepUnwanted(shortest)
	}
	if pool.Tiered {
		s.keepLowestTier()
	}
	s.Ready, s.Obstacles, s.Shortest = s.found, s.reasons, shortest
	if steady && len(s.Ready) > 0 {
		pool.FoundAllReady(changes)
	}
}

// keepLowestTier leaves only the ready instances of the lowest tier. So a tier that
// is down or full passes its requests on to the next one before any of them waits.
func (s *Survey) keepLowestTier() {
	var standby []*backend.Instance
	s.found, standby = routing.LowestTier(s.found, s.standby[:0])
	for _, i := range standby {
		s.reasons[i.Position] = backend.Standby
	}
	s.standby = standby
}

// keepUnwanted leaves only the instances that nobody waits for, among the ready ones for a
// request of the class Spare, and returns the shortest obstacle. Such a request waits for
// the instances of a tier that are busy, and does not go on to the next tier.
func (s *Survey) keepUnwanted(shortest backend.Obstacle) backend.Obstacle {
	if shortest != backend.NoObstacle {
		return shortest
	}
	isWanted, busy := !s.pool.Queue.Unwanted(), -1
	for n, i := range s.pool.Instances {
		o := s.reasons[n]
		if (o == backend.NoSlot || o == backend.AtLimit) && !s.excluded.Has(i) && (busy < 0 || i.Settings.Tier < busy) {
			busy = i.Settings.Tier
		}
	}
	kept := s.found[:0]
	for _, i := range s.found {
		switch {
		case isWanted:
			s.reasons[i.Position] = backend.NoSlot
		case busy >= 0 && i.Settings.Tier > busy:
			s.reasons[i.Position] = backend.Standby
		default:
			kept = append(kept, i)
		}
	}
	if s.found = kept; len(kept) == 0 {
		return backend.NoSlot
	}
	return shortest
}

// Keep leaves only the ready instances that are wanted.
func (s *Survey) Keep(wanted func(*backend.Instance) bool) {
	kept := s.found[:0]
	for _, i := range s.Ready {
		if wanted(i) {
			kept = append(kept, i)
		}
	}
	s.found, s.Ready = kept, kept
}

// MayComeFree reports whether an instance takes a request now, or as soon as one of
// its slots is free.
func (s *Survey) MayComeFree() bool {
	return s.Shortest == backend.NoObstacle || s.Shortest == backend.NoSlot
}

// Refusal returns the error that refuses a request to the pool at once, or nil if the
// request gets an instance or a place in the queue, which may be full for it.
func (s *Survey) Refusal(isFull bool) *schema.Error {
	switch {
	case !s.MayComeFree():
		return s.Unavailable()
	case s.excluded.Spare: // it waits for as long as it takes
	case isFull, s.Shortest == backend.NoSlot && s.pool.Service.Policy.Queue.Size == 0:
		return NoSlot(s.pool)
	}
	return nil
}

// Reset clears the survey and keeps its memory.
func (s *Survey) Reset() {
	clear(s.found[:cap(s.found)])
	clear(s.avoided[:cap(s.avoided)])
	clear(s.standby[:cap(s.standby)])
	*s = Survey{found: s.found[:0], avoided: s.avoided[:0], standby: s.standby[:0], reasons: s.reasons[:0]}
}

// Exclusions are the instances that a request must not be given.
type Exclusions struct {
	// Called are the instances that were called already.
	Called []*backend.Instance
	// Untranslatable are the instances with a dialect that cannot express the request,
	// and Reason says why the first of them cannot.
	Untranslatable []*backend.Instance
	Reason         *schema.Error
	// Narrow are the instances with a context window that is too small for the request; see Fit.
	Narrow []*backend.Instance
	// Prompt is the length of the prompt if windows matter for it, else zero.
	Prompt estimate.Prompt
	// OnlyWell restricts the pick to instances that have not failed recently. The
	// others still count as instances to wait for.
	OnlyWell bool
	// Spare says that the request takes only slots that nobody waits for.
	Spare bool
}

// Forbid excludes the instances of a pool that the caller's key may not use.
func (e *Exclusions) Forbid(pool *routing.Pool, mayCall func(id string) bool) {
	isForbidden := true
	for _, i := range pool.Instances {
		if mayCall(i.ID) {
			isForbidden = false
		} else if !e.Has(i) {
			e.Untranslatable = append(e.Untranslatable, i)
		}
	}
	if isForbidden {
		e.Reason = schema.CodedError(schema.CodePermissionDenied, "call.key_instances")
	}
}

// obstacle returns the reason why an instance cannot take the request.
func (e *Exclusions) obstacle(i *backend.Instance, now time.Time) backend.Obstacle {
	if e.Spare {
		return i.SpareObstacle(now)
	}
	return i.Obstacle(now)
}

func (e *Exclusions) none() bool {
	return len(e.Called) == 0 && len(e.Untranslatable) == 0 && len(e.Narrow) == 0 && e.Prompt.Likely == 0 &&
		!e.OnlyWell && !e.Spare
}

// Has reports whether an instance is excluded.
func (e *Exclusions) Has(i *backend.Instance) bool {
	return Contains(e.Called, i) || Contains(e.Untranslatable, i) || Contains(e.Narrow, i)
}

// Contains reports whether an instance is in a list. It compares the states, which stay
// the same when an edit of the configuration replaces the instances.
func Contains(list []*backend.Instance, i *backend.Instance) bool {
	return slices.ContainsFunc(list, func(other *backend.Instance) bool { return other.State == i.State })
}

// Reset clears the lists and keeps their memory.
func (e *Exclusions) Reset() {
	clear(e.Called)
	clear(e.Untranslatable)
	clear(e.Narrow)
	*e = Exclusions{Called: e.Called[:0], Untranslatable: e.Untranslatable[:0], Narrow: e.Narrow[:0]}
}
