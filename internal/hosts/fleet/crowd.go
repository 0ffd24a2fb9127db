package fleet

import "slices"

const (
	// doubtful is the assumed probability that a host throws out a model for another one
	// where its memory is unknown.
	doubtful = 0.5
	// expires is the number of seconds without a use after which a model may have left
	// by itself.
	expires = 60.0
	// remembers is the number of seconds that an eviction by a host counts. Then the host
	// is tried with more models again, because a single large request may have been the
	// reason.
	remembers = 1800.0
)

// crowd holds observations of how many models a host has in memory, where nobody says how
// many fit. It is a guess, as models differ in size, and only the choice of an instance
// depends on it.
type crowd struct {
	shown int32   // at most at a time
	most  int32   // when one left for another, 0 if that was not seen
	at    float64 // when that was seen last
}

// see takes the number of models in memory, and whether one has left for another.
func (c *crowd) see(awake int32, hasPushed bool, now float64) {
	switch {
	case hasPushed:
		c.most, c.at = max(awake, 1), now
		c.shown = min(c.shown, c.most)
	case awake > c.shown:
		c.shown = awake
		if awake > c.most {
			c.most = 0
		}
	}
}

// chance returns the probability that a model leaves for another one, given the number
// of models there.
func (c *crowd) chance(residents int32, now float64) float64 {
	switch {
	case residents < max(c.shown, 1):
		return 0
	case c.most > 0 && residents >= c.most && now-c.at < remembers:
		return 1
	}
	return doubtful
}

// pushed returns the model that the host may throw out by itself if it loads the model of the
// instance, and how likely that is; nil where none leaves, or a keeper decides which ones do.
func (i *Instance) pushed(now float64) (victim *Instance, chance float64) {
	if capacity, _ := i.memoryOf(); capacity > 0 || i.isAdapter() {
		return nil, 0
	}
	residents := int32(0)
	for _, other := range i.host.instances {
		if i.isOneWith(other) || !other.isResident(now) || other.isAdapter() {
			continue
		}
		if residents++; victim == nil || other.goesBefore(victim) {
			victim = other
		}
	}
	if chance = i.host.crowd.chance(residents, now); chance == 0 {
		return nil, 0
	}
	return victim, chance
}

// goesBefore reports whether a host throws out the model sooner than another one. Pinned
// models it was told to keep. Of the rest most hosts throw out the least recently used.
func (i *Instance) goesBefore(other *Instance) bool {
	switch {
	case i.isPinned() != other.isPinned():
		return !i.isPinned()
	case i.isInUse() != other.isInUse():
		return !i.isInUse()
	}
	return i.memory.used < other.memory.used
}

// threatens reports whether the host may throw out a pinned model if it loads the model
// of the instance.
func (i *Instance) threatens(now float64) bool {
	victim, _ := i.pushed(now)
	return victim != nil && victim.isPinned()
}

// isPinned reports whether the model is pinned, under whichever name.
func (i *Instance) isPinned() bool {
	if i.kept == nil || i.kept.IsPinned || !i.kept.IsWhole {
		return i.kept != nil && i.kept.IsPinned
	}
	return slices.ContainsFunc(i.host.instances,
		func(other *Instance) bool { return i.isOneWith(other) && other.kept.IsPinned })
}

// wasPushed reports whether a model that is not in memory any more has left for another one,
// rather than because nobody used it.
func (i *Instance) wasPushed(came []*Instance, now float64) bool {
	if i.memory.used == 0 || now-i.memory.used >= expires {
		return false
	}
	for _, other := range came {
		if other.isInUse() || other.memory.used >= i.memory.used {
			return true
		}
	}
	return false
}
