package backend

import "time"

// Overloaded notes that the instance has too much to do and is to be left alone
// until then, though it has not failed.
func (s *State) Overloaded(until time.Time) { s.overload.Store(int64(until.Sub(s.since))) }

// overloadedFor returns for how long the instance is still to be left alone.
func (s *State) overloadedFor(now time.Time) time.Duration {
	until := s.overload.Load()
	if until == 0 {
		return 0
	}
	return max(0, time.Duration(until)-now.Sub(s.since))
}

// Avoided tells that the instance is passed over where another one is well, and
// tried where none is: traffic found nobody at its address, or it said that it has
// too much to do.
func (s *State) Avoided(now time.Time) bool {
	return s.Health.Marked() || s.overloadedFor(now) > 0
}
