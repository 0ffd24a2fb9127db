package backend

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// defaultBatchConcurrency is how many lines of batches an instance gets at a time by
// default.
const defaultBatchConcurrency = 2

func (s Settings) checkBatchConcurrency(report say.Report) {
	switch {
	case s.BatchConcurrency == nil:
	case *s.BatchConcurrency < 0:
		report("batchConcurrency", say.New("field.batch_negative"))
	case s.MaxConcurrency > 0 && *s.BatchConcurrency > int(s.MaxConcurrency):
		report("batchConcurrency", say.New("field.batch_most", "most", s.MaxConcurrency))
	}
}

// SpareSlots returns how many calls of the class Spare the instance gets at a time.
func (i *Instance) SpareSlots() int {
	most := defaultBatchConcurrency
	if own := i.Settings.BatchConcurrency; own != nil {
		most = *own
	}
	if slots := i.Slots(); slots > 0 {
		most = min(most, slots)
	}
	return most
}

// SpareInFlight returns the number of calls of the class Spare that have not ended.
func (s *State) SpareInFlight() int64 { return s.spare.Load() }

// SpareObstacle is Obstacle for a call of the class Spare. An instance that a fleet knows has
// no slot for such a call while a new request would find work in front of it. The next
// request then finds one spare call there at most. An instance without its model in memory
// has no slot while loading it would push out a model that others use or used lately.
func (i *Instance) SpareObstacle(now time.Time) Obstacle {
	o := i.Obstacle(now)
	switch {
	case o != NoObstacle:
	case i.SpareInFlight() >= int64(i.spareRoom(now)):
		return NoSlot
	case i.wouldDelay(now):
		return NoSlot
	case i.Resident() != nil && !i.Resident().Place().AllowsSpare(now):
		return NoSlot
	}
	return o
}

// spareRoom returns how many calls of the class Spare the instance gets at a time now: as
// many as SpareSlots allows, less the slots that other requests are expected to need
// meanwhile.
func (i *Instance) spareRoom(now time.Time) int {
	most := i.SpareSlots()
	slots := i.Slots()
	if slots == 0 {
		return most
	}
	others := max(0, int(i.inFlight.Load()-i.spare.Load()))
	return max(0, min(most, slots-i.demand.expect(others, now)))
}

// SpareFree returns how many calls of the class Spare the instance would take now, beside the
// ones that it has. Where a fleet knows the instance it is one at most, because a second one
// would wait for the work on the first.
func (i *Instance) SpareFree(now time.Time) int {
	free := max(0, i.spareRoom(now)-int(i.SpareInFlight()))
	if i.Engine() != nil {
		free = min(free, 1)
	}
	return free
}

// wouldDelay reports whether a call that comes now would wait for the work on the prompts of
// others, by the fleet's picture of the host.
func (i *Instance) wouldDelay(now time.Time) bool {
	engine := i.Engine()
	return engine != nil && !engine.IsIdle(now)
}

// AcquireSpare is Acquire for a call of the class Spare.
func (i *Instance) AcquireSpare(now time.Time) (Permit, bool) {
	room := int64(i.spareRoom(now))
	if i.spare.Add(1) > room {
		i.spare.Add(-1)
		return Permit{}, false
	}
	permit, ok := i.acquire(now)
	if !ok {
		i.spare.Add(-1)
		return Permit{}, false
	}
	permit.isSpare, permit.began = true, now.Sub(i.since)
	return permit, true
}

// endSpare ends a call of the class Spare.
func (i *Instance) endSpare(permit Permit, outcome breaker.Outcome, now time.Time) {
	i.spare.Add(-1)
	if outcome == breaker.Success {
		i.demand.lasted(now.Sub(i.since) - permit.began)
	}
}
