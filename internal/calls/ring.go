package calls

import (
	"errors"
	"sync"
)

// ring keeps the latest calls.
type ring struct {
	mu    sync.RWMutex
	calls []Call // full from the start; those with no request id are empty
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

const (
	maxSubscribers = 32
	// subscriberRoom is how many calls a reader may fall behind.
	subscriberRoom = 512
)

// Why nobody can subscribe.
var (
	ErrSubscribers = errors.New("too many subscribers")
	ErrClosed      = errors.New("the gateway is shutting down")
)

// Subscription gets calls as they are recorded.
type Subscription struct {
	// Calls is closed when the subscription has ended: by Close, by a shutdown,
	// or because the reader was too slow.
	Calls <-chan Call

	calls chan Call
	hub   *hub
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	s.hub.drop(s)
}

// hub passes calls to subscribers and never waits for one.
type hub struct {
	mu     sync.Mutex
	subs   map[*Subscription]struct{}
	closed bool
}

func (h *hub) subscribe() (*Subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return nil, ErrClosed
	case len(h.subs) >= maxSubscribers:
		return nil, ErrSubscribers
	}
	if h.subs == nil {
		h.subs = map[*Subscription]struct{}{}
	}
	calls := make(chan Call, subscriberRoom)
	s := &Subscription{Calls: calls, calls: calls, hub: h}
	h.subs[s] = struct{}{}
	return s, nil
}

func (h *hub) drop(s *Subscription) {
	if _, there := h.subs[s]; there {
		delete(h.subs, s)
		close(s.calls)
	}
}

// publish returns how many subscribers were dropped for being too slow.
func (h *hub) publish(batch []Call) (dropped int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs {
		for i := range batch {
			select {
			case s.calls <- batch[i]:
				continue
			default:
			}
			h.drop(s)
			dropped++
			break
		}
	}
	return dropped
}

func (h *hub) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.subs)
}

// close ends every subscription and allows no more.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.subs {
		h.drop(s)
	}
}
