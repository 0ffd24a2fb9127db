package backend

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

func newInstance(t *testing.T) *Instance {
	t.Helper()
	settings := DefaultSettings()
	settings.Name, settings.BaseURL = "m", "http://gpu.test"
	policy := Policy{Adapter: "openai", Breaker: breaker.DefaultSettings(), Limit: ratelimit.DefaultSettings()}
	policy.Breaker.FailureThreshold, policy.Breaker.SuccessThreshold = 2, 2
	i, err := New(settings, schema.Chat, policy, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// Well is who has not failed since its last success, by whatever measure.
func TestWhichInstancesAreWell(t *testing.T) {
	t.Parallel()
	i := newInstance(t)
	i.Health.watch()
	now := time.Now()
	want := func(step string, well bool) {
		t.Helper()
		if i.Well() != well {
			t.Errorf("%s: well %v", step, i.Well())
		}
	}
	call := func(outcome breaker.Outcome) {
		t.Helper()
		permit, ok := i.Acquire(now)
		if !ok {
			t.Fatal("refused")
		}
		i.Release(permit, outcome, now)
	}
	want("never used", true)
	call(breaker.Failure)
	want("after a failure", false)
	call(breaker.Cancelled)
	want("after a client that left", false)
	call(breaker.Success)
	want("after a success", true)
	i.Troubled()
	want("after its rate limit", false)
	call(breaker.Success)
	call(breaker.Failure)
	call(breaker.Failure)
	now = now.Add(time.Minute)
	call(breaker.Success)
	want("half open", false)
	call(breaker.Success)
	want("closed again", true)
	i.Health.Refused(now)
	want("marked", false)
	if o := i.Obstacle(now); o != NoObstacle {
		t.Errorf("a mark is an obstacle: %v", o)
	}
	i.Health.Failed(now.Add(time.Second), 0, "timeout", thresholds(1, 1))
	want("unhealthy", false)
	if o := i.Obstacle(now); o != Unhealthy {
		t.Errorf("unhealthy, and the obstacle is %v", o)
	}
}

// An instance whose calls fail says since when, with a breaker that is off too.
func TestCallsThatFailInARowHaveABeginning(t *testing.T) {
	t.Parallel()
	for name, isOn := range map[string]bool{"with a breaker": true, "without": false} {
		i, start := newInstance(t), time.Now()
		settings := breaker.DefaultSettings()
		settings.Enabled = isOn
		i.Breaker.Update(settings, start)
		for second, step := range []struct {
			outcome breaker.Outcome
			want    int // the second, -1 for no failure
		}{
			{breaker.Success, -1}, {breaker.Failure, 1}, {breaker.Cancelled, 1}, {breaker.Reset, 1}, {breaker.Success, -1}, {breaker.Errored, 5},
		} {
			now := start.Add(time.Duration(second) * time.Second)
			permit, ok := i.Acquire(now)
			if !ok {
				t.Fatal("refused")
			}
			i.Release(permit, step.outcome, now)
			var want time.Time
			if step.want >= 0 {
				want = start.Add(time.Duration(step.want) * time.Second)
			}
			if got := i.FailingSince(); !got.Equal(want) {
				t.Errorf("%s, second %d: failing since %v, want %v", name, second, got, want)
			}
		}
	}
}

func TestMilderObstacles(t *testing.T) {
	t.Parallel()
	order := []Obstacle{Disabled, NoWeight, Unhealthy, BreakerOpen, AtLimit, NoSlot, NoObstacle}
	for a, first := range order {
		for b, second := range order {
			if got := first.Shorter(second); got != order[max(a, b)] {
				t.Errorf("of %d and %d the shorter one is %d", first, second, got)
			}
		}
		if first.Busy() != (a >= 4) {
			t.Errorf("%d is busy: %v", first, first.Busy())
		}
	}
}
