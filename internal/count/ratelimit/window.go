package ratelimit

import "time"

// window remembers when permits of a sliding window were taken, and forgets them one window later.
//
// Up to as many requests as the rules allow marks, every request has a mark of
// its own and the count is exact. For larger capacities requests that come within
// one grain of time share a mark, which carries the time of the latest of them.
// They are then forgotten together, up to one grain late and never early: no
// window of the right length ever holds more than the capacity, and at most one
// grain in a window (under a hundredth) is given away.
type window struct {
	ring   []mark // grows as needed, at most rules.marks
	oldest int
	used   int
	total  int   // requests in all marks
	opened int64 // time of the first request of the newest mark
	now    int64 // the latest time that was asked for
}

type mark struct {
	latest int64
	count  int
}

// smallestRing is enough for most clients of a limit per client.
const smallestRing = 8

func (w *window) clear() { *w = window{ring: w.ring} }

// forget drops the marks that are a window old, and returns the time as the window sees
// it: never earlier than before, because forgotten marks are gone.
func (w *window) forget(r *rules, now int64) int64 {
	w.now = max(w.now, now)
	for w.used > 0 && w.now-w.ring[w.oldest].latest >= r.window {
		w.total -= w.ring[w.oldest].count
		w.oldest = (w.oldest + 1) % len(w.ring)
		w.used--
	}
	return w.now
}

func (w *window) newest() *mark { return &w.ring[(w.oldest+w.used-1)%len(w.ring)] }

// add adds a request that costs so many permits.
func (w *window) add(r *rules, now int64, n int) {
	w.total += n
	// The second reason holds only after an edit of the rules; sharing a mark is
	// always safe.
	if w.used > 0 && (now-w.opened <= r.grain || w.used == r.marks) {
		m := w.newest()
		m.latest = now
		m.count += n
		return
	}
	if w.used == len(w.ring) {
		w.grow(r.marks)
	}
	w.used++
	*w.newest() = mark{latest: now, count: n}
	w.opened = now
}

// giveBack forgets requests that were counted at a time, if they still count. They are
// in the first mark that is not older.
func (w *window) giveBack(r *rules, at, now int64, n int) {
	if w.forget(r, now)-at >= r.window {
		return
	}
	for i := range w.used {
		m := &w.ring[(w.oldest+i)%len(w.ring)]
		if m.latest < at {
			continue
		}
		n = min(n, m.count)
		w.total -= n
		if m.count -= n; m.count == 0 {
			w.removeMark(r, i)
		}
		return
	}
}

// removeMark takes out the mark at a place, counted from the oldest.
func (w *window) removeMark(r *rules, place int) {
	for i := place; i < w.used-1; i++ {
		w.ring[(w.oldest+i)%len(w.ring)] = w.ring[(w.oldest+i+1)%len(w.ring)]
	}
	w.used--
	if place == w.used && w.used > 0 {
		w.opened = w.newest().latest - r.grain // when it was opened is not known any more
	}
}

// dropOldest forgets requests before their time, the oldest first.
func (w *window) dropOldest(n int) {
	for n > 0 && w.used > 0 {
		m := &w.ring[w.oldest]
		dropped := min(n, m.count)
		m.count -= dropped
		w.total -= dropped
		n -= dropped
		if m.count == 0 {
			w.oldest = (w.oldest + 1) % len(w.ring)
			w.used--
		}
	}
}

// since returns how many requests the window has that were counted after a time.
func (w *window) since(after int64) int {
	total := 0
	for i := range w.used {
		if m := w.ring[(w.oldest+i)%len(w.ring)]; m.latest > after {
			total += m.count
		}
	}
	return total
}

func (w *window) grow(most int) {
	ring := make([]mark, min(most, max(smallestRing, 2*len(w.ring))))
	n := copy(ring, w.ring[w.oldest:])
	copy(ring[n:], w.ring[:w.oldest])
	w.ring, w.oldest = ring, 0
}

// untilEmpty is the time until nothing counts any more.
func (w *window) untilEmpty(r *rules, now int64) time.Duration {
	if w.used == 0 {
		return 0
	}
	return time.Duration(r.window - (now - w.newest().latest))
}

// untilBelow is the time until fewer requests count than the given number. The
// oldest mark is enough unless the capacity was lowered.
func (w *window) untilBelow(r *rules, now int64, number int) time.Duration {
	left := w.total
	for i := range w.used {
		m := w.ring[(w.oldest+i)%len(w.ring)]
		if left -= m.count; left < number {
			return time.Duration(r.window - (now - m.latest))
		}
	}
	return 0
}
