package backend

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
)

// opened makes calls fail until the breaker is open.
func opened(t *testing.T, i *Instance, how breaker.Outcome) {
	t.Helper()
	for range breaker.DefaultSettings().FailureThreshold {
		permit, ok := i.Acquire(time.Now())
		if !ok {
			t.Fatal("refused before it failed often enough")
		}
		i.Release(permit, how, time.Now())
	}
	if state := i.Breaker.Snapshot().State; state != breaker.Open {
		t.Fatal(state)
	}
}

// A sole backend that restarts in two seconds is tried again with the first check
// that finds it, not after the recovery timeout of its breaker.
func TestBackendThatRestartsIsBackWithTheNextCheck(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		n.set("h:80", sayOK)
		i := f.add("m", "http://h")
		pass(time.Second)
		n.down("h:80")
		opened(t, i, breaker.Refused)
		f.of(i).Refused(time.Now())
		pass(600 * time.Millisecond)
		next := f.of(i).Snapshot().NextCheck
		if wait := time.Until(next); wait <= 0 || wait > 1100*time.Millisecond {
			t.Errorf("the next check is due in %v", wait)
		}
		pass(1400 * time.Millisecond)
		n.set("h:80", sayOK)
		pass(2500 * time.Millisecond) // checks after 1 s and 2 s, a tenth more or less, and the look that began them
		if state := i.Breaker.Snapshot().State; state != breaker.HalfOpen || f.status(i) != StatusHealthy {
			t.Errorf("%v, %v", state, f.status(i))
		}
	})
}

// Where only established connections broke, nothing marks the instance; its
// breaker alone brings the check forward.
func TestResetConnectionsBringTheCheckForward(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		n.set("h:80", sayOK)
		i := f.add("m", "http://h")
		pass(time.Second)
		opened(t, i, breaker.Reset)
		pass(time.Second)
		if state := i.Breaker.Snapshot().State; state != breaker.HalfOpen {
			t.Error(state)
		}
		seen := len(n.seen("h:80"))
		pass(20 * time.Second)
		if more := len(n.seen("h:80")) - seen; more != 0 {
			t.Errorf("%d checks after it was found well", more)
		}
	})
}

// A breaker that opened on answers is no concern of the checks.
func TestFailuresOfAnswersKeepTheWholePause(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		n.set("h:80", sayOK)
		i := f.add("m", "http://h")
		pass(time.Second)
		opened(t, i, breaker.Failure)
		pass(29 * time.Second)
		if state := i.Breaker.Snapshot().State; state != breaker.Open {
			t.Error(state)
		}
	})
}

// What the checks alone found missing is looked at after 1 s and then every 2 s, because it is
// probably being started. After ten minutes it takes longer each time, up to the interval.
func TestInstanceThatIsDownIsCheckedMoreOften(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		n.set("h:80", sayOK)
		i := f.add("m", "http://h")
		pass(time.Second)
		n.down("h:80")
		for range 200 {
			if pass(500 * time.Millisecond); f.status(i) == StatusUnhealthy {
				break
			}
		}
		before := len(n.seen("h:80"))
		pass(8 * time.Second) // after 1, 3, 5 and 7 s
		if got := len(n.seen("h:80")) - before; got != 4 {
			t.Errorf("%d checks in 8 s", got)
		}
		pass(12 * time.Minute)
		before = len(n.seen("h:80"))
		pass(5 * time.Minute)
		if got := len(n.seen("h:80")) - before; got < 9 || got > 11 {
			t.Errorf("%d checks in 5 minutes, with an interval of 30 s", got)
		}
	})
}
