package proxy

import (
	"net/netip"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/admit"
	"github.com/patchbay-ai/patchbay/internal/backend"
	"github.com/patchbay-ai/patchbay/internal/balance"
	"github.com/patchbay-ai/patchbay/internal/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/routing"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Explanation is what would happen to a request if it came now.
type Explanation struct {
	// PassedOver are the models that could not serve the request, before the one that
	// would: the one that was asked for, and fallbacks.
	PassedOver []PassedModel
	// Pool is nil where no instance serves the model.
	Pool       *routing.Pool
	Candidates []Candidate
	// Pick is the instance that would be called; nil where none would, or where the
	// strategy picks at random.
	Pick *backend.Instance
	// ServiceLimit and ModelLimit are what the limits of the service type and of
	// the model would decide.
	ServiceLimit, ModelLimit ratelimit.Decision
	// Waiting is how many requests wait for a slot.
	Waiting int
	// Refusal is the error that the caller would get, nil where the request would
	// reach a backend.
	Refusal *schema.Error
}

// Candidate is an instance that serves the model.
type Candidate struct {
	*backend.Instance
	Obstacle backend.Obstacle
	// Reason says why the instance would not be picked; empty where it might be.
	Reason string
	// Chance is the instance's share among those that might be picked, by weight.
	Chance float64
	// Translated says that the backend does not have the door itself, so that the
	// request would be translated.
	Translated bool
}

// PassedModel is a model that could not serve a request, and why.
type PassedModel struct{ Model, Reason string }

// Explain tells what would happen to a request of a door. It reads the same survey and
// asks the same limits as Do, up to the call, and consumes nothing. Where a fallback would
// take over, it explains that one. It knows nothing of keys that may not use a model.
func Explain(table *routing.Table, door schema.Door, model string, client netip.Addr, now time.Time) Explanation {
	asked := ExplainModel(table, door, model, client, now)
	if asked.Refusal == nil && asked.isReady() {
		return asked
	}
	var because error
	if asked.Refusal != nil {
		because = asked.Refusal
	}
	why, known := refusalReason(because)
	if !known {
		return asked
	}
	passed := []PassedModel{{model, asked.obstacle()}}
	for _, fallback := range table.Service(door.Service()).Fallbacks(model, why) {
		x := ExplainModel(table, door, fallback.Model, client, now)
		if x.Refusal == nil && x.isReady() {
			x.PassedOver = passed
			return x
		}
		passed = append(passed, PassedModel{fallback.Model, x.obstacle()})
	}
	return asked
}

// isReady tells whether an instance could take the request at once.
func (x *Explanation) isReady() bool {
	return x.Waiting == 0 && slices.ContainsFunc(x.Candidates, func(c Candidate) bool { return c.Obstacle == backend.NoObstacle })
}

// obstacle says why a model that is not ready cannot serve the request at once.
func (x *Explanation) obstacle() string {
	if x.Refusal != nil {
		return x.Refusal.Message
	}
	return "all slots are taken"
}

// ExplainModel is Explain without fallbacks.
func ExplainModel(table *routing.Table, door schema.Door, model string, client netip.Addr, now time.Time) Explanation {
	service := table.Service(door.Service())
	var x Explanation
	x.Pool = service.Find(model)
	if x.Pool == nil {
		x.Refusal = admit.UnknownModel(service, door.Service(), model)
		return x
	}
	x.Waiting = x.Pool.Queue.Len()
	x.ServiceLimit = service.Limiter.Peek(client, now)
	x.ModelLimit = x.Pool.Limiter.Peek(client, now)
	var s survey
	excluded := withoutDoor(x.Pool, door)
	s.askAll(x.Pool, excluded, now)
	x.Candidates = s.candidates(excluded, door)
	if len(s.ready) > 0 {
		x.Pick = x.Pool.Balancer.Peek(s.ready, balance.Asked{Client: client})
	}
	x.Refusal = x.refusal(&s, excluded)
	if x.Refusal != nil {
		x.Pick = nil
	}
	return x
}

// refusal returns the first reason for which the request would be refused, in the
// order in which Do checks them.
func (x *Explanation) refusal(s *survey, excluded *exclusions) *schema.Error {
	if err := s.refusal(excluded, x.Waiting); err != nil {
		return err
	}
	for _, limit := range []ratelimit.Decision{x.ServiceLimit, x.ModelLimit} {
		if !limit.Allowed {
			return admit.OverLimit(limit)
		}
	}
	return nil
}

// withoutDoor excludes the instances that have nothing to answer the requests of a door
// with.
func withoutDoor(pool *routing.Pool, door schema.Door) *exclusions {
	excluded := new(exclusions)
	for _, i := range pool.Instances {
		if err := i.Target.RefuseDoor(door); err != nil && i.Fault == "" {
			excluded.untranslatable = append(excluded.untranslatable, i)
			excluded.reason = translationError(err)
		}
	}
	return excluded
}

// candidates lists the instances of the pool, with reasons for those who may manage
// the instances.
func (s *survey) candidates(excluded *exclusions, door schema.Door) []Candidate {
	var total int64
	for _, i := range s.ready {
		total += i.Share
	}
	all := make([]Candidate, len(s.pool.Instances))
	for n, i := range s.pool.Instances {
		all[n] = Candidate{Instance: i, Obstacle: s.obstacles[n]}
		if excluded.has(i) {
			all[n].Obstacle, all[n].Reason = backend.Disabled, "its kind does not serve "+door.String()+" requests"
			continue
		}
		all[n].Translated = !door.IsUnified() && i.Target.Native(door) == nil
		switch s.obstacles[n] {
		case backend.NoObstacle:
			all[n].Chance = float64(i.Share) / float64(total)
		case backend.Faulty:
			all[n].Reason = i.Fault
		default:
			all[n].Reason = i.ObstacleText(s.obstacles[n], s.now)
		}
	}
	return all
}
