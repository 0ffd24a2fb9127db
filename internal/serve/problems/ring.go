package problems

import "time"

const (
	// Lately is the time span of shares.
	Lately = 5 * time.Minute
	// slot is the time span of a place in a ring.
	slot = 10 * time.Second
)

// ring counts two kinds of events of the last minutes.
type ring struct {
	slots [Lately / slot][2]uint32
	last  int64 // the latest slot
}

func slotOf(at time.Time) int64 { return at.UnixNano() / int64(slot) }

// advance clears the places of the time since the latest event.
func (r *ring) advance(to int64) {
	size := int64(len(r.slots))
	for r.last = max(r.last, to-size); r.last < to; {
		r.last++
		r.slots[r.last%size] = [2]uint32{}
	}
}

// add counts an event of a kind.
func (r *ring) add(at time.Time, kind int) {
	where := slotOf(at)
	if r.advance(where); r.last-where < int64(len(r.slots)) {
		r.slots[where%int64(len(r.slots))][kind]++
	}
}

// sum returns the events of a span of time that ends now.
func (r *ring) sum(now time.Time, span time.Duration) (sums [2]int64) {
	r.advance(slotOf(now))
	for back := range min(int64(span/slot), r.last+1) {
		for kind, count := range r.slots[(r.last-back)%int64(len(r.slots))] {
			sums[kind] += int64(count)
		}
	}
	return sums
}

// merge adds the events of another ring.
func (r *ring) merge(other *ring) {
	r.advance(other.last)
	for back := range min(int64(len(r.slots)), other.last+1) {
		at := other.last - back
		if r.last-at >= int64(len(r.slots)) {
			return
		}
		for kind, count := range other.slots[at%int64(len(r.slots))] {
			r.slots[at%int64(len(r.slots))][kind] += count
		}
	}
}
