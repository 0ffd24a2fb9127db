package fleet

import (
	"math"
	"slices"
	"time"
)

// residence says where a model is on its host.
type residence uint8

// A model without any report counts as loaded, unless the room of its host is known to be
// limited: most engines have their one model in memory for ever.
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

// memory holds the state of the model of an instance in the memory of its host.
type memory struct {
	since float64 // when loading began
	slept bool    // the model was asleep then
	used  float64 // when it was last asked for
}

// loadTimes are the seconds to load a model and to wake it up, by the last observations on
// any host.
type loadTimes struct{ load, wake float64 }

// firstTimes are believed before anything was seen.
var firstTimes = loadTimes{load: 10, wake: 2}

// firstAdapter is the same for LoRA adapters, which are much smaller than models.
const firstAdapter = 1

// of returns the time from one of the two states.
func (t *loadTimes) of(isAsleep bool) *float64 {
	if isAsleep {
		return &t.wake
	}
	return &t.load
}

// saw notes how long it took. The first time counts alone, because it replaces a guess.
func (t *loadTimes) saw(wasAsleep bool, seconds float64) {
	took := t.of(wasAsleep)
	if *took == *firstTimes.of(wasAsleep) || *took == firstAdapter {
		*took = seconds
		return
	}
	*took += (seconds - *took) / 2
}

// isCold reports whether a call would have to wait until the model is loaded, which has
// not begun.
func (i *Instance) isCold(now float64) bool {
	switch i.state {
	case sleeping, absent:
		return true
	case unknown:
		return i.host.room > 0 || i.kept != nil
	case loading:
		return i.kept != nil && !i.isComing(now)
	}
	return false
}

// loadTime returns the seconds that a call would wait for the model, and the seconds
// to load again the models that it pushes out of the memory of the host.
func (i *Instance) loadTime(now float64) (load, again float64) {
	switch {
	case i.isCold(now):
		leaving, _ := i.leavers(nil, now)
		for _, other := range leaving {
			again += other.loads() * other.wanted(now)
			if i.kept != nil && other.isInUse() {
				again += i.loads() // it has to be waited for
			}
		}
		if victim, chance := i.pushed(now); victim != nil {
			again += chance * victim.loads() * victim.wanted(now)
		}
		return i.loads(), again
	case i.state == loading:
		return max(i.loads()-max(now-i.memory.since, 0), 0), 0
	}
	return 0, 0
}

// wantedIn is the number of seconds until its next use that makes a model count
// half.
const wantedIn = 600

// wanted returns how soon the model is asked for again, from 1 down to 0. Of several hosts
// the one loads a model that gives up the model with the latest next use.
func (i *Instance) wanted(now float64) float64 {
	return 1 / (1 + math.Exp2(i.pauseLeft(now))/wantedIn)
}

// loads returns the seconds that loading the model takes.
func (i *Instance) loads() float64 {
	return *i.model.times.of(i.state == sleeping || i.state == loading && i.memory.slept)
}

// askedFor records that a call was sent to the instance, which loads its model if it has
// not got it.
func (i *Instance) askedFor(now float64) {
	if i.isCold(now) {
		if i.kept == nil {
			leaving, _ := i.leavers(nil, now)
			for _, pushed := range leaving {
				pushed.forget(absent, now)
			}
		}
		i.loadsFrom(now)
	}
	i.use(now)
}

// answered records that the instance has answered a call, so its model is loaded, and how
// long the call waited for the load.
func (i *Instance) answered(waited float64, wasCold bool) {
	if i.kept != nil {
		return // its loading is watched
	}
	if wasCold && waited > 0 {
		i.model.times.saw(i.memory.slept, waited)
	}
	if i.state == loading || i.host.room > 0 {
		i.state = loaded
	}
}

// SetRoom says how many models the host has in memory at a time, where that is known.
func (h *Host) SetRoom(models int) {
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	for _, i := range h.instances {
		if i.kept != nil && i.kept.Room > 0 {
			return // somebody knows better
		}
	}
	h.room = int32(min(max(models, 0), math.MaxInt32))
}

// AdapterSpace returns the name of the memory of the host's LoRA adapters.
func (h *Host) AdapterSpace() string { return "adapters of " + h.name }

// SetAdapterRoom says how many LoRA adapters the host has at a time, where nobody has said how
// many it should have.
func (h *Host) SetAdapterRoom(adapters int) {
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	if s := h.fleet.spaces[h.AdapterSpace()]; s != nil {
		s.told = float64(max(adapters, 0))
	}
}

// Models is the report of a host about its models, by name: which are in memory, which are
// asleep and which are being loaded. All others are not there. Bytes is how much memory each
// takes, where that was told. AreAdapters means that the report is about LoRA adapters, and not
// about models.
type Models struct {
	Awake, Asleep, Loading []string
	Bytes                  map[string]int64
	AreAdapters            bool
}

// Has takes the host's report of its models, and the time of the question. A model that is
// being loaded stays in that state until it is reported there.
func (h *Host) Has(models Models, asked time.Time) {
	h.fleet.mu.Lock()
	defer h.fleet.mu.Unlock()
	at := h.fleet.clock(asked)
	var left, awake []*Instance
	for _, i := range h.instances {
		if i.isAdapter() != models.AreAdapters {
			continue
		}
		if i.kept != nil {
			i.kept.bytes = models.Bytes[i.model.name]
		}
		state := absent
		switch {
		case slices.Contains(models.Awake, i.model.name):
			state = loaded
			awake = append(awake, i)
		case slices.Contains(models.Asleep, i.model.name):
			state = sleeping
		case i.state == loading && (i.kept == nil || i.isComing(at)) || slices.Contains(models.Loading, i.model.name):
			state = loading
		}
		before := i.state
		if i.told(state, at); before == loaded && i.state == absent {
			left = append(left, i)
		}
	}
	if models.AreAdapters {
		return
	}
	h.crowd.see(int32(len(awake)), slices.ContainsFunc(left, func(i *Instance) bool { return i.wasPushed(awake, at) }),
		at)
}

// told takes the state that the host told.
func (i *Instance) told(state residence, now float64) {
	switch {
	case i.state == state || i.kept != nil && !i.kept.believes(now):
	case state == loading:
		i.loadsFrom(now)
	default:
		i.forget(state, now)
	}
}
