package backend

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func thresholds(unhealthy, healthy int) HealthSettings {
	s := DefaultHealthSettings()
	s.UnhealthyThreshold, s.HealthyThreshold = unhealthy, healthy
	return s
}

func TestAnInstanceThatWasNeverCheckedGetsTraffic(t *testing.T) {
	var h Health
	if !h.Healthy() || h.Snapshot() != (HealthSnapshot{}) || h.Reason() != "" {
		t.Errorf("healthy %v, %+v, %q", h.Healthy(), h.Snapshot(), h.Reason())
	}
}

func TestThresholdsCountChecksInARow(t *testing.T) {
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
		if got.Status != c.want || h.Healthy() != c.want.Traffic() {
			t.Errorf("%q: %v, healthy %v, want %v", c.checks, got.Status, h.Healthy(), c.want)
		}
		if c.checks != "" && (!got.LastCheck.Equal(now) || got.ResponseTime != time.Millisecond) {
			t.Errorf("%q: last check %v took %v", c.checks, got.LastCheck, got.ResponseTime)
		}
	}
}

func TestASnapshotSaysSinceWhenAndWhy(t *testing.T) {
	var h Health
	s := thresholds(2, 1)
	start := time.Now()
	at := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	h.Succeeded(at(1), 0, s)
	h.Failed(at(2), 0, "status 500", s)
	if got := h.Snapshot(); !got.Since.Equal(at(1)) || got.Cause != "status 500" || h.Reason() != "" {
		t.Errorf("after one failure: %+v", got)
	}
	h.Failed(at(3), 0, "timeout", s)
	h.Failed(at(4), 0, "status 502", s)
	if got := h.Snapshot(); !got.Since.Equal(at(3)) || h.Reason() != "unhealthy: status 502" {
		t.Errorf("unhealthy: %+v, %q", got, h.Reason())
	}
	h.Warming(at(5), 0)
	if got := h.Snapshot(); !got.Since.Equal(at(5)) || got.Cause != "" || h.Reason() != "warming up" {
		t.Errorf("warming is no error: %+v, %q", got, h.Reason())
	}
	h.Succeeded(at(6), 0, s)
	if got := h.Snapshot(); !got.Since.Equal(at(6)) || got.Cause != "" {
		t.Errorf("back: %+v", got)
	}
}

func TestARefusalMarksAtOnce(t *testing.T) {
	var h Health
	h.watch()
	now := time.Now()
	h.Refused(now)
	h.Refused(now.Add(time.Second))
	if h.Healthy() || h.Reason() != "unhealthy: connection refused" || !h.Snapshot().Since.Equal(now) {
		t.Errorf("healthy %v, %+v", h.Healthy(), h.Snapshot())
	}
	if !h.suspected() || h.suspected() {
		t.Error("the checker must be told once")
	}
	h.Refused(now.Add(2 * time.Second))
	if h.suspected() {
		t.Error("the checker was told of what it knows")
	}
}

func TestACheckThatBeganBeforeARefusalDoesNotTakeItBack(t *testing.T) {
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
	var h Health
	h.Refused(time.Now())
	if !h.Healthy() {
		t.Error("marked, and nobody can take it back")
	}
	h.watch()
	h.Refused(time.Now())
	h.release()
	h.Refused(time.Now())
	if !h.Healthy() || h.suspected() || h.Snapshot() != (HealthSnapshot{}) {
		t.Errorf("held after the checker left: %+v", h.Snapshot())
	}
}

// However an instance came to where it is, enough good checks in a row bring it
// back, enough failed ones take it out, and the flag that requests read always
// says what the status says.
func TestHealthIsAlwaysReachable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h Health
		h.watch()
		s := thresholds(rapid.IntRange(1, 5).Draw(t, "unhealthy"), rapid.IntRange(1, 5).Draw(t, "healthy"))
		now := time.Now()
		for _, step := range rapid.SliceOf(rapid.IntRange(0, 3)).Draw(t, "steps") {
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
			}
			if h.Healthy() != h.Snapshot().Status.Traffic() {
				t.Fatalf("healthy %v at %+v", h.Healthy(), h.Snapshot())
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
	if n := testing.AllocsPerRun(100, func() { _ = h.Healthy() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
