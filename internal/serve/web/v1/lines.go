package v1

import (
	"math"
	"sync"
	"sync/atomic"
)

// lines counts the lines of batches among the running requests.
type lines struct {
	mu      sync.Mutex
	running int64
}

// roomForLines returns how many lines of batches may run at a time with so many other requests.
// The bound of all requests is most; 0 is none. Lines hold nine tenths of it and never the last
// place. Of a single place a line holds that, while nothing else runs.
func roomForLines(most int, others int64) int64 {
	switch {
	case most <= 0:
		return math.MaxInt64
	case most == 1:
		return max(1-others, 0)
	}
	return max(min(int64(most)*9/10, int64(most)-1-others), 0)
}

// take counts a line among the running requests, and reports false if it has to wait.
func (l *lines) take(running *atomic.Int64, most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		all := running.Load()
		if l.running >= roomForLines(most, all-l.running) {
			return false
		}
		if running.CompareAndSwap(all, all+1) { // else another request came or ended
			l.running++
			return true
		}
	}
}

// giveBack counts a line less.
func (l *lines) giveBack(running *atomic.Int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	running.Add(-1)
}

// RoomForLines returns how many lines of batches may run at a time now, with the running ones.
func (a *API) RoomForLines() int {
	a.lines.mu.Lock()
	defer a.lines.mu.Unlock()
	others := a.running.Load() - a.lines.running
	return int(roomForLines(a.current.Load().Limits.MaxInFlight, others))
}
