package fleet

import (
	"slices"
	"time"
)

// spareRest is the number of idle seconds after which a model leaves for a call of the class
// Spare, where it has no time of its own until it is put to sleep.
const spareRest = 120.0

// AllowsSpare reports whether a call of the class Spare may come: the model is in memory or
// on its way there, or can be loaded without pushing out a model that is in use or was used
// lately; and no other model waits for room in the same memory. It is true as well where no
// model may ever leave: the call gets that as its error. Asking changes nothing.
func (i *Instance) AllowsSpare(now time.Time) bool {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	switch {
	case i.kept == nil:
		return true
	case i.isInTheWay():
		return false
	case i.state == loaded, i.isComing(at):
		return true
	}
	_, begun := i.spareLeavers(at)
	return begun != NoRoom
}

// BeginSpareLoad is BeginLoad for calls of the class Spare alone: it has no place among the
// models that wait for room, and a model that is in use or was used lately does not leave for
// it.
func (i *Instance) BeginSpareLoad(now time.Time) (leave []*Instance, begun Begun) {
	f, at := i.lock(now)
	defer f.mu.Unlock()
	switch {
	case i.kept == nil, i.state == loaded && !i.isLeaving(at):
		return nil, Present
	case i.isBeingLoaded(), i.state == loaded, i.isInTheWay():
		return nil, NoRoom
	}
	if leave, begun = i.spareLeavers(at); begun == Began {
		i.order(leave, at)
	}
	return leave, begun
}

// isInTheWay reports whether another model waits for room in the same memory.
func (i *Instance) isInTheWay() bool {
	capacity, members := i.memoryOf()
	return capacity > 0 && slices.ContainsFunc(members, func(other *Instance) bool {
		return other != i && other.kept != nil && other.kept.asked > 0
	})
}

// spareLeavers returns the models that have to leave for calls of the class Spare, and
// whether they may. Where the room of the host is unknown, it may throw out any model.
func (i *Instance) spareLeavers(now float64) ([]*Instance, Begun) {
	mayLeave := func(other *Instance) bool { return isIdle(other) && other.unusedFor(now) >= other.spareRest() }
	if capacity, members := i.memoryOf(); capacity == 0 {
		for _, other := range members {
			if other != i && other.isResident(now) && !mayLeave(other) {
				return nil, NoRoom
			}
		}
		return nil, Began
	}
	if leave, fits := i.leavers(mayLeave, now); fits {
		return leave, Began
	}
	if _, fits := i.leavers(nil, now); !fits {
		return nil, Full
	}
	return nil, NoRoom
}

// unusedFor returns the seconds since the last use of the model. That it came into memory
// counts as a use.
func (i *Instance) unusedFor(now float64) float64 {
	last := i.memory.used
	if i.kept != nil {
		last = max(last, i.kept.since)
	}
	return now - last
}

// spareRest returns the idle seconds after which the model leaves for a call of the class
// Spare.
func (i *Instance) spareRest() float64 {
	if i.kept != nil && i.kept.SleepAfter > 0 {
		return i.kept.SleepAfter.Seconds()
	}
	return spareRest
}
