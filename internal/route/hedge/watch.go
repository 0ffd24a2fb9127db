package hedge

import (
	"math/bits"
	"slices"
	"sync"
	"time"
)

const (
	// kept is the number of latest times that are kept for an instance and a size, and
	// enough the number that hedging needs.
	kept   = 64
	enough = 20
	// percent of the calls take no longer than the time after which a second one is made.
	percent = 95
	// cost is how many calls must have been made for each second one: 5 % of them. saved is
	// how many second ones a quiet time can save up. By definition 5 % of the calls exceed
	// the 95th percentile, mostly by little. Some second calls are kept for calls that exceed
	// it by half: they are there when an instance becomes slow.
	cost    = 20
	saved   = 20
	forLate = 10
	// sizes is the number of sizes: each is twice as large as the one before.
	sizes = 24
	// shortest is the least wait before a second call. The noise of a network exceeds
	// shorter ones.
	shortest = time.Millisecond
)

// Watch knows how long the calls of one pool take, and how many second ones may be made. It
// is safe for concurrent use.
type Watch struct {
	mu     sync.Mutex
	times  map[string]*[sizes]latest // by the id of the instance
	credit int
}

// latest are the latest times of calls of one size at one instance.
type latest struct {
	took []time.Duration
	next int
	// late is the percentile of them, found anew with every few.
	late time.Duration
}

// NewWatch returns a Watch that knows nothing.
func NewWatch() *Watch { return &Watch{times: map[string]*[sizes]latest{}} }

// Keep forgets the instances that are not among those with these ids.
func (w *Watch) Keep(ids []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id := range w.times {
		if !slices.Contains(ids, id) {
			delete(w.times, id)
		}
	}
}

// sizeOf returns the size class of a call by its work in tokens.
func sizeOf(tokens float64) int { return min(bits.Len64(uint64(max(tokens, 0))), sizes-1) }

// Answered says how long an instance took for a call with an amount of work. A call that
// was given up teaches nothing: how long it would have taken is not known.
func (w *Watch) Answered(id string, tokens float64, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := w.times[id]
	if of == nil {
		of = new([sizes]latest)
		w.times[id] = of
	}
	of[sizeOf(tokens)].add(took)
}

func (l *latest) add(took time.Duration) {
	if len(l.took) < kept {
		l.took = append(l.took, took)
	} else {
		l.took[l.next%kept] = took
	}
	const everyFew = 4 // sorting is the greatest part of the cost of a call here
	if l.next++; l.next%everyFew == 0 || len(l.took) == enough {
		l.late = percentile(l.took)
	}
}

// percentile returns the time that percent of the times do not exceed.
func percentile(took []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(took))
	return sorted[(len(sorted)*percent+99)/100-1]
}

// After returns the time after which a call takes too long at an instance, given its work,
// and whether that is known. It is the 95th percentile of the latest calls of its size at
// the instance or, if that is less, the median of such percentiles of all instances of the
// pool. A slow instance is thus measured by the others.
func (w *Watch) After(id string, tokens float64) (time.Duration, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := sizeOf(tokens)
	var few [8]time.Duration
	all := few[:0]
	for _, of := range w.times {
		if l := &of[size]; len(l.took) >= enough {
			all = append(all, l.late)
		}
	}
	if len(all) == 0 {
		return 0, false
	}
	slices.Sort(all)
	after := all[(len(all)-1)/2]
	if of := w.times[id]; of != nil && len(of[size].took) >= enough {
		after = min(after, of[size].late)
	}
	return max(after, shortest), true
}

// Called counts a call. Every twentieth allows a second one.
func (w *Watch) Called() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.credit = min(w.credit+1, cost*saved)
}

// MuchLater returns the time after which a call takes much too long, given when it takes too
// long.
func MuchLater(after time.Duration) time.Duration { return after + after/2 }

// Spend reports whether a second call may be made, and counts it then. If it may not and the
// call does not take much too long yet, it may be asked again when it does.
func (w *Watch) Spend(muchTooLong bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	least := cost
	if !muchTooLong {
		least += forLate * cost
	}
	if w.credit < least {
		return false
	}
	w.credit -= cost
	return true
}

// Return gives back a second call that Spend has counted, because it was not made.
func (w *Watch) Return() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.credit += cost
}

// Left returns how many second calls may be made now.
func (w *Watch) Left() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.credit / cost
}
