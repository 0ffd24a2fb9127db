package transport

import "time"

// alarm is one deadline of a connection. It may be too early: whoever is woken by it
// checks the clock and continues if the limit is not reached. So the deadline, which
// takes a lock and a timer of the runtime, is set about once per limit instead of
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
