package transport

import "time"

// alarm is one deadline of a connection, used as a wake-up call only: whether
// patience has really run out is decided by the clock after waking. So the
// deadline may stay too early, which is harmless, and setting it, which takes
// a lock and a timer of the runtime, is needed about once per limit instead of
// once per read.
type alarm struct {
	set func(time.Time) error
	at  time.Time // what was set last; zero: none
}

// arrange makes sure that an operation wakes at due or earlier; a zero due
// means that it need not.
func (a *alarm) arrange(due time.Time) {
	if due.IsZero() || !a.at.IsZero() && !a.at.After(due) {
		return
	}
	a.reset(due)
}

// reset sets the deadline whatever was set before. Its error is left to the
// operation that follows: only a closed connection refuses a deadline.
func (a *alarm) reset(due time.Time) {
	a.at = due
	_ = a.set(due)
}

// after is now+limit, or no time at all when there is no limit.
func after(now time.Time, limit time.Duration) time.Time {
	if limit <= 0 {
		return time.Time{}
	}
	return now.Add(limit)
}
