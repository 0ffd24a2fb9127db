package access

import (
	"sync/atomic"
	"time"
)

// activity counts the use of a key on this gateway since it started. The grants of the key
// share it; they change with the terms of the key.
type activity struct {
	last atomic.Int64 // in nanoseconds since 1970; 0 means never
	// today holds the day, counted from 1970, in its upper bits and the number of calls on that
	// day in the lower ones. One word holds both because they must change together.
	today atomic.Uint64
}

// callBits is the number of bits of activity.today for the calls.
const callBits = 40

func dayOf(now time.Time) uint64 { return uint64(max(now.Unix(), 0)) / (24 * 60 * 60) }

// note counts a call.
func (a *activity) note(now time.Time) {
	a.last.Store(now.UnixNano())
	day := dayOf(now) << callBits
	for {
		before := a.today.Load()
		next := before + 1
		if before>>callBits != day>>callBits {
			next = day + 1
		}
		if a.today.CompareAndSwap(before, next) {
			return
		}
	}
}

// calls returns how many calls there were on the day of now, in UTC.
func (a *activity) calls(now time.Time) int64 {
	today := a.today.Load()
	if today>>callBits != dayOf(now) {
		return 0
	}
	return int64(today & (1<<callBits - 1))
}

// Note counts a call with the key. A nil Grant counts nothing.
func (g *Grant) Note(now time.Time) {
	if g != nil && g.activity != nil {
		g.activity.note(now)
	}
}

// Activity returns when a key was used last on this gateway since it started, zero where
// it was not, and how many calls were made with it today (UTC).
func (c *Credentials) Activity(id string, now time.Time) (last time.Time, calls int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	used := c.activities[id]
	if used == nil {
		return time.Time{}, 0
	}
	if at := used.last.Load(); at != 0 {
		last = time.Unix(0, at).UTC()
	}
	return last, used.calls(now)
}

// activityOf returns the activity of a key, for its grants; mu is held.
func (c *Credentials) activityOf(id string) *activity {
	found := c.activities[id]
	if found == nil {
		found = new(activity)
		c.activities[id] = found
	}
	return found
}
