package proxy

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
	"github.com/patchbay-ai/patchbay/internal/route/survey"
)

// surveys returns a survey of the pool from what is known of it, and another one
// from a look at every instance.
func (d *desk) surveys(excluded *survey.Exclusions) (known, looked survey.Survey) {
	now := time.Now()
	known.Take(d.pool(), excluded, now)
	d.pool().ForgetAllReady()
	looked.Take(d.pool(), excluded, now)
	return known, looked
}

// sameAs tells whether two surveys say the same. What is known of a pool does not tell
// what else keeps an instance that is on standby.
func sameAs(s, other *survey.Survey) bool {
	return s.Shortest == other.Shortest && slices.Equal(s.Ready, other.Ready) && slices.EqualFunc(s.Obstacles, other.Obstacles, func(known, looked backend.Obstacle) bool {
		return known == looked || known == backend.Standby && looked != backend.NoObstacle
	})
}

// Whatever happens to instances, a survey from what is known of the pool says the
// same as one that looks at every instance.
func TestSurveyKnowsWhatALookWouldFind(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(check *rapid.T) {
		d := newDesk(t, 3, slots(2, queue.Settings{}))
		var permits [3][]backend.Permit
		for range rapid.IntRange(1, 60).Draw(check, "steps") {
			n := rapid.IntRange(0, 2).Draw(check, "instance")
			i := d.pool().Instances[n]
			now := time.Now()
			switch rapid.SampledFrom([]string{"acquire", "acquire", "release", "fail", "sick", "well", "overload", "force", "unforce", "exclude", "edit", "tier"}).Draw(check, "step") {
			case "acquire":
				if permit, ok := i.Acquire(now); ok {
					permits[n] = append(permits[n], permit)
				}
			case "release", "fail":
				if len(permits[n]) > 0 {
					outcome := rapid.SampledFrom([]breaker.Outcome{breaker.Success, breaker.Failure}).Draw(check, "outcome")
					i.Release(permits[n][0], outcome, now)
					permits[n] = permits[n][1:]
				}
			case "sick":
				i.Health.Failed(now, 0, "", backend.HealthSettings{UnhealthyThreshold: 1})
			case "well":
				i.Health.Succeeded(now, 0, backend.HealthSettings{HealthyThreshold: 1})
			case "overload":
				i.Overloaded(now.Add(time.Hour))
			case "force":
				i.Breaker.Force(breaker.ForcedOpen, breaker.Hold{}, now)
			case "unforce":
				i.Breaker.Force(breaker.Auto, breaker.Hold{}, now)
			case "exclude":
				known, looked := d.surveys(&survey.Exclusions{Called: []*backend.Instance{i}})
				if !sameAs(&known, &looked) {
					check.Fatalf("without one: %v, a look finds %v", known.Obstacles, looked.Obstacles)
				}
			case "edit":
				enabled := rapid.Bool().Draw(check, "enabled")
				d.edit(func(s *config.Service) { s.Instances[n].Enabled = enabled })
			case "tier":
				tier := rapid.IntRange(0, 2).Draw(check, "tier")
				d.edit(func(s *config.Service) { s.Instances[n].Tier = tier })
			}
			known, looked := d.surveys(new(survey.Exclusions))
			if !sameAs(&known, &looked) {
				check.Fatalf("%d ready and %v, a look finds %d ready and %v", len(known.Ready), known.Obstacles, len(looked.Ready), looked.Obstacles)
			}
		}
	})
}

// Instances are asked one by one only after something has happened, or while what
// keeps one of them depends on the time.
func TestInstancesAreNotAskedWhileNothingChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, 3, slots(2, queue.Settings{}))
		first := d.pool().Instances[0]
		known := func(what string, want bool) {
			t.Helper()
			var s survey.Survey
			s.Take(d.pool(), new(survey.Exclusions), time.Now())
			if got := d.pool().AllReady(); got != want {
				t.Errorf("%s: all are known to be ready: %v", what, got)
			}
		}
		known("at the start", true)
		one, _ := first.Acquire(time.Now())
		known("one slot taken", true)
		two, _ := first.Acquire(time.Now())
		if d.pool().AllReady() {
			t.Error("the last slot is taken, and nobody notices")
		}
		known("no slot left", false)
		first.Release(one, breaker.Success, time.Now())
		first.Release(two, breaker.Success, time.Now())
		known("slots free again", true)
		first.Overloaded(time.Now().Add(time.Minute))
		known("overloaded", false)
		<-time.After(time.Minute)
		known("no longer overloaded", true)
		first.Breaker.Force(breaker.ForcedOpen, breaker.Hold{}, time.Now())
		known("breaker open", false)
		first.Breaker.Force(breaker.Auto, breaker.Hold{}, time.Now())
		known("breaker closed", true)
		d.pool().ForgetAllReady()
		if d.pool().AllReady() {
			t.Error("there is doubt, and nobody looks")
		}
		d.edit(limited(1000, ratelimit.PerInstance))
		known("a limit of their own", false)
		d.edit(func(s *config.Service) {
			s.RateLimit.Enabled = false
			for n := range s.Instances {
				s.Instances[n].Enabled = false
			}
		})
		known("all disabled", false)
	})
}

// What a request leaves out of its survey stays in the pool.
func TestLeavingOutAnInstanceChangesNoOtherSurvey(t *testing.T) {
	t.Parallel()
	d := newDesk(t, 3, slots(2, queue.Settings{}))
	var first, second survey.Survey
	for range 2 {
		first.Take(d.pool(), new(survey.Exclusions), time.Now())
		second.Take(d.pool(), new(survey.Exclusions), time.Now())
		first.Keep(func(i *backend.Instance) bool { return i.Position == 1 })
		if len(first.Ready) != 1 || first.Ready[0].Position != 1 || len(second.Ready) != 3 || len(d.pool().Eligible) != 3 {
			t.Errorf("%d, %d and %d instances are left", len(first.Ready), len(second.Ready), len(d.pool().Eligible))
		}
		first.Reset()
	}
	if slices.Contains(d.pool().Eligible, nil) {
		t.Error("a reset took instances from the pool")
	}
}

// Of the instances that could be picked only those of the lowest tier are, and no
// instance of a higher tier is asked while those are known to be ready.
func TestOnlyTheLowestTierThatIsReadyIsPicked(t *testing.T) {
	d := newDesk(t, 4, slots(1, queue.Settings{Size: 1}))
	d.edit(func(s *config.Service) {
		for n, tier := range []int{0, 0, 1, 2} {
			s.Instances[n].Tier = tier
		}
	})
	now := time.Now()
	all := d.pool().Instances
	picked := func(want ...int) {
		t.Helper()
		var s survey.Survey
		s.Take(d.pool(), new(survey.Exclusions), now)
		var got []int
		for _, i := range s.Ready {
			got = append(got, i.Position)
		}
		if !slices.Equal(got, want) {
			t.Errorf("ready are %v, want %v; obstacles %v", got, want, s.Obstacles)
		}
	}
	picked(0, 1)
	if !d.pool().AllReady() {
		t.Error("every instance is asked although the lowest tier is ready")
	}
	all[2].Breaker.Force(breaker.ForcedOpen, breaker.Hold{}, now)
	picked(0, 1)
	if !d.pool().AllReady() {
		t.Error("every instance is asked because one on standby is not ready")
	}
	all[0].Health.Failed(now, 0, "", backend.HealthSettings{UnhealthyThreshold: 1})
	picked(1)
	if _, ok := all[1].Acquire(now); !ok {
		t.Fatal("no slot")
	}
	picked(3) // tier 1 is held open
	all[2].Breaker.Force(breaker.Auto, breaker.Hold{}, now)
	picked(2)
	all[2].Overloaded(now.Add(time.Hour))
	picked(3)
	if _, ok := all[3].Acquire(now); !ok {
		t.Fatal("no slot")
	}
	// The instance that said it is overloaded is passed over while others are only busy.
	picked()
	all[0].Health.Succeeded(now, 0, backend.HealthSettings{HealthyThreshold: 1})
	picked(0)
}
