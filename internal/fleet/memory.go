package fleet

import (
	"math"
	"slices"
)

// residence says where a model is on its host.
type residence uint8

// A model about which nothing is known counts as loaded, unless it is known that the host
// has room for only so many: most engines have their one model in memory for ever.
const (
	unknown residence = iota
	loaded
	sleeping
	loading
	absent
)

// String returns the name that is shown to people.
func (r residence) String() string { return residenceNames[r] }

var residenceNames = [...]string{"unknown", "loaded", "sleeping", "loading", "absent"}

// States returns every state that a Picture can have.
func States() []string { return slices.Clone(residenceNames[:]) }

// memory is what is known about the model of an instance in the memory of its host.
type memory struct {
	since float64 // when loading began
	slept bool    // the model was asleep then
	used  float64 // when it was last asked for
}

// loadTimes are how long a model takes to be loaded and to wake up, by the last times that
// this was seen on any host.
type loadTimes struct{ load, wake float64 }

// firstTimes are believed before anything was seen.
var firstTimes = loadTimes{load: 10, wake: 2}

// of returns the time from one of the two states.
func (t *loadTimes) of(isAsleep bool) *float64 {
	if isAsleep {
		return &t.wake
	}
	return &t.load
}

// isCold reports whether a call would have to wait until the model is loaded, which has
// not begun.
func (i *Instance) isCold() bool {
	switch i.state {
	case sleeping, absent:
		return true
	case unknown:
		return i.host.room > 0
	}
	return false
}

// loadTime returns the seconds that a call would wait for the model, and those that it
// takes to load again what would be pushed out of the memory of the host for it.
func (i *Instance) loadTime(now float64) (load, again float64) {
	switch {
	case i.isCold():
		if pushed := i.host.evicted(); pushed != nil {
			again = pushed.loads()
		}
		return i.loads(), again
	case i.state == loading:
		return max(i.loads()-max(now-i.memory.since, 0), 0), 0
	}
	return 0, 0
}

// loads returns the seconds in which the model is loaded.
func (i *Instance) loads() float64 {
	return *i.model.times.of(i.state == sleeping || i.state == loading && i.memory.slept)
}

// evicted returns the model that the host would push out to load another one, nil if it
// has room.
func (h *Host) evicted() *Instance {
	if h.room == 0 {
		return nil
	}
	var oldest *Instance
	resident := int32(0)
	for _, i := range h.instances {
		if i.state != loaded && i.state != loading {
			continue
		}
		if resident++; oldest == nil || i.memory.used < oldest.memory.used {
			oldest = i
		}
	}
	if resident < h.room {
		return nil
	}
	return oldest
}

// askedFor records that a call was sent to the instance, which loads its model if it has
// not got it.
func (i *Instance) askedFor(now float64) {
	if i.isCold() {
		if pushed := i.host.evicted(); pushed != nil {
			pushed.state = absent
			pushed.clear()
		}
		i.memory.slept, i.memory.since = i.state == sleeping, now
		i.state = loading
	}
	i.memory.used = now
}

// answered records that the instance has answered a call, so its model is loaded, and how
// long the call waited more than it would have without loading.
func (i *Instance) answered(waited float64, wasCold bool) {
	if wasCold && waited > 0 {
		took := i.model.times.of(i.memory.slept)
		*took += (waited - *took) / 2
	}
	if i.state == loading || i.host.room > 0 {
		i.state = loaded
	}
}

// SetRoom says how many models the host has in memory at a time, where that is known.
func (h *Host) SetRoom(models int) {
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	h.room = int32(min(max(models, 0), math.MaxInt32))
}

// Has says which models the host has in memory and which are asleep there, as it told:
// the others are not. A model that is being loaded is no longer so only if it is there.
func (h *Host) Has(awake, asleep []string) {
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	for _, i := range h.instances {
		switch {
		case slices.Contains(awake, i.model.name):
			i.state = loaded
		case slices.Contains(asleep, i.model.name):
			if i.state != sleeping {
				i.clear() // engines give up the cache of a model that falls asleep
			}
			i.state = sleeping
		case i.state == loading:
		default:
			if i.state != absent {
				i.clear()
			}
			i.state = absent
		}
	}
}
