package backend

import "time"

// Overloaded records that the instance said that it is too busy, and is to be
// avoided until then.
func (s *State) Overloaded(until time.Time) {
	s.overload.Store(int64(until.Sub(s.since)))
	s.changes.note()
}

// overloadedFor returns for how long the instance is still to be avoided.
func (s *State) overloadedFor(now time.Time) time.Duration {
	until := s.overload.Load()
	if until == 0 {
		return 0
	}
	return max(0, time.Duration(until)-now.Sub(s.since))
}

// Avoided reports whether the instance is used only if no other one is available: a
// call could not connect to it, or it said that it is too busy.
func (s *State) Avoided(now time.Time) bool {
	return s.Health.Marked() || s.overloadedFor(now) > 0
}
