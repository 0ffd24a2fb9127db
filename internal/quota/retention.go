package quota

import (
	"context"
	"time"
)

const (
	// expireEvery is the time between two removals of what is too old, and
	// expireBatch how many rows one statement removes.
	expireEvery = 10 * time.Minute
	expireBatch = 1000
	// A clock that moved by more than maxJump against the time that passed is
	// not trusted with removing anything for distrust.
	maxJump  = time.Hour
	distrust = 24 * time.Hour
)

// retainer decides when old counts may be removed. It trusts a clock only as
// long as the clock agrees with the time that passes.
type retainer struct {
	wall, passed time.Time // at the last look: the clock's word, and the process's
	not          time.Time // nothing is removed before, by the process's time
	last         time.Time // when something was removed, by the process's time
}

// due tells whether it is time to remove what is too old. Its first call only
// looks at the clocks.
func (r *retainer) due(wall, passed time.Time) bool {
	if r.wall.IsZero() {
		r.wall, r.passed, r.last = wall, passed, passed
		return false
	}
	// Round takes the monotonic reading off: this is about the wall clock.
	jump := wall.Round(0).Sub(r.wall.Round(0)) - passed.Sub(r.passed)
	r.wall, r.passed = wall, passed
	if jump.Abs() > maxJump {
		r.not = passed.Add(distrust)
	}
	if passed.Before(r.not) || passed.Sub(r.last) < expireEvery {
		return false
	}
	r.last = passed
	return true
}

// expire removes what is older than the retention, a little at a time.
func (s *session) expire(ctx context.Context) {
	now := s.now()
	if !s.retain.due(now, time.Now()) {
		return
	}
	store, err := s.snapshots(ctx)
	for w := Minute; int(w) < WindowCount && err == nil; w++ {
		removed := expireBatch
		for removed == expireBatch && err == nil {
			removed, err = store.Expire(ctx, w, w.cutoff(now, s.settings.Retention.Of(w)), expireBatch)
			s.ledger.stats.rowsExpired.Add(int64(removed))
		}
	}
	if err != nil {
		s.stored.note(err)
	}
}

// cutoff returns the moment before which a window must have begun to be too old
// at a time: it ended before the retention.
func (w Window) cutoff(now time.Time, keep Period) time.Time {
	// The window in which the retention begins is kept whole.
	return w.Start(keep.Before(now))
}
