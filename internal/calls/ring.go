package calls

import "sync"

// ring keeps the latest calls.
type ring struct {
	mu    sync.RWMutex
	calls []Call // has its full length from the start; the first count calls before next are valid
	next  int    // where the next call goes
	count int
}

func newRing(size int) *ring { return &ring{calls: make([]Call, size)} }

func (r *ring) add(batch []Call) {
	if len(r.calls) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range batch {
		r.calls[r.next] = batch[i]
		r.next = (r.next + 1) % len(r.calls)
		r.count = min(r.count+1, len(r.calls))
	}
}

// latest passes on the calls, the newest first, until yield returns false.
func (r *ring) latest(yield func(*Call) bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for n := range r.count {
		c := &r.calls[(r.next-1-n+2*len(r.calls))%len(r.calls)]
		if !yield(c) {
			return
		}
	}
}
