package backend

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"pgregory.net/rapid"
)

func thresholds(unhealthy, healthy int) HealthSettings {
	s := DefaultHealthSettings()
	s.UnhealthyThreshold, s.HealthyThreshold = unhealthy, healthy
	return s
}

// getsTraffic reports whether instances of a status are picked without reservation.
func getsTraffic(s Status) bool { return s == StatusUnknown || s == StatusHealthy }

func TestAnInstanceThatWasNeverCheckedGetsTraffic(t *testing.T) {
	t.Parallel()
	var h Health
	if !h.Healthy() || h.Snapshot() != (HealthSnapshot{}) || h.Reason().String() != "" {
		t.Errorf("healthy %v, %+v, %q", h.Healthy(), h.Snapshot(), h.Reason())
	}
}

// TestSinceWhenAnInstanceFails: since the first of the failures that made it unhealthy, until it is
// well again.
func TestSinceWhenAnInstanceFails(t *testing.T) {
	t.Parallel()
	var h Health
	s, began := thresholds(2, 2), time.Now()
	at := func(second int) time.Time { return began.Add(time.Duration(second) * time.Second) }
	for second, step := range []struct {
		check func(now time.Time)
		want  time.Time
	}{
		{func(now time.Time) { h.Failed(now, 0, transport.CauseTimeout, s) }, time.Time{}},
		{func(now time.Time) { h.Succeeded(now, 0, s) }, time.Time{}},
		{func(now time.Time) { h.Failed(now, 0, transport.CauseTimeout, s) }, time.Time{}},
		{func(now time.Time) { h.Failed(now, 0, transport.CauseTimeout, s) }, at(2)},
		{func(now time.Time) { h.Succeeded(now, 0, s) }, at(2)},
		{func(now time.Time) { h.Failed(now, 0, transport.CauseTimeout, s) }, at(2)},
		{func(now time.Time) { h.Succeeded(now, 0, s) }, at(2)},
		{func(now time.Time) { h.Succeeded(now, 0, s) }, time.Time{}},
		{func(now time.Time) { h.watch(); h.Refused(now) }, at(8)},
		{func(now time.Time) { h.Succeeded(now, 0, s) }, at(8)},
		{func(now time.Time) { h.Succeeded(now, 0, s) }, time.Time{}},
		{func(now time.Time) { h.Doubted(now, 0, transport.CauseNone, s) }, time.Time{}},
		{func(now time.Time) { h.Doubted(now, 0, transport.CauseNone, s) }, at(11)},
		{func(now time.Time) { h.Failed(now, 0, transport.CauseTimeout, s) }, at(11)},
	} {
		step.check(at(second))
		if got := h.Snapshot().FailingSince; !got.Equal(step.want) {
			t.Errorf("at %d s: since %v, want %v", second, got, step.want)
		}
	}
}

func TestThresholdsCountChecksInARow(t *testing.T) {
	t.Parallel()
	s := thresholds(3, 2)
	for _, c := range []struct {
		checks string // + good, - failed, w warming
		want   Status
	}{
		{"", StatusUnknown},
		{"-", StatusUnknown},
		{"--", StatusUnknown},
		{"---", StatusUnhealthy},
		{"+", StatusHealthy},
		{"+--", StatusHealthy},
		{"+--+--", StatusHealthy},
		{"+---", StatusUnhealthy},
		{"---+", StatusUnhealthy},
		{"---+-+", StatusUnhealthy},
		{"---++", StatusHealthy},
		{"---++--", StatusHealthy},
		{"w", StatusWarming},
		{"w+", StatusHealthy},
		{"---w+", StatusHealthy},
		{"w--", StatusWarming},
		{"w---", StatusUnhealthy},
		{"--w-", StatusWarming},
		{"+w", StatusWarming},
	} {
		var h Health
		now := time.Now()
		for _, check := range c.checks {
			now = now.Add(time.Second)
			switch check {
			case '+':
				h.Succeeded(now, time.Millisecond, s)
			case '-':
				h.Failed(now, time.Millisecond, "timeout", s)
			case 'w':
				h.Warming(now, time.Millisecond)
			}
		}
		got := h.Snapshot()
		if got.Status != c.want || h.Healthy() != getsTraffic(c.want) {
			t.Errorf("%q: %v, healthy %v, want %v", c.checks, got.Status, h.Healthy(), c.want)
		}
		if c.checks != "" && (!got.LastCheck.Equal(now) || got.ResponseTime != time.Millisecond) {
			t.Errorf("%q: last check %v took %v", c.checks, got.LastCheck, got.ResponseTime)
		}
	}
}

func TestASnapshotSaysWhy(t *testing.T) {
	t.Parallel()
	var h Health
	s := thresholds(2, 1)
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	h.Succeeded(at(1), 0, s)
	h.Failed(at(2), 0, "status_500", s)
	if got := h.Snapshot(); got.Cause != "status_500" || h.Reason().String() != "" {
		t.Errorf("after one failure: %+v", got)
	}
	h.Failed(at(3), 0, "timeout", s)
	h.Failed(at(4), 0, "status_502", s)
	if got := h.Snapshot(); h.Reason().String() != "unhealthy: status 502" {
		t.Errorf("unhealthy: %+v, %q", got, h.Reason())
	}
	h.Warming(at(5), 0)
	if got := h.Snapshot(); got.Cause != "" || h.Reason().String() != "warming up" {
		t.Errorf("warming is no error: %+v, %q", got, h.Reason())
	}
	h.Succeeded(at(6), 0, s)
	if got := h.Snapshot(); got.Cause != "" {
		t.Errorf("back: %+v", got)
	}
}

func TestARefusalMarksAtOnce(t *testing.T) {
	t.Parallel()
	var h Health
	h.watch()
	now := time.Now()
	h.Refused(now)
	h.Refused(now.Add(time.Second))
	if h.Healthy() || h.Reason().String() != "unhealthy: connection refused" {
		t.Errorf("healthy %v, %+v", h.Healthy(), h.Snapshot())
	}
	if !h.takeSuspicion() || h.takeSuspicion() {
		t.Error("the checker must be told once")
	}
	h.Refused(now.Add(2 * time.Second))
	if h.takeSuspicion() {
		t.Error("the checker was told of what it knows")
	}
}

func TestACheckThatBeganBeforeARefusalDoesNotTakeItBack(t *testing.T) {
	t.Parallel()
	var h Health
	h.watch()
	now := time.Now()
	h.Refused(now)
	h.Succeeded(now.Add(time.Second), 2*time.Second, thresholds(1, 1))
	h.Warming(now.Add(time.Second), 2*time.Second)
	if got := h.Snapshot().Status; got != StatusUnhealthy {
		t.Errorf("%v by what was true before", got)
	}
	h.Succeeded(now.Add(2*time.Second), time.Second, thresholds(1, 1))
	if !h.Healthy() {
		t.Error("a later check did not bring it back")
	}
}

func TestARefusalWithoutACheckerMarksNothing(t *testing.T) {
	t.Parallel()
	var h Health
	h.Refused(time.Now())
	if !h.Healthy() {
		t.Error("marked, and nobody can take it back")
	}
	h.watch()
	h.Refused(time.Now())
	h.unwatch()
	h.Refused(time.Now())
	if !h.Healthy() || h.takeSuspicion() || h.Snapshot() != (HealthSnapshot{}) {
		t.Errorf("held after the checker left: %+v", h.Snapshot())
	}
}

// What traffic alone found is a mark: the instance is avoided, not shut out, until
// the checks have confirmed it.
func TestAMarkIsSoftUntilChecksConfirmIt(t *testing.T) {
	t.Parallel()
	var h Health
	h.watch()
	s := thresholds(2, 2)
	now := time.Now()
	at := func(n int) time.Time { return now.Add(time.Duration(n) * time.Second) }
	want := func(step string, status Status, out, marked bool) {
		t.Helper()
		if got := h.Snapshot().Status; got != status || h.Out() != out || h.Marked() != marked || h.Healthy() != (!out && !marked) {
			t.Errorf("%s: %v, out %v, marked %v, healthy %v", step, got, h.Out(), h.Marked(), h.Healthy())
		}
	}
	h.Refused(at(0))
	want("refused", StatusUnhealthy, false, true)
	h.Failed(at(1), 0, "connection_refused", s)
	want("one failed check", StatusUnhealthy, false, true)
	h.Failed(at(2), 0, "connection_refused", s)
	want("confirmed", StatusUnhealthy, true, false)
	h.Refused(at(3))
	want("refused once more", StatusUnhealthy, true, false)
	h.Served(at(4))
	want("a late answer", StatusUnhealthy, true, false)
	h.Succeeded(at(6), 0, s)
	want("one good check", StatusUnhealthy, true, false)
	h.Succeeded(at(7), 0, s)
	want("back", StatusHealthy, false, false)
	h.Refused(at(8))
	h.Warming(at(9), 0)
	want("warming", StatusWarming, true, false)
	h.Succeeded(at(10), 0, s)
	h.Refused(at(11))
	h.unwatch()
	want("nobody watches", StatusUnknown, false, false)
}

// An answer takes a mark back if its call began after the mark was made: one that
// was under way says nothing about the time since.
func TestAnAnswerTakesAMarkBack(t *testing.T) {
	t.Parallel()
	var h Health
	h.watch()
	now := time.Now()
	h.Served(now)
	if got := h.Snapshot().Status; got != StatusUnknown {
		t.Errorf("%v by an answer alone", got)
	}
	h.Refused(now)
	h.Served(now.Add(-time.Second))
	if !h.Marked() {
		t.Error("taken back by a call that began before")
	}
	h.Served(now.Add(time.Second))
	if got := h.Snapshot(); h.Marked() || got.Status != StatusHealthy || got.Cause != "" {
		t.Errorf("after an answer: %+v", got)
	}
}

// However an instance came to where it is, enough good checks in a row bring it
// back, enough failed ones take it out, and the flag that requests read always
// says what the status says.
func TestHealthIsAlwaysReachable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var h Health
		h.watch()
		s := thresholds(rapid.IntRange(1, 5).Draw(t, "unhealthy"), rapid.IntRange(1, 5).Draw(t, "healthy"))
		now := time.Now()
		for _, step := range rapid.SliceOf(rapid.IntRange(0, 4)).Draw(t, "steps") {
			now = now.Add(time.Second)
			switch step {
			case 0:
				h.Succeeded(now, 0, s)
			case 1:
				h.Failed(now, 0, "timeout", s)
			case 2:
				h.Warming(now, 0)
			case 3:
				h.Refused(now)
			case 4:
				h.Served(now.Add(-time.Millisecond))
			}
			if h.Healthy() != getsTraffic(h.Snapshot().Status) || h.Out() && h.Marked() {
				t.Fatalf("healthy %v, out %v, marked %v at %+v", h.Healthy(), h.Out(), h.Marked(), h.Snapshot())
			}
		}
		for range s.HealthyThreshold {
			now = now.Add(time.Second)
			h.Succeeded(now, 0, s)
		}
		if h.Snapshot().Status != StatusHealthy {
			t.Fatalf("%d good checks: %+v", s.HealthyThreshold, h.Snapshot())
		}
		for n := range s.UnhealthyThreshold {
			if !h.Healthy() {
				t.Fatalf("out after %d failures", n)
			}
			now = now.Add(time.Second)
			h.Failed(now, 0, "timeout", s)
		}
		if h.Snapshot().Status != StatusUnhealthy {
			t.Fatalf("%d failed checks: %+v", s.UnhealthyThreshold, h.Snapshot())
		}
	})
}

func TestAskingForHealthAllocatesNothing(t *testing.T) {
	var h Health
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { _, _ = h.Out() || h.Marked(), h.Healthy(); h.Served(now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestAnInstanceThatIsStuckIsTriedAgainAfterAWhile lets checks succeed at an instance whose
// model could not be woken up.
func TestAnInstanceThatIsStuckIsTriedAgainAfterAWhile(t *testing.T) {
	settings := DefaultHealthSettings()
	now := time.Now()
	after := now.Add
	for _, c := range []struct {
		name        string
		then        func(h *Health)
		out, marked bool
		status      Status
	}{
		{"a check", func(h *Health) { h.Succeeded(after(time.Second), 0, settings) }, true, false, StatusUnhealthy},
		{"a check that calls contradict", func(h *Health) { h.Contradicted(after(time.Second), 0, "status_500") }, true, false, StatusUnhealthy},
		{"a check after a while", func(h *Health) { h.Succeeded(after(wakeAgain), 0, settings) }, false, true, StatusUnhealthy},
		{"an answer after a while", func(h *Health) {
			h.Succeeded(after(wakeAgain), 0, settings)
			h.Served(after(wakeAgain))
		}, false, false, StatusHealthy},
		{"it is awake", func(h *Health) { h.Awake() }, false, false, StatusHealthy},
		{"it was started anew", func(h *Health) {
			h.Failed(after(time.Second), 0, transport.CauseRefused, settings)
			h.Succeeded(after(2*time.Second), 0, settings)
		}, false, false, StatusHealthy},
		{"it loads its model anew", func(h *Health) {
			h.Warming(after(time.Second), 0)
			h.Succeeded(after(2*time.Second), 0, settings)
		}, false, false, StatusHealthy},
	} {
		h := new(Health)
		h.watch()
		h.Succeeded(now, 0, settings)
		h.Stuck(now)
		c.then(h)
		if s := h.Snapshot(); h.Out() != c.out || h.Marked() != c.marked || s.Status != c.status {
			t.Errorf("%s: out %t, marked %t, %s", c.name, h.Out(), h.Marked(), s.Status)
		}
	}
	unwatched := new(Health)
	if unwatched.Stuck(now); unwatched.Out() {
		t.Error("nobody would notice that it is over")
	}
}
