package breaker

import (
	"cmp"
	"time"
)

// Update replaces the settings and keeps state and counts. New thresholds act
// from the next result on; a new recovery timeout also moves the end of the pause
// that an open breaker is in. Switching the breaker on or off resets it.
func (b *Breaker) Update(settings Settings, now time.Time) {
	b.change(now, func() {
		if settings == b.settings {
			return
		}
		switched := settings.Enabled != b.settings.Enabled
		b.settings = settings
		if switched {
			b.reset()
		}
		b.publish()
	})
}

// Force lets an operator decide about the state until Auto releases the breaker,
// which then starts closed without failures. Asking for the present mode changes
// nothing, so the operator who asked first stays on record, with the time of that;
// Hold.Since is not read.
func (b *Breaker) Force(mode Mode, hold Hold, now time.Time) {
	b.change(now, func() {
		if mode == b.mode {
			return
		}
		b.mode = mode
		b.hold = Hold{}
		if mode != Auto {
			b.hold = Hold{By: cmp.Or(hold.By, "an operator"), Since: now, Reason: hold.Reason}
		}
		b.reset()
		b.publish()
	})
}

// Reachable tells the breaker that a health check which began at the given time and
// ended now was answered. A breaker that opened because the backend could not be
// connected to becomes half open then, before its recovery timeout is over: the
// cause of its opening has ended.
func (b *Breaker) Reachable(began, now time.Time) {
	b.change(now, func() {
		if b.awaitsCheck() && began.After(b.opened) {
			b.enter(HalfOpen)
			b.halfOpenedByCheck = true
			b.publish()
		}
	})
}

// AwaitsCheck reports whether a good health check would end the pause.
func (b *Breaker) AwaitsCheck() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.awaitsCheck()
}

func (b *Breaker) awaitsCheck() bool { return b.counting() && b.state == Open && b.unreachable }

// Hold says which operator forces the state of a breaker, since when, and why if
// that was said. It is zero where the breaker itself decides.
type Hold struct {
	By     string
	Since  time.Time
	Reason string
}

// HeldOpen returns the hold of an operator who forces the breaker open, and whether
// there is one.
func (b *Breaker) HeldOpen() (Hold, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hold, b.mode == ForcedOpen
}

// Snapshot is a breaker at one moment.
type Snapshot struct {
	State            State
	Forced           Mode // Auto where no operator forces the state
	Hold             Hold // who forces it
	FailureCount     int
	FailureThreshold int
	// SuccessCount is how many trials succeeded since the breaker is half open.
	SuccessCount     int
	SuccessThreshold int
	Timeout          time.Duration
	// Since is when the state or the mode changed last.
	Since       time.Time
	LastFailure time.Time // zero where there was none
	// FailingSince is the time of the first of the failures in a row, zero where there are
	// none.
	FailingSince time.Time
	// NextRetry is when an open breaker allows a trial, zero where the breaker is
	// not open or an operator holds it. It is in the past from the end of the
	// pause until the first trial begins.
	NextRetry time.Time
}

// Snapshot returns the breaker as it is now, and changes nothing.
func (b *Breaker) Snapshot() Snapshot {
	b.mu.Lock()
	defer b.mu.Unlock()
	shown := b.visible()
	s := Snapshot{
		State:            shown.state,
		Forced:           shown.mode,
		Hold:             b.hold,
		FailureCount:     b.failures,
		FailureThreshold: b.settings.FailureThreshold,
		SuccessCount:     b.successes,
		SuccessThreshold: b.settings.SuccessThreshold,
		Since:            b.changed,
		Timeout:          b.settings.RecoveryTimeout.Std(),
		LastFailure:      b.lastFailure,
	}
	if b.failures > 0 {
		s.FailingSince = b.failing
	}
	if b.state == Open {
		s.NextRetry = b.opened.Add(s.Timeout)
	}
	return s
}

// visibleState is the state and mode that snapshots and observers see.
type visibleState struct {
	state State
	mode  Mode
}

func (b *Breaker) visible() visibleState {
	if b.mode == ForcedOpen {
		return visibleState{Open, ForcedOpen}
	}
	return visibleState{b.state, b.mode}
}

// change changes the breaker under its lock and, after that, tells the observer if the
// state or the mode is another one.
func (b *Breaker) change(now time.Time, edit func()) {
	b.mu.Lock()
	before := b.visible()
	edit()
	after, failures := b.visible(), b.failures
	if after != before {
		b.changed = now
	}
	b.mu.Unlock()
	if after != before && b.observe != nil {
		b.observe(Change{From: before.state, To: after.state, Mode: after.mode, Failures: failures, At: now})
	}
}
