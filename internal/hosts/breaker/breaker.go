package breaker

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Breaker is the circuit breaker of one instance. All methods may be called at
// the same time. Only differences between the times passed in matter, and they
// are taken on the monotonic clock where the times carry it.
type Breaker struct {
	// gate is all that the hot path reads, in one word: flags and above them the
	// generation. publish derives it from the fields below.
	gate atomic.Uint64
	// retryAt is when an open breaker allows a trial, counted from start.
	retryAt atomic.Int64

	start   time.Time
	observe func(Change)
	keys    keys

	mu          sync.Mutex
	settings    Settings
	mode        Mode
	hold        Hold // who set the mode, where it is not Auto
	state       State
	generation  uint64
	failures    int // in a row
	trials      int // in flight
	successes   int // of trials, since the breaker is half open
	opened      time.Time
	changed     time.Time // the last visible change
	lastFailure time.Time
	failing     time.Time // when the first of the failures in a row was
	// culprit is the one key with calls behind all of the failures in a row, each answered
	// with an error; noKey where there is no such key.
	culprit keyHash
	// unreachable means that the breaker opened because the backend could not be
	// connected to, and halfOpenedByCheck that a health check made it half open.
	unreachable, halfOpenedByCheck bool
}

// The flags of the gate.
const (
	gatePasses uint64 = 1 << iota // a call may pass
	gateTrial                     // calls that pass are trials: take one under the lock
	gateTimed                     // a call may pass from retryAt on
	gateClean                     // a success would change nothing

	gateFlagBits = iota
)

// Permit is the right to make one call. It has the generation of the breaker's
// state in which it was given: a late result cannot disturb a later state. The zero
// value belongs to no generation.
type Permit struct {
	// Key is the id of the caller's API key, empty without one. It may be set at any time
	// before the permit is given back.
	Key        string
	generation uint64
	// answered says that the call was a trial which succeeded already, because
	// its answer has begun.
	answered bool
}

// Change tells an observer that a breaker has another state or mode.
type Change struct {
	From, To State
	Mode     Mode
	Failures int // in a row, at the moment of the change
	At       time.Time
}

// New returns a closed breaker with settings that passed Check. The observer may
// be nil; it is called once for each change, without a lock held, in the
// goroutine that caused it.
func New(settings Settings, start time.Time, observe func(Change)) *Breaker {
	b := &Breaker{start: start, observe: observe, keys: newKeys(), settings: settings, generation: 1, changed: start}
	b.publish()
	return b
}

// Ready reports whether a call could pass now. It changes nothing.
func (b *Breaker) Ready(now time.Time) bool {
	gate := b.gate.Load()
	if gate&gatePasses != 0 {
		return true
	}
	return gate&gateTimed != 0 && b.sinceStart(now) >= b.retryAt.Load()
}

// Closed reports whether calls pass, and not only as trials.
func (b *Breaker) Closed() bool { return b.gate.Load()&(gatePasses|gateTrial) == gatePasses }

// Acquire takes the permit for one call, which must be given back by one Done.
// False means that the breaker refuses, perhaps because others took the last
// trial since Ready was asked.
func (b *Breaker) Acquire(now time.Time) (Permit, bool) {
	gate := b.gate.Load()
	if gate&(gatePasses|gateTrial) == gatePasses {
		return Permit{generation: gate >> gateFlagBits}, true
	}
	// A refusal must be cheap, because many requests may ask while the breaker is open.
	if !b.Ready(now) {
		return Permit{}, false
	}
	return b.acquireTrial(now)
}

func (b *Breaker) acquireTrial(now time.Time) (permit Permit, isAcquired bool) {
	b.change(now, func() {
		// The result of Ready may be outdated by now.
		if !b.Ready(now) {
			return
		}
		if b.counting() && b.state == Open {
			b.enter(HalfOpen)
		}
		if b.counting() && b.state == HalfOpen {
			b.trials++
		}
		b.publish()
		permit, isAcquired = Permit{generation: b.generation}, true
	})
	return permit, isAcquired
}

// Answered says that the answer to a call has begun, and returns the permit for
// the rest of the call, which is given back by Done as before. A trial is a
// success from here on, however long its answer lasts; otherwise a few long
// streams would keep a backend that has recovered out of traffic until they end.
func (b *Breaker) Answered(permit Permit, now time.Time) Permit {
	gate := b.gate.Load()
	if gate&gateTrial == 0 || gate>>gateFlagBits != permit.generation || permit.answered {
		return permit
	}
	b.Done(permit, Success, now)
	permit.answered = true
	return permit
}

// Done gives a permit back with the outcome of its call. A result of an earlier
// generation is ignored.
func (b *Breaker) Done(permit Permit, outcome Outcome, now time.Time) {
	if outcome == Success && permit.Key != "" {
		b.keys.succeeded(b.keys.hash(permit.Key), b.sinceStart(now))
	}
	if permit.answered {
		b.doneAfterAnswer(permit, outcome, now)
		return
	}
	gate := b.gate.Load()
	if gate>>gateFlagBits != permit.generation {
		return
	}
	if outcome == Success && gate&gateClean != 0 || outcome == Cancelled && gate&gateTrial == 0 {
		return
	}
	b.change(now, func() {
		if b.generation == permit.generation && b.counting() {
			b.settle(permit, outcome, now)
			b.publish()
		}
	})
}

// doneAfterAnswer ends a call that was a trial and succeeded as such. If it broke
// later, that is a failure of the breaker that its success helped to close, or of
// the recovery that is still going on.
func (b *Breaker) doneAfterAnswer(permit Permit, outcome Outcome, now time.Time) {
	b.change(now, func() {
		recovering := b.state == HalfOpen && b.generation == permit.generation
		// Only trials that succeed lead to the generation after a half-open one.
		recovered := b.state == Closed && b.generation == permit.generation+1
		if b.counting() && (recovered || recovering && outcome.Failed()) {
			b.count(permit, outcome, now)
			b.publish()
		}
	})
}

// settle counts the result of a call that began in the present generation.
// An open breaker gives no permits, so there are two cases.
func (b *Breaker) settle(permit Permit, outcome Outcome, now time.Time) {
	if b.state == HalfOpen {
		if b.trials == 0 {
			return // given back twice
		}
		b.trials--
	}
	b.count(permit, outcome, now)
}

// count takes an outcome into account.
func (b *Breaker) count(permit Permit, outcome Outcome, now time.Time) {
	switch outcome {
	case Failure, Refused, Reset, Errored:
		b.blame(permit, outcome)
		if b.failures == 0 {
			b.failing = now
		}
		b.failures++
		b.lastFailure = now
		if b.state == HalfOpen || b.failures >= b.settings.FailureThreshold && !b.isExcused(now) {
			b.opened = now
			// If a backend answers checks but breaks the connections of calls, only the
			// first pause is shortened by a check.
			b.unreachable = outcome == Refused || outcome == Reset && !b.halfOpenedByCheck
			b.enter(Open)
		}
	case Success:
		if b.state == Closed {
			b.failures = 0
			return
		}
		b.successes++
		if b.successes >= b.settings.SuccessThreshold {
			b.reset()
		}
	case Cancelled:
	}
}

// blame notes the key of a failed call.
func (b *Breaker) blame(permit Permit, outcome Outcome) {
	whose := noKey
	if outcome == Errored && permit.Key != "" {
		whose = b.keys.hash(permit.Key)
	}
	if b.failures > 0 && whose != b.culprit {
		whose = noKey
	}
	b.culprit = whose
}

// isExcused reports whether the failures in a row say more about the calls of one key than
// about the backend: calls of another key succeeded within the recovery timeout.
func (b *Breaker) isExcused(now time.Time) bool {
	return b.culprit != noKey && b.keys.hasOther(b.culprit, b.sinceStart(now)-int64(b.settings.RecoveryTimeout))
}

// RetryAfter returns how long to wait for the next trial: 0 if a call could pass
// now, trialsTakenPause while all trials are taken, and the recovery timeout while an
// operator holds the breaker open (see HeldOpen).
func (b *Breaker) RetryAfter(now time.Time) time.Duration {
	if b.Ready(now) {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.visible() {
	case visibleState{Open, Auto}:
		return max(0, time.Duration(b.retryAt.Load())-time.Duration(b.sinceStart(now)))
	case visibleState{Open, ForcedOpen}:
		return b.settings.RecoveryTimeout.Std()
	case visibleState{HalfOpen, Auto}:
		return trialsTakenPause
	}
	return 0
}

// trialsTakenPause is the wait that callers are told while all trials are taken.
const trialsTakenPause = time.Second

func (b *Breaker) sinceStart(now time.Time) int64 { return int64(now.Sub(b.start)) }

// counting reports whether results count: the breaker is enabled and not forced.
// Forcing takes precedence over the settings and works on a disabled breaker too.
func (b *Breaker) counting() bool { return b.mode == Auto && b.settings.Enabled }

// enter begins a new generation in the given state.
func (b *Breaker) enter(state State) {
	b.state = state
	b.generation++
	b.trials, b.successes, b.halfOpenedByCheck = 0, 0, false
}

// reset enters the state of a new breaker.
func (b *Breaker) reset() {
	b.enter(Closed)
	b.failures = 0
}

// publish derives the word that the hot path reads; it ends every change of the
// fields.
func (b *Breaker) publish() {
	if b.state == Open {
		b.retryAt.Store(saturatingAdd(b.sinceStart(b.opened), int64(b.settings.RecoveryTimeout)))
	}
	b.gate.Store(b.generation<<gateFlagBits | b.flags())
}

func (b *Breaker) flags() uint64 {
	if b.mode == ForcedOpen {
		return 0
	}
	if !b.counting() {
		return gatePasses | gateClean
	}
	if b.state == Open {
		return gateTimed
	}
	if b.state == HalfOpen && b.trials < b.settings.SuccessThreshold {
		return gatePasses | gateTrial
	}
	if b.state == HalfOpen {
		return gateTrial
	}
	if b.failures == 0 {
		return gatePasses | gateClean
	}
	return gatePasses
}

// saturatingAdd keeps a recovery timeout that means "never" from turning into
// one that is over already.
func saturatingAdd(a, b int64) int64 {
	if sum := a + b; sum >= a {
		return sum
	}
	return math.MaxInt64
}

// State is the way a breaker treats calls.
type State = schema.Choice[state]

type state struct{}

func (state) Names() []string { return []string{"CLOSED", "OPEN", "HALF_OPEN"} }

// The states. The zero value is the one that a breaker starts in.
const (
	Closed   State = iota // calls pass, failures in a row are counted
	Open                  // calls are refused until the recovery timeout is over
	HalfOpen              // a few calls pass as trials
)

// Outcome is the evidence of a call about its backend, after a breaker let it pass.
type Outcome uint8

// The outcomes. Cancelled says nothing: a trial is given back and no count changes.
// It also serves for replies that are no fault of the backend but no proof of its
// health either. Refused (nobody was at the address) and Reset (an established
// connection broke) are failures that a health check can find over; see Reachable.
// Errored is an error that the backend answered with: the caller's request may be
// at fault.
const (
	Success Outcome = iota
	Failure
	Cancelled
	Refused
	Reset
	Errored
)

// Failed reports whether the outcome is one of the failures.
func (o Outcome) Failed() bool { return o == Failure || o == Refused || o == Reset || o == Errored }

// LostConnection reports whether the call failed because the connection could not be made or
// broke.
func (o Outcome) LostConnection() bool { return o == Refused || o == Reset }

// Mode is who decides about the state: the breaker or an operator.
type Mode = schema.Choice[mode]

type mode struct{}

func (mode) Names() []string { return []string{"AUTO", "OPEN", "CLOSED"} }

// The modes. The zero value leaves the decision to the breaker.
const (
	Auto Mode = iota
	ForcedOpen
	ForcedClosed
)
