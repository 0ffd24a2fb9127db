package front

import (
	"sync"
	"time"
)

// alarm is the deadline of reads. What the server sets is a wake-up call only: whether the
// time is really over is decided by the clock after waking. So it may stay too early, and
// need not be set for every read, which takes a lock and a timer of the runtime. A handler
// may set a limit of its own beside it.
type alarm struct {
	mu    sync.Mutex
	set   func(time.Time) error
	at    time.Time // what was set last; zero means none
	limit time.Time // of the handler; zero means none
}

// arrange makes sure that a read wakes at due or earlier.
func (a *alarm) arrange(due time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.at.IsZero() || a.at.After(due) {
		_ = a.change(due)
	}
}

// reset sets the deadline whatever was set before; the zero time takes it away.
func (a *alarm) reset(due time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !due.IsZero() || !a.at.IsZero() {
		_ = a.change(due)
	}
}

// bound sets the limit of the handler; the zero time takes it away.
func (a *alarm) bound(limit time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.limit.Equal(limit) {
		return nil
	}
	a.limit = limit
	return a.change(a.at)
}

// change sets the deadline. Its error can be left to the read that follows: only a closed
// connection refuses a deadline.
func (a *alarm) change(due time.Time) error {
	if !a.limit.IsZero() && (due.IsZero() || a.limit.Before(due)) {
		due = a.limit
	}
	a.at = due
	return a.set(due)
}

// isOver reports whether the limit of the handler is over.
func (a *alarm) isOver() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.limit.IsZero() && !time.Now().Before(a.limit)
}
