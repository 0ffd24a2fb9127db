package calls

import (
	"sync"
	"time"
)

const (
	guardWindow    = time.Minute
	guardFailures  = 10  // in a window open it
	guardRate      = 0.5 // opens it, too
	guardLeast     = 5   // deliveries before the rate counts
	guardPause     = 30 * time.Second
	guardSuccesses = 3 // trials that close it
)

// GuardState is a state of the pipeline's circuit breaker.
type GuardState uint8

// The states.
const (
	GuardClosed GuardState = iota
	GuardOpen
	GuardHalfOpen
)

// String returns the name in capitals.
func (s GuardState) String() string { return [...]string{"CLOSED", "OPEN", "HALF_OPEN"}[s] }

// guard is the circuit breaker between the outbox and the exporter. It counts
// deliveries in windows of a minute. Forced open it lets nothing pass until it
// is forced closed; forcing it closed makes it a new one.
type guard struct {
	mu        sync.Mutex
	state     GuardState
	forced    bool
	began     time.Time // of the window
	opened    time.Time
	failures  int
	successes int
}

// GuardStats are the breaker at one moment.
type GuardStats struct {
	State                         GuardState
	Forced                        bool
	Failures, Successes, Requests int
	FailureRate                   float64
}

func (g *guard) stats() GuardStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := GuardStats{State: g.state, Forced: g.forced, Failures: g.failures, Successes: g.successes, Requests: g.failures + g.successes}
	if s.Requests > 0 {
		s.FailureRate = float64(s.Failures) / float64(s.Requests)
	}
	return s
}

// allow tells whether a delivery may be tried; after the pause it is a trial.
func (g *guard) allow(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.forced {
		return false
	}
	if g.state == GuardOpen {
		if now.Sub(g.opened) < guardPause {
			return false
		}
		g.enter(GuardHalfOpen, now)
	}
	return true
}

// done counts a delivery.
func (g *guard) done(ok bool, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.forced {
		return
	}
	if g.state == GuardClosed && now.Sub(g.began) >= guardWindow {
		g.enter(GuardClosed, now)
	}
	if ok {
		g.successes++
	} else {
		g.failures++
	}
	total := g.failures + g.successes
	switch {
	case g.state == GuardHalfOpen && !ok,
		g.state == GuardClosed && !ok && (g.failures >= guardFailures || total >= guardLeast && float64(g.failures) >= guardRate*float64(total)):
		g.state, g.opened = GuardOpen, now
	case g.state == GuardHalfOpen && g.successes >= guardSuccesses:
		g.enter(GuardClosed, now)
	}
}

// enter begins to count anew in a state.
func (g *guard) enter(state GuardState, now time.Time) {
	g.state, g.began = state, now
	g.failures, g.successes = 0, 0
}

func (g *guard) forceOpen(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state, g.forced, g.opened = GuardOpen, true, now
}

func (g *guard) forceClose(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.forced = false
	g.enter(GuardClosed, now)
}

func (g *guard) held() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.forced
}
