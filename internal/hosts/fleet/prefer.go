package fleet

import (
	"math"
	"time"
)

// Preferred returns which of the instances of a model a request may go to. The request
// should go where its model is, and load it only once. nil means all of them, and an empty
// list none: no host can make room. An instance that is nil or not kept counts as one that
// has its model in memory. An instance is left out where there is another if its host may
// throw out a pinned model. Where no instance has the model, the ones that are loading it
// count. Where none is, the instance counts on which loading costs others least, and the
// model counts as being loaded from then on. With spread, requests may go to every instance
// as soon as one has the model: the caller weighs the cost of loading. With onlyAsk nothing
// changes.
func (f *Fleet) Preferred(from []*Instance, spread, onlyAsk bool, now time.Time) []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.clock(now)
	var here, soon, able, last []int
	for n, i := range from {
		switch {
		case i == nil || i.kept == nil || i.state == loaded && !i.isLeaving(at):
			here = append(here, n)
		case i.isExpected(at):
			soon = append(soon, n)
		default:
			if _, fits := i.leavers(nil, at); !fits {
				continue
			}
			if i.threatens(at) {
				last = append(last, n)
			} else {
				able = append(able, n)
			}
		}
	}
	if len(here)+len(soon)+len(able) == 0 {
		able = last
	}
	switch {
	case len(here) == len(from):
		return nil
	case len(here) > 0 && spread:
		return append(append(here, soon...), able...)
	case len(here) > 0:
		return here
	case len(soon) > 0:
		return soon
	case spread:
		return append([]int{}, able...)
	}
	best := cheapest(from, able, at)
	if !onlyAsk {
		for _, n := range best {
			from[n].loadsFrom(at)
		}
	}
	return best
}

// cheapest returns the instance on which loading its model costs others least.
func cheapest(from []*Instance, able []int, now float64) []int {
	best, least := -1, burden{}
	for _, n := range able {
		if b := from[n].burden(now); best < 0 || b.isLess(&least) {
			best, least = n, b
		}
	}
	if best < 0 {
		return []int{}
	}
	return []int{best}
}

// burden is the cost of loading a model for others.
type burden struct {
	waits    bool    // models that have to leave are in use
	leaves   int     // models that have to leave
	resident int     // models that are there
	left     float64 // how soon the first of the leaving models is needed again: see pauseLeft
}

func (i *Instance) burden(now float64) burden {
	leave, _ := i.leavers(nil, now)
	b := burden{leaves: len(leave), left: math.Inf(1)}
	for _, other := range leave {
		b.waits = b.waits || !isIdle(other)
		b.left = min(b.left, other.pauseLeft(now))
	}
	if victim, chance := i.pushed(now); chance == 1 {
		b.leaves++
		b.left = victim.pauseLeft(now)
	}
	for _, other := range i.host.instances {
		if other.isResident(now) {
			b.resident++
		}
	}
	return b
}

func (b *burden) isLess(other *burden) bool {
	switch {
	case b.waits != other.waits:
		return !b.waits
	case b.leaves != other.leaves:
		return b.leaves < other.leaves
	case b.resident != other.resident:
		return b.resident < other.resident
	}
	return b.left > other.left
}
