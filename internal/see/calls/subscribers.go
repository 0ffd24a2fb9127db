package calls

import (
	"errors"
	"sync"
	"sync/atomic"
)

const (
	maxSubscribers = 32
	// subscriberRoom is how many calls a reader may fall behind.
	subscriberRoom = 512
)

// The reasons to refuse a subscription.
var (
	ErrSubscribers = errors.New("too many subscribers")
	ErrClosed      = errors.New("the gateway is shutting down")
)

// Subscription gets calls as they are recorded.
type Subscription struct {
	// Calls is closed when the subscription has ended: by Close, by a shutdown,
	// or because the reader was too slow.
	Calls <-chan Record

	calls       chan Record
	subscribers *subscribers
	// mayMiss says that a reader who is too slow misses calls and stays.
	mayMiss bool
	missed  atomic.Int64
}

// Missed returns how many calls were left out since it was last asked, because
// the reader was too slow.
func (s *Subscription) Missed() int64 { return s.missed.Swap(0) }

// Close ends the subscription.
func (s *Subscription) Close() {
	s.subscribers.mu.Lock()
	defer s.subscribers.mu.Unlock()
	s.subscribers.drop(s)
}

// subscribers are the readers of calls as they are recorded. Nothing waits for a slow one:
// it is dropped, or misses calls.
type subscribers struct {
	mu     sync.Mutex
	all    map[*Subscription]struct{}
	closed bool
}

func (s *subscribers) subscribe(mayMiss bool) (*Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return nil, ErrClosed
	case len(s.all) >= maxSubscribers:
		return nil, ErrSubscribers
	}
	if s.all == nil {
		s.all = map[*Subscription]struct{}{}
	}
	calls := make(chan Record, subscriberRoom)
	one := &Subscription{Calls: calls, calls: calls, subscribers: s, mayMiss: mayMiss}
	s.all[one] = struct{}{}
	return one, nil
}

func (s *subscribers) drop(one *Subscription) {
	if _, there := s.all[one]; there {
		delete(s.all, one)
		close(one.calls)
	}
}

// publish returns how many subscribers were dropped for being too slow.
func (s *subscribers) publish(batch []Record) (dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for one := range s.all {
		for i := range batch {
			select {
			case one.calls <- batch[i]:
				continue
			default:
			}
			if one.mayMiss {
				one.missed.Add(int64(len(batch) - i))
				break
			}
			s.drop(one)
			dropped++
			break
		}
	}
	return dropped
}

func (s *subscribers) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.all)
}

// close ends every subscription and allows no more.
func (s *subscribers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for one := range s.all {
		s.drop(one)
	}
}
