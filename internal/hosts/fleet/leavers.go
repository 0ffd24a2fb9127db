package fleet

import (
	"cmp"
	"slices"
)

// leavers returns the models that have to leave to make room for this one. Idle models leave
// first, and of these the one with the latest expected use or, where nobody gives orders to
// the host, the one that the host throws out by itself: most throw out the least recently
// used. Pinned models stay, and so do models that mayLeave refuses. It reports false where
// the others are not enough.
func (i *Instance) leavers(mayLeave func(*Instance) bool, now float64) ([]*Instance, bool) {
	capacity, members := i.memoryOf()
	if capacity == 0 {
		return nil, true
	}
	left := capacity - i.takes()
	var able []*Instance
	for n, other := range members {
		if i.isOneWith(other) || !other.isResident(now) || other.isAdapter() != i.isAdapter() ||
			isNamedBefore(members[:n], other, now) {
			continue
		}
		left -= other.takes()
		if !other.isPinned() && (mayLeave == nil || mayLeave(other)) {
			able = append(able, other)
		}
	}
	if left >= 0 {
		return nil, true
	}
	if len(able) > 1 {
		rankLeavers(able, i.kept != nil, now)
	}
	for n, other := range able {
		if left += other.takes(); left >= 0 {
			return able[:n+1], true
		}
	}
	return able, false
}

// isNamedBefore reports whether one of the models is the same in memory under another name.
func isNamedBefore(before []*Instance, i *Instance, now float64) bool {
	return i.kept != nil && i.kept.IsWhole &&
		slices.ContainsFunc(before, func(other *Instance) bool { return i.isOneWith(other) && other.isResident(now) })
}

// rankLeavers puts the model first that leaves first.
func rankLeavers(able []*Instance, areTold bool, now float64) {
	left := make(map[*Instance]float64, len(able))
	for _, i := range able {
		if areTold {
			left[i] = i.pauseLeft(now)
		}
	}
	slices.SortStableFunc(able, func(a, b *Instance) int {
		switch inUse := a.isInUse(); {
		case inUse == b.isInUse():
			return cmp.Or(cmp.Compare(left[b], left[a]), cmp.Compare(a.memory.used, b.memory.used))
		case inUse:
			return 1
		}
		return -1
	})
}

// memoryOf returns the memory in which the model is or would be: how much fits into it, 0 for
// no limit, and the instances with models in it.
func (i *Instance) memoryOf() (capacity float64, members []*Instance) {
	if i.kept != nil && i.kept.Space != "" {
		s := i.host.fleet.spaces[i.kept.Space]
		if len(i.kept.Beside) == 0 {
			return cmp.Or(s.capacity, s.told), s.members
		}
		members = slices.Clone(s.members)
		for _, name := range i.kept.Beside {
			for _, other := range i.host.fleet.spaces[name].members {
				if !slices.Contains(members, other) {
					members = append(members, other)
				}
			}
		}
		return 1, members
	}
	return float64(i.host.room), i.host.instances
}

// isBehind reports whether another model has waited longer for room in the same memory.
func (i *Instance) isBehind() bool {
	capacity, members := i.memoryOf()
	return capacity > 0 && slices.ContainsFunc(members, func(other *Instance) bool {
		return other != i && other.kept != nil && other.kept.asked > 0 && other.kept.asked < i.kept.asked
	})
}

// takes returns how much of its space the model takes.
func (i *Instance) takes() float64 {
	if i.kept != nil && i.kept.Space != "" {
		return i.kept.Size
	}
	return 1
}

// isIdle reports whether a model may leave for another one now.
func isIdle(i *Instance) bool {
	if i.state != loaded && !i.isUnheard() && !(i.kept != nil && i.kept.lingers && !i.kept.isOrdered) {
		return false
	}
	return !slices.ContainsFunc(i.host.instances,
		func(other *Instance) bool { return i.isOneWith(other) && other.isInUse() })
}

// rests returns how many more seconds a model that is not in use is left alone, because it
// had a call a moment ago and came into memory not long before.
func (i *Instance) rests(now float64) float64 {
	if i.kept == nil || i.state == unknown {
		return 0
	}
	return max(min(i.kept.own+min(restPart*i.loads(), longestRest), i.stays())-now, 0)
}

// stays returns until when a model that is kept serves its calls before it has to leave for
// another one.
func (i *Instance) stays() float64 { return i.kept.since + i.loads() }
