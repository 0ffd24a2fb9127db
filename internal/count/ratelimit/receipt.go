package ratelimit

import "time"

// Receipt holds the permits that a request took from a Lease, to give them back.
type Receipt struct {
	lease   *Lease
	permits int64
	answers int64
	held    bool
}

// Hold says that the request has to wait. Until Use or Return its permits count as not
// spent, and no one else gets them.
func (r *Receipt) Hold() {
	l := r.lease
	if l == nil || r.held {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.window == 0 { // a window forgets requests by when they came
		r.held = true
		l.held += r.permits
		l.noteOnce()
	}
}

// Use says that the wait is over and that the request goes on.
func (r *Receipt) Use() {
	if r.held {
		r.held = false
		r.lease.mu.Lock()
		r.lease.held -= r.permits
		r.lease.mu.Unlock()
	}
}

// Return gives back the permits of the request. They are lost if the central store has
// counted them as spent meanwhile.
func (r *Receipt) Return(now time.Time) {
	l := r.lease
	if l == nil {
		return
	}
	wasHeld := r.held
	r.Use()
	r.lease = nil
	l.mu.Lock()
	defer l.mu.Unlock()
	if !wasHeld && r.answers != l.answers {
		return
	}
	if l.window > 0 {
		l.unspend(r.permits, now)
	}
	if l.pool.IsAway() {
		l.share.level += float64(r.permits)
	} else {
		l.permits += r.permits
	}
	l.noteOnce()
}
