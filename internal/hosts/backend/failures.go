package backend

import (
	"sync"
	"time"
)

const (
	// failuresKept is the number of failed requests that an instance remembers, and
	// failureMemory how long it does. Clients repeat a request within seconds.
	failuresKept  = 64
	failureMemory = 2 * time.Minute
)

// failures are the requests that failed at an instance lately.
type failures struct {
	mu     sync.Mutex
	recent []failedRequest // a ring
	next   int
}

type failedRequest struct {
	digest uint64
	at     time.Time
}

// FailedBefore reports whether a request with the digest failed at the instance a
// short while ago, and notes that one failed now. It keeps the time of the first
// failure: a request that is repeated for ever still counts now and then.
func (s *State) FailedBefore(digest uint64, now time.Time) bool {
	f := &s.failures
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.recent {
		known := &f.recent[i]
		if known.digest != digest {
			continue
		}
		if now.Sub(known.at) < failureMemory {
			return true
		}
		known.at = now
		return false
	}
	noted := failedRequest{digest, now}
	if len(f.recent) < failuresKept {
		f.recent = append(f.recent, noted)
		return false
	}
	f.recent[f.next] = noted
	f.next = (f.next + 1) % failuresKept
	return false
}
