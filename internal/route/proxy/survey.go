package proxy

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/breaker"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
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
		o := excluded.obstacle(i, now)
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
	if excluded.spare {
		shortestObstacle = s.keepUnwanted(excluded, shortestObstacle)
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

// keepUnwanted leaves only the instances that nobody waits for, among those that were found
// ready for a request of the class Spare, and returns the shortest obstacle. Such a request
// waits for the instances of a tier that are busy, and does not go on to the next tier.
func (s *survey) keepUnwanted(excluded *exclusions, shortest backend.Obstacle) backend.Obstacle {
	if shortest != backend.NoObstacle {
		return shortest
	}
	isWanted, busy := !s.pool.Queue.Unwanted(), -1
	for n, i := range s.pool.Instances {
		o := s.reasons[n]
		if (o == backend.NoSlot || o == backend.AtLimit) && !excluded.has(i) && (busy < 0 || i.Settings.Tier < busy) {
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

// refusal returns the error with which a request to the pool is refused at once, or nil if
// the request gets an instance or a place in the queue, which may be full for it.
func (s *survey) refusal(excluded *exclusions, isFull bool) *schema.Error {
	switch {
	case !s.mayComeFree():
		return s.unavailable(excluded)
	case excluded.spare: // it waits for as long as it takes
	case isFull, s.shortestObstacle == backend.NoSlot && s.pool.Service.Policy.Queue.Size == 0:
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
	// spare tells that the request takes only slots that nobody waits for.
	spare bool
}

// obstacle returns what keeps an instance from taking the request.
func (e *exclusions) obstacle(i *backend.Instance, now time.Time) backend.Obstacle {
	if e.spare {
		return i.SpareObstacle(now)
	}
	return i.Obstacle(now)
}

func (e *exclusions) none() bool {
	return len(e.called) == 0 && len(e.untranslatable) == 0 && !e.onlyWell && !e.spare
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

// candidate is an instance of the model in the details of an error, with the reason
// why it does not take the request.
type candidate struct {
	Instance string `json:"instance"`
	Reason   string `json:"reason"`
	// Cause is the documented word for why an unhealthy instance cannot be reached.
	Cause transport.Cause `json:"cause,omitzero"`
}

// outlook collects why the instances of a pool do not take a request, and when one of
// them may take one again. A negative wait means that there is no such instance.
type outlook struct {
	candidates []candidate
	limited    time.Duration // until an instance is below its rate limit
	trial      time.Duration // until an open breaker of a healthy instance allows a trial
	// unhealthy counts the unhealthy instances, and unhealthyOpen those of them whose
	// breakers are open as well; check is the wait until one of them may be back.
	unhealthy, unhealthyOpen int
	check                    time.Duration
	// held counts the instances whose breakers an operator holds open, and hold is
	// the first of these holds.
	held int
	hold breaker.Hold
}

// unavailable returns the error that says why none of the pool's instances takes the
// request. If the dialects of some cannot express the request and all others are
// disabled or have no weight, it is the error of the dialect: the caller can change
// the request.
func (s *survey) unavailable(excluded *exclusions) *schema.Error {
	if excluded.reason != nil && (s.shortestObstacle == backend.Disabled || s.shortestObstacle == backend.NoWeight) {
		return excluded.reason
	}
	look := outlook{limited: -1, trial: -1, check: -1}
	for n, i := range s.pool.Instances {
		if contains(excluded.untranslatable, i) {
			look.candidates = append(look.candidates, candidate{Instance: i.Handle, Reason: "its dialect cannot express the request"})
			continue
		}
		look.add(i, s.obstacles[n], s.now)
	}
	return look.refusal(s.pool)
}

// add adds an instance that does not take the request.
func (l *outlook) add(i *backend.Instance, o backend.Obstacle, now time.Time) {
	c := candidate{Instance: i.Handle, Reason: i.ObstacleText(o, now)}
	if o == backend.Unhealthy {
		c.Cause = i.Health.Snapshot().Cause
	}
	l.candidates = append(l.candidates, c)
	if o == backend.BreakerOpen || o == backend.Unhealthy {
		if hold, held := i.Breaker.HeldOpen(); held {
			if l.held == 0 {
				l.hold = hold
			}
			l.held++
			return
		}
	}
	switch o {
	case backend.AtLimit:
		l.limited = sooner(l.limited, i.Limiter.Peek(netip.Addr{}, now).RetryAfter)
	case backend.BreakerOpen:
		l.trial = sooner(l.trial, untilTrial(i, now))
	case backend.Unhealthy:
		l.unhealthy++
		if !i.Breaker.Ready(now) {
			l.unhealthyOpen++
		}
		wait := untilCheck(i, now)
		if !i.Breaker.AwaitsCheck() { // a successful check would not end the breaker's pause
			wait = max(wait, i.Breaker.RetryAfter(now))
		}
		l.check = sooner(l.check, wait)
	}
}

// untilTrial returns the wait until an open breaker allows a trial. A health check may
// shorten the breaker's own pause.
func untilTrial(i *backend.Instance, now time.Time) time.Duration {
	wait := i.Breaker.RetryAfter(now)
	if i.Breaker.AwaitsCheck() && !i.Health.Snapshot().NextCheck.IsZero() {
		wait = min(wait, untilCheck(i, now))
	}
	return wait
}

// checkTime is how long a health check is assumed to take. It is the whole wait where
// the time of the next check is not known.
const checkTime = 500 * time.Millisecond

// untilCheck returns the wait until the next health check of an instance has ended.
func untilCheck(i *backend.Instance, now time.Time) time.Duration {
	return max(i.Health.Snapshot().NextCheck.Sub(now), 0) + checkTime
}

// refusal returns the error for the caller.
func (l *outlook) refusal(pool *routing.Pool) *schema.Error {
	trial := l.trial
	if trial < 0 && l.unhealthyOpen == l.unhealthy {
		trial = l.check
	}
	err := &schema.Error{
		Message:    fmt.Sprintf("No instance of the model %q is available for %s.", pool.Model, pool.Service.Type),
		Type:       schema.TypeServiceUnavailable,
		Code:       schema.CodeServiceUnavailable,
		RetryAfter: defaultRetryAfter,
		Spread:     true,
		Details:    map[string]any{"model": pool.Model, "candidates": l.candidates},
	}
	if l.check >= 0 {
		err.RetryAfter = l.check
	}
	switch {
	case l.limited >= 0:
		err.Message = fmt.Sprintf("Every instance of the model %q is at its rate limit.", pool.Model)
		err.Type, err.Code = schema.TypeRateLimit, schema.CodeRateLimitExceeded
		err.RetryAfter, err.Of = max(l.limited, time.Millisecond), "instances/"+pool.Model
	case trial >= 0:
		err.Message = fmt.Sprintf("The circuit breakers of the model %q are open after repeated failures of its backends.", pool.Model)
		err.Type, err.Code = schema.TypeCircuitBreakerOpen, schema.CodeCircuitBreakerOpen
		err.RetryAfter = max(trial, time.Millisecond)
	case l.held > 0 && l.unhealthy == 0:
		err.Message = fmt.Sprintf("The model %q is kept out of service: the circuit breaker is held open by %s since %s, until it is released by hand.",
			pool.Model, l.hold.By, l.hold.Since.UTC().Format(time.RFC3339))
		err.Type, err.Code = schema.TypeCircuitBreakerOpen, schema.CodeCircuitBreakerOpen
		err.RetryAfter, err.NoRetry = 0, true
	}
	return err
}

// sooner returns the shorter of two waits. A negative a means that there is none yet.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 {
		return b
	}
	return min(a, b)
}
