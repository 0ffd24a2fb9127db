package calls

import (
	"sync"
	"time"
)

const (
	breakerWindow    = time.Minute
	breakerFailures  = 10  // failures in a window that open it
	breakerRate      = 0.5 // part of failures in a window that opens it
	breakerLeast     = 5   // deliveries in a window before the rate counts
	breakerPause     = 30 * time.Second
	breakerSuccesses = 3 // good trials that close it
)

// BreakerState is a state of the pipeline's circuit breaker.
type BreakerState uint8

// The states.
const (
	BreakerClosed BreakerState = iota
	BreakerOpen
	BreakerHalfOpen
)

// String returns the name in capitals.
func (s BreakerState) String() string { return [...]string{"CLOSED", "OPEN", "HALF_OPEN"}[s] }

// breaker is the circuit breaker between the outbox and the exporter. It counts
// deliveries in windows of a minute. Forced open, it lets nothing pass until it
// is forced closed, which also resets it.
type breaker struct {
	mu        sync.Mutex
	state     BreakerState
	forced    bool
	began     time.Time // of the window
	opened    time.Time
	failures  int
	successes int
}

// BreakerStats is the state of the breaker at one moment.
type BreakerStats struct {
	State                         BreakerState
	Failures, Successes, Requests int
	FailureRate                   float64
}

func (b *breaker) stats() BreakerStats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := BreakerStats{State: b.state, Failures: b.failures, Successes: b.successes, Requests: b.failures + b.successes}
	if s.Requests > 0 {
		s.FailureRate = float64(s.Failures) / float64(s.Requests)
	}
	return s
}

// allow reports whether a delivery may be tried. The first one after the pause is a trial.
func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.forced {
		return false
	}
	if b.state == BreakerOpen {
		if now.Sub(b.opened) < breakerPause {
			return false
		}
		b.enter(BreakerHalfOpen, now)
	}
	return true
}

// done counts a delivery.
func (b *breaker) done(ok bool, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.forced {
		return
	}
	if b.state == BreakerClosed && now.Sub(b.began) >= breakerWindow {
		b.enter(BreakerClosed, now)
	}
	if ok {
		b.successes++
	} else {
		b.failures++
	}
	total := b.failures + b.successes
	switch {
	case b.state == BreakerHalfOpen && !ok,
		b.state == BreakerClosed && !ok && (b.failures >= breakerFailures ||
			total >= breakerLeast && float64(b.failures) >= breakerRate*float64(total)):
		b.state, b.opened = BreakerOpen, now
	case b.state == BreakerHalfOpen && b.successes >= breakerSuccesses:
		b.enter(BreakerClosed, now)
	}
}

// enter changes the state and resets the counts.
func (b *breaker) enter(state BreakerState, now time.Time) {
	b.state, b.began = state, now
	b.failures, b.successes = 0, 0
}

func (b *breaker) forceOpen(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state, b.forced, b.opened = BreakerOpen, true, now
}

func (b *breaker) forceClose(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forced = false
	b.enter(BreakerClosed, now)
}

// isForcedOpen reports whether an operator holds the breaker open.
func (b *breaker) isForcedOpen() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.forced
}
