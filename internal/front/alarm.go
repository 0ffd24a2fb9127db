package front

import "time"

// alarm is the deadline of reads, used as a wake-up call only: whether the time is
// really over is decided by the clock after waking. So it may stay too early, and
// need not be set for every read, which takes a lock and a timer of the runtime.
type alarm struct {
	set func(time.Time) error
	at  time.Time // what was set last; zero means none
}

// arrange makes sure that a read wakes at due or earlier.
func (a *alarm) arrange(due time.Time) {
	if a.at.IsZero() || a.at.After(due) {
		a.reset(due)
	}
}

// reset sets the deadline whatever was set before. Its error is left to the read
// that follows: only a closed connection refuses a deadline.
func (a *alarm) reset(due time.Time) {
	a.at = due
	_ = a.set(due)
}

// clear takes the deadline away.
func (a *alarm) clear() {
	if !a.at.IsZero() {
		a.reset(time.Time{})
	}
}
