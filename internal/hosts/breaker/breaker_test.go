package breaker

import (
	"encoding"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"pgregory.net/rapid"
)

// rig is a breaker with a clock that only the test moves.
type rig struct {
	t *testing.T
	*Breaker
	now     time.Time
	changes []string
}

func newRig(t *testing.T, settings Settings) *rig {
	r := &rig{t: t, now: time.Now()}
	r.Breaker = New(settings, r.now, func(c Change) {
		text := c.From.String() + ">" + c.To.String()
		if c.Mode != Auto {
			text += " forced"
		}
		r.changes = append(r.changes, text)
	})
	return r
}

// settings with thresholds that are easy to follow.
func small() Settings {
	return Settings{Enabled: true, FailureThreshold: 3, RecoveryTimeout: schema.Duration(10 * time.Second), SuccessThreshold: 2}
}

func (r *rig) after(d time.Duration) { r.now = r.now.Add(d) }

func (r *rig) acquire() Permit {
	r.t.Helper()
	if !r.Ready(r.now) {
		r.t.Fatal("not ready")
	}
	permit, ok := r.Acquire(r.now)
	if !ok {
		r.t.Fatal("refused")
	}
	return permit
}

func (r *rig) refuses() {
	r.t.Helper()
	if r.Ready(r.now) {
		r.t.Fatal("ready")
	}
	if _, ok := r.Acquire(r.now); ok {
		r.t.Fatal("let a call pass")
	}
}

func (r *rig) call(outcomes ...Outcome) {
	r.t.Helper()
	for _, outcome := range outcomes {
		r.Done(r.acquire(), outcome, r.now)
	}
}

func (r *rig) is(state State, failures int) {
	r.t.Helper()
	if s := r.Snapshot(); s.State != state || s.FailureCount != failures {
		r.t.Fatalf("%v with %d failures, want %v with %d", s.State, s.FailureCount, state, failures)
	}
}

func TestFailuresInARowOpen(t *testing.T) {
	r := newRig(t, small())
	r.call(Failure, Failure, Success, Failure, Failure)
	r.is(Closed, 2)
	r.call(Cancelled)
	r.is(Closed, 2)
	r.call(Failure)
	r.is(Open, 3)
	r.refuses()
}

func TestCancelledCallsAreNoFailures(t *testing.T) {
	r := newRig(t, small())
	for range 50 {
		r.call(Cancelled)
	}
	r.is(Closed, 0)
}

func TestRecovery(t *testing.T) {
	r := newRig(t, small())
	r.call(Failure, Failure, Failure)
	r.after(10*time.Second - 1)
	r.refuses()
	r.after(1)
	r.is(Open, 3) // until a trial begins
	first, second := r.acquire(), r.acquire()
	r.is(HalfOpen, 3)
	r.refuses() // both trials are taken
	r.Done(first, Cancelled, r.now)
	first = r.acquire() // given back
	r.refuses()
	r.Done(first, Success, r.now)
	r.is(HalfOpen, 3)
	third := r.acquire() // at most two at a time, not two in all
	r.Done(second, Success, r.now)
	r.is(Closed, 0)
	r.Done(third, Failure, r.now) // a trial of a recovery that is over
	r.is(Closed, 0)
	want := []string{"CLOSED>OPEN", "OPEN>HALF_OPEN", "HALF_OPEN>CLOSED"}
	if diff := cmp.Diff(want, r.changes); diff != "" {
		t.Error(diff)
	}
}

// A trial succeeds when its answer begins: streams that last do not keep a
// backend out that has recovered, and one that breaks later is an ordinary
// failure.
func TestTrialSucceedsWithTheBeginningOfItsAnswer(t *testing.T) {
	r := newRig(t, small())
	r.call(Failure, Failure, Failure)
	r.after(10 * time.Second)
	first, second := r.acquire(), r.acquire()
	r.refuses()
	first = r.Answered(first, r.now)
	r.is(HalfOpen, 3)
	third := r.acquire() // the place of the first one is free
	first = r.Answered(first, r.now)
	r.is(HalfOpen, 3) // saying it twice counts once
	second = r.Answered(second, r.now)
	r.is(Closed, 0)
	r.Done(first, Failure, r.now)
	r.is(Closed, 1)
	r.Done(second, Failure, r.now)
	r.is(Closed, 2)
	r.Done(third, Failure, r.now) // a trial of a recovery that is over
	r.is(Closed, 2)
	r.call(Failure)
	r.is(Open, 3)

	r.after(10 * time.Second)
	cut := r.Answered(r.acquire(), r.now)
	ended := r.Answered(cut, r.now)
	r.Done(ended, Cancelled, r.now)
	r.is(HalfOpen, 3)
	r.Done(cut, Failure, r.now)
	r.is(Open, 4) // it has not recovered if it breaks while it is tried
	r.Done(cut, Failure, r.now)
	r.is(Open, 4)
}

func TestOneFailedTrialOpensAgainWithAFreshPause(t *testing.T) {
	r := newRig(t, small())
	r.call(Failure, Failure, Failure)
	r.after(25 * time.Second)
	r.call(Success)
	late := r.acquire()
	r.call(Failure)
	r.is(Open, 4)
	r.Done(late, Success, r.now)
	r.is(Open, 4)
	r.after(10*time.Second - 1)
	r.refuses()
	r.after(1)
	r.call(Success) // the success before the failure is forgotten
	r.is(HalfOpen, 4)
}

func TestSlowFailuresDoNotProlongThePause(t *testing.T) {
	r := newRig(t, small())
	var slow []Permit
	for range 200 {
		slow = append(slow, r.acquire())
	}
	r.call(Failure, Failure, Failure)
	opened := r.Snapshot()
	for _, permit := range slow {
		r.after(40 * time.Millisecond)
		r.Done(permit, Failure, r.now)
	}
	if diff := cmp.Diff(opened, r.Snapshot()); diff != "" {
		t.Error(diff)
	}
	r.after(2 * time.Second)
	r.call(Success, Success)
	r.is(Closed, 0)
}

func TestPermitsCountOnce(t *testing.T) {
	r := newRig(t, small())
	r.Done(Permit{}, Failure, r.now)
	r.is(Closed, 0)
	r.call(Failure, Failure, Failure)
	r.after(10 * time.Second)
	trial := r.acquire()
	for range 5 {
		r.Done(trial, Cancelled, r.now)
	}
	r.acquire()
	r.acquire()
	r.refuses()
}

func TestDisabledPassesAndForgets(t *testing.T) {
	off := small()
	off.Enabled = false
	r := newRig(t, off)
	early := r.acquire()
	for range 10 {
		r.call(Failure)
	}
	r.is(Closed, 0)

	r.Update(small(), r.now)
	r.Done(early, Failure, r.now) // begun when nobody counted
	r.is(Closed, 0)
	r.call(Failure, Failure, Failure)
	r.refuses()

	r.Update(off, r.now)
	r.call(Failure)
	r.is(Closed, 0)
}

func TestUpdateKeepsStateAndCounts(t *testing.T) {
	r := newRig(t, small())
	r.call(Failure, Failure)
	stricter := small()
	stricter.FailureThreshold = 1
	r.Update(stricter, r.now)
	r.is(Closed, 2) // not after the fact
	r.call(Failure)
	r.is(Open, 3)

	stricter.RecoveryTimeout = schema.Duration(4 * time.Second)
	r.Update(stricter, r.now)
	r.after(4*time.Second - 1)
	r.refuses()
	stricter.RecoveryTimeout = schema.Duration(6 * time.Second)
	r.Update(stricter, r.now)
	r.after(2 * time.Second)
	r.refuses()
	r.after(1)
	first, second := r.acquire(), r.acquire()

	stricter.SuccessThreshold = 1
	r.Update(stricter, r.now)
	r.refuses()
	r.Done(first, Cancelled, r.now)
	r.refuses() // the second fills what is left
	r.Done(second, Success, r.now)
	r.is(Closed, 0)
}

func TestARecoveryTimeoutWithoutEnd(t *testing.T) {
	never := small()
	never.RecoveryTimeout = schema.Duration(1<<63 - 1)
	r := newRig(t, never)
	r.after(time.Second)
	r.call(Failure, Failure, Failure)
	r.after(time.Hour)
	r.refuses()
}

// A good health check ends the pause of a breaker that opened on connections
// refused or reset, and of no other.
func TestCheckEndsThePauseOfABackendThatWasAway(t *testing.T) {
	for name, c := range map[string]struct {
		opening Outcome
		early   bool
	}{"refused": {Refused, true}, "reset": {Reset, true}, "failed": {Failure, false}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, small())
			r.call(Failure, Failure, c.opening) // the one that opened it counts
			r.after(time.Millisecond)
			if r.AwaitsCheck() != c.early {
				t.Errorf("awaits a check: %v", !c.early)
			}
			r.Reachable(r.now.Add(-time.Second), r.now) // it began before the breaker opened
			r.refuses()
			r.Reachable(r.now, r.now.Add(time.Millisecond))
			if !c.early {
				r.refuses()
				return
			}
			r.is(HalfOpen, 3)
			for range small().SuccessThreshold {
				r.call(Success)
			}
			r.is(Closed, 0)
		})
	}
}

// A backend that answers checks and breaks the connections of calls must not be
// tried with every check.
func TestSecondResetWaitsForTheWholePause(t *testing.T) {
	r := newRig(t, small())
	r.call(Reset, Reset, Reset)
	r.after(time.Millisecond)
	r.Reachable(r.now, r.now)
	r.call(Reset)
	r.after(time.Millisecond)
	r.Reachable(r.now, r.now)
	r.refuses()
	r.after(small().RecoveryTimeout.Std())
	r.call(Refused) // nobody there costs nobody anything
	r.after(time.Millisecond)
	r.Reachable(r.now, r.now)
	r.is(HalfOpen, 5)
}

func TestOperatorsDecide(t *testing.T) {
	r := newRig(t, small())
	begun := r.acquire()
	held := Hold{By: "ops", Since: r.now}
	r.Force(ForcedOpen, Hold{By: "ops"}, r.now)
	r.after(time.Hour)
	r.refuses()
	r.Force(ForcedOpen, Hold{By: "another"}, r.now) // it is held already
	if s := r.Snapshot(); s.State != Open || s.Forced != ForcedOpen || !s.NextRetry.IsZero() || s.Hold != held {
		t.Errorf("forced open: %+v", s)
	}
	if hold, open := r.HeldOpen(); hold != held || !open {
		t.Errorf("held by %+v, %v", hold, open)
	}
	r.Done(begun, Failure, r.now)

	r.Force(ForcedClosed, Hold{}, r.now)
	for range 10 {
		r.call(Failure)
	}
	r.is(Closed, 0)
	begun = r.acquire()
	if hold, open := r.HeldOpen(); hold.By != "an operator" || open {
		t.Errorf("held closed: %+v, %v", hold, open)
	}

	r.Force(Auto, Hold{}, r.now)
	if s := r.Snapshot(); s.Hold != (Hold{}) {
		t.Errorf("released, and still held by %+v", s.Hold)
	}
	r.Done(begun, Failure, r.now)
	r.is(Closed, 0)
	r.call(Failure, Failure, Failure)
	r.Force(Auto, Hold{}, r.now) // nothing to release
	r.is(Open, 3)
	want := []string{"CLOSED>OPEN forced", "OPEN>CLOSED forced", "CLOSED>CLOSED", "CLOSED>OPEN"}
	if diff := cmp.Diff(want, r.changes); diff != "" {
		t.Error(diff)
	}
}

func TestForcingSurvivesSettings(t *testing.T) {
	r := newRig(t, small())
	r.Force(ForcedOpen, Hold{}, r.now)
	off := small()
	off.Enabled = false
	r.Update(off, r.now)
	r.refuses()
	r.Force(Auto, Hold{}, r.now)
	r.call(Failure, Failure, Failure, Failure)
}

func TestRetryAfter(t *testing.T) {
	r := newRig(t, small())
	waits := func(want time.Duration) {
		t.Helper()
		if got := r.RetryAfter(r.now); got != want {
			t.Errorf("RetryAfter: %v, want %v", got, want)
		}
	}
	waits(0)
	r.call(Failure, Failure, Failure)
	waits(10 * time.Second)
	r.after(4 * time.Second)
	waits(6 * time.Second)
	r.after(7 * time.Second)
	waits(0)
	r.acquire()
	waits(0)
	r.acquire()
	waits(trialsTakenPause)
	r.Force(ForcedOpen, Hold{}, r.now)
	waits(10 * time.Second)
}

func TestSnapshotShowsTimes(t *testing.T) {
	r := newRig(t, small())
	r.call(Failure, Success)
	r.after(time.Second)
	first := r.now
	r.call(Failure, Failure)
	r.after(time.Second)
	r.call(Failure)
	failed := r.now
	r.after(time.Minute)
	want := Snapshot{
		State: Open, FailureCount: 3, FailureThreshold: 3, SuccessThreshold: 2,
		Timeout: 10 * time.Second, Since: failed, LastFailure: failed, FailingSince: first, NextRetry: failed.Add(10 * time.Second),
	}
	if diff := cmp.Diff(want, r.Snapshot()); diff != "" {
		t.Error(diff)
	}
	r.acquire()
	if s := r.Snapshot(); s.State != HalfOpen || !s.NextRetry.IsZero() || s.Since != r.now || s.SuccessCount != 0 || s.FailingSince != first {
		t.Errorf("half open: %+v", s)
	}
	r.Force(ForcedClosed, Hold{}, r.now)
	if s := r.Snapshot(); !s.FailingSince.IsZero() {
		t.Errorf("released: %+v", s)
	}
}

// An observer that asks the breaker must not find it locked.
func TestObserverMayAskTheBreaker(t *testing.T) {
	now := time.Now()
	var seen []State
	var b *Breaker
	b = New(small(), now, func(Change) { seen = append(seen, b.Snapshot().State) })
	b.Force(ForcedOpen, Hold{}, now)
	b.Force(Auto, Hold{}, now)
	if !slices.Equal(seen, []State{Open, Closed}) {
		t.Errorf("saw %v", seen)
	}
}

func TestModesByName(t *testing.T) {
	for text, want := range map[string]Mode{"OPEN": ForcedOpen, "closed": ForcedClosed, "Auto": Auto} {
		m := Mode(len(Auto.Names()))
		if err := m.UnmarshalText([]byte(text)); err != nil || m != want {
			t.Errorf("%s: %v, %v", text, m, err)
		}
	}
	var m Mode
	if err := m.UnmarshalText([]byte("HALF_OPEN")); err == nil {
		t.Error("HALF_OPEN cannot be forced")
	}
}

func TestNamesOfStatesAndModes(t *testing.T) {
	for _, c := range []struct {
		value encoding.TextMarshaler
		want  string
	}{
		{Closed, "CLOSED"}, {Open, "OPEN"}, {HalfOpen, "HALF_OPEN"}, {State(3), "state(3)"}, {State(255), "state(255)"},
		{Auto, "AUTO"}, {ForcedOpen, "OPEN"}, {ForcedClosed, "CLOSED"}, {Mode(3), "mode(3)"}, {Mode(255), "mode(255)"},
	} {
		if text, err := c.value.MarshalText(); err != nil || string(text) != c.want {
			t.Errorf("%s, %v, want %s", text, err, c.want)
		}
	}
}

// A time that is too late to be counted is the latest that can be.
func TestSumsOfTimesDoNotOverflow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64Min(0).Draw(t, "a"), rapid.Int64Min(0).Draw(t, "b")
		sum := new(big.Int).Add(big.NewInt(a), big.NewInt(b))
		want := int64(math.MaxInt64)
		if sum.IsInt64() {
			want = sum.Int64()
		}
		if got := saturatingAdd(a, b); got != want {
			t.Fatalf("%d + %d: %d, want %d", a, b, got, want)
		}
	})
}
