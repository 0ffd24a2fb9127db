package quota

import (
	"context"
	"time"
)

const (
	// expireEvery is the time between two removals of rows beyond the retention,
	// and expireBatch how many rows one statement removes.
	expireEvery = 10 * time.Minute
	expireBatch = 1000
	// When the wall clock jumps by more than maxJump, nothing is removed for
	// distrustFor.
	maxJump     = time.Hour
	distrustFor = 24 * time.Hour
)

// expirySchedule decides when old rows may be removed. It trusts the wall clock
// only as long as that agrees with the monotonic clock.
type expirySchedule struct {
	wall, elapsed time.Time // at the last look: the clock's word, and the process's
	notBefore     time.Time // nothing is removed before, by the process's time
	last          time.Time // when something was removed, by the process's time
}

// due reports whether it is time to remove old rows. Its first call only stores
// both clocks.
func (r *expirySchedule) due(wall, passed time.Time) bool {
	if r.wall.IsZero() {
		r.wall, r.elapsed, r.last = wall, passed, passed
		return false
	}
	// Round strips the monotonic reading: the wall clocks are compared here.
	jump := wall.Round(0).Sub(r.wall.Round(0)) - passed.Sub(r.elapsed)
	r.wall, r.elapsed = wall, passed
	if jump.Abs() > maxJump {
		r.notBefore = passed.Add(distrustFor)
	}
	if passed.Before(r.notBefore) || passed.Sub(r.last) < expireEvery {
		return false
	}
	r.last = passed
	return true
}

// expire removes rows that are older than the retention, in small batches.
func (s *session) expire(ctx context.Context) {
	now := s.now()
	if !s.expiry.due(now, time.Now()) {
		return
	}
	s.room = -1 // other gateways write runs, too
	store, err := s.snapshots(ctx)
	for w := Minute; int(w) < WindowCount && err == nil; w++ {
		if w == BudgetTotal {
			continue // kept for good
		}
		removed := expireBatch
		for removed == expireBatch && err == nil {
			removed, err = store.Expire(ctx, w, w.cutoff(now, s.settings.Retention.Of(w)), expireBatch)
			s.ledger.stats.rowsExpired.Add(int64(removed))
		}
	}
	if err != nil {
		s.storeState.setError(err)
	}
}

// cutoff returns the start of the oldest window that is kept: windows that began
// before it have ended before the retention begins.
func (w Window) cutoff(now time.Time, keep Period) time.Time {
	// The window at the beginning of the retention is kept whole.
	return w.Start(keep.Before(now))
}
