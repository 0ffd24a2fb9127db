package ratelimit

import (
	"net/netip"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

var algorithms = []Algorithm{TokenBucket, LeakyBucket, SlidingWindow, WarmUp}

const minute = schema.Duration(time.Minute)

// rig is a limiter with a clock that only the test moves.
type rig struct {
	t *testing.T
	*Limiter
	now    time.Time
	client netip.Addr
}

func newRig(t *testing.T, settings Settings) *rig {
	now := time.Now()
	return &rig{t: t, Limiter: New(settings, now), now: now, client: netip.MustParseAddr("192.0.2.1")}
}

func limit(algorithm Algorithm, capacity, rate int) Settings {
	return Settings{Enabled: true, Algorithm: algorithm, Capacity: capacity, RefillRate: rate, WarmUpPeriod: minute}
}

func (r *rig) after(d time.Duration) { r.now = r.now.Add(d) }

func (r *rig) ask() Decision { return r.Allow(r.client, r.now) }

// burst asks until refused and compares how many were allowed.
func (r *rig) burst(want int) {
	r.t.Helper()
	got := 0
	for r.ask().Allowed {
		got++
	}
	if got != want {
		r.t.Fatalf("%d allowed in a burst, want %d", got, want)
	}
}

func (r *rig) edit(change func(*Settings)) {
	settings := r.plan.Load().settings
	change(&settings)
	r.Update(settings, r.now)
}

func TestDisabledLimitsNothing(t *testing.T) {
	r := newRig(t, DefaultSettings())
	for range 1000 {
		if d := r.ask(); d != (Decision{Allowed: true}) {
			t.Fatalf("%+v", d)
		}
	}
}

func TestBurstThenSteadyRate(t *testing.T) {
	for _, algorithm := range []Algorithm{TokenBucket, LeakyBucket} {
		t.Run(algorithm.String(), func(t *testing.T) {
			r := newRig(t, limit(algorithm, 10, 4))
			r.burst(10)
			r.after(250*time.Millisecond - 1)
			r.burst(0)
			r.after(1)
			r.burst(1)
			r.after(time.Second)
			r.burst(4)
			r.after(time.Hour)
			r.burst(10) // no more than the capacity, however long the pause
		})
	}
}

func TestRefillKeepsFractions(t *testing.T) {
	r := newRig(t, limit(TokenBucket, 1, 3))
	r.burst(1)
	allowed := 0
	for range 30_000 { // 30 s in steps of a millisecond, a third of a request each 111 steps
		r.after(time.Millisecond)
		if r.ask().Allowed {
			allowed++
		}
	}
	// The step of the clock, not the limiter, costs a little: 334 ms for 333.3.
	if allowed != 89 {
		t.Errorf("%d allowed in 30 s at 3 a second, asked each millisecond", allowed)
	}
}

func TestDecisionNumbers(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		algorithm   Algorithm
		first, last Decision
	}{
		{TokenBucket, Decision{true, true, 4, 3, second / 2, 0}, Decision{true, false, 4, 0, 2 * second, second / 2}},
		{LeakyBucket, Decision{true, true, 4, 3, second / 2, 0}, Decision{true, false, 4, 0, 2 * second, second / 2}},
		{SlidingWindow, Decision{true, true, 4, 3, 2 * second, 0}, Decision{true, false, 4, 0, 2 * second, 2 * second}},
	} {
		t.Run(c.algorithm.String(), func(t *testing.T) {
			r := newRig(t, limit(c.algorithm, 4, 2))
			if d := r.ask(); d != c.first {
				t.Errorf("first: %+v, want %+v", d, c.first)
			}
			r.burst(3)
			for range 10 { // refusals cost nothing
				if d := r.ask(); d != c.last {
					t.Errorf("refused: %+v, want %+v", d, c.last)
				}
			}
			r.after(c.last.RetryAfter - 1)
			r.burst(0)
			r.after(1)
			if !r.ask().Allowed {
				t.Error("refused after the time it told to wait")
			}
		})
	}
}

func TestSlidingWindowSlides(t *testing.T) {
	r := newRig(t, limit(SlidingWindow, 10, 5)) // 10 in any 2 s
	r.after(1900 * time.Millisecond)
	r.burst(10)
	r.after(200 * time.Millisecond) // a fixed window would begin anew here
	r.burst(0)
	r.after(1800*time.Millisecond - 1)
	r.burst(0)
	r.after(1)
	r.burst(10)
}

// Beyond its marks a window shares them, and forgets late rather than early.
func TestSlidingWindowOfALargeCapacity(t *testing.T) {
	const capacity = 100 * wholeMarks
	r := newRig(t, limit(SlidingWindow, capacity, capacity)) // in any second
	half := time.Duration(r.plan.Load().whole.rules.grain / 2)
	if half > time.Millisecond/2 {
		t.Errorf("a grain of %v", 2*half)
	}
	r.ask()
	r.after(half)
	r.burst(capacity - 1)
	r.after(time.Second - half)
	r.burst(0) // the first request shares a mark with the others
	r.after(half)
	r.burst(capacity)
	if n := len(r.plan.Load().whole.byKey[netip.Addr{}].bucket.window.ring); n > wholeMarks {
		t.Errorf("%d marks", n)
	}
}

func TestSlidingWindowIsAtLeastASecond(t *testing.T) {
	r := newRig(t, limit(SlidingWindow, 5, 1000))
	r.burst(5)
	r.after(time.Second - 1)
	r.burst(0)
	r.after(1)
	r.burst(5)
}

func TestWarmUpStartsAtAThird(t *testing.T) {
	r := newRig(t, limit(WarmUp, 30, 9))
	r.burst(10)
	r.after(time.Second)
	r.burst(3) // 3 a second, a little more
	r.after(29 * time.Second)
	r.burst(20) // half way: two thirds
	r.after(30 * time.Second)
	r.burst(30)
	r.after(time.Second)
	r.burst(9)
}

func TestWarmUpOfASmallCapacityRefusesNotEverything(t *testing.T) {
	r := newRig(t, limit(WarmUp, 1, 1))
	r.burst(1)
	wait := r.ask().RetryAfter
	if wait < 2*time.Second || wait > 3*time.Second {
		t.Errorf("next request after %v, at a third of 1 a second", wait)
	}
	r.after(wait - 1)
	r.burst(0)
	r.after(1)
	r.burst(1)
}

func TestWarmUpWithoutEnd(t *testing.T) {
	settings := limit(WarmUp, 30, 9)
	settings.WarmUpPeriod = 1<<63 - 1
	r := newRig(t, settings)
	r.after(time.Hour)
	r.burst(10)
	if d := r.ask(); d.ResetAfter <= 0 || d.RetryAfter < 300*time.Millisecond || d.RetryAfter > 400*time.Millisecond {
		t.Errorf("%+v", d)
	}
}

func TestTimeGoingBackGivesNothing(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			r := newRig(t, limit(algorithm, 9, 3))
			r.after(time.Hour)
			r.burst(9)
			for range 20 {
				r.after(-7 * time.Minute)
				r.burst(0)
			}
			r.now = r.now.Add(-1000 * time.Hour) // before the limiter began
			r.burst(0)
		})
	}
}

// A window that has forgotten must not take an earlier time for granted.
func TestTimeGoingBackAfterAWindow(t *testing.T) {
	r := newRig(t, limit(SlidingWindow, 1, 1))
	r.burst(1)
	r.after(time.Second)
	r.Snapshot(r.now, 0)
	r.after(-time.Second / 2)
	r.burst(1)
	r.after(time.Second)
	r.burst(0) // one second after the latest time, half a second of it gone
	r.after(time.Second / 2)
	r.burst(1)
}

func TestExtremes(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, capacity := range []int{1, maxRate} {
			for _, rate := range []int{1, maxRate} {
				r := newRig(t, limit(algorithm, capacity, rate))
				for _, pause := range []time.Duration{0, 1, time.Hour, 1 << 55, 1 << 62} {
					r.after(pause)
					d := r.ask()
					if d.Remaining < 0 || d.Remaining > capacity || d.RetryAfter < 0 || d.ResetAfter < 0 || pause >= time.Hour && !d.Allowed {
						t.Errorf("%v %d/%d after %v: %+v", algorithm, capacity, rate, pause, d)
					}
				}
			}
		}
	}
}

func TestUpdateKeepsWhatIsSpent(t *testing.T) {
	for _, algorithm := range []Algorithm{TokenBucket, LeakyBucket, SlidingWindow} {
		t.Run(algorithm.String(), func(t *testing.T) {
			r := newRig(t, limit(algorithm, 100, 10))
			for range 60 {
				r.ask()
			}
			r.edit(func(s *Settings) { s.Capacity = 70 })
			r.burst(10)
			r.edit(func(s *Settings) { s.Capacity = 50 })
			r.burst(0)
			r.edit(func(s *Settings) { s.Enabled = false })
			r.edit(func(s *Settings) { s.Enabled = true })
			r.burst(0)
		})
	}
}

func TestUpdateClampsToTheNewCapacity(t *testing.T) {
	r := newRig(t, limit(TokenBucket, 100, 1))
	r.burst(100)
	r.edit(func(s *Settings) { s.Capacity = 5 })
	r.after(5 * time.Second) // not 100
	r.burst(5)
}

func TestUpdateOfTheRateActsFromNowOn(t *testing.T) {
	r := newRig(t, limit(TokenBucket, 100, 10))
	r.burst(100)
	r.after(time.Second)
	r.edit(func(s *Settings) { s.RefillRate = 50 })
	r.burst(10)
	r.after(time.Second)
	r.burst(50)
}

func TestUpdateOfALoweredWindowTellsTheWholeWait(t *testing.T) {
	r := newRig(t, limit(SlidingWindow, 4, 1))
	for range 4 {
		r.after(time.Second / 2)
		r.ask()
	}
	r.edit(func(s *Settings) { s.Capacity = 2 }) // 2 in any 2 s, and 4 within the last 1.5 s
	d := r.ask()
	if d.Allowed || d.RetryAfter != 1500*time.Millisecond {
		t.Errorf("%+v", d)
	}
	r.after(d.RetryAfter)
	if !r.ask().Allowed {
		t.Error("refused after the time it told to wait")
	}
}

func TestUpdateInTheMiddleOfAWarmUp(t *testing.T) {
	r := newRig(t, limit(WarmUp, 30, 30))
	r.after(30 * time.Second)
	for range 5 {
		r.ask()
	}
	r.edit(func(s *Settings) { s.Capacity = 60 })
	r.burst(35) // two thirds of 60, without the 5
	r.after(30 * time.Second)
	r.burst(60)
}

func TestUpdateOfTheAlgorithmStartsAnew(t *testing.T) {
	r := newRig(t, limit(TokenBucket, 9, 1))
	r.burst(9)
	r.after(time.Hour)
	r.edit(func(s *Settings) { s.Algorithm = SlidingWindow })
	r.burst(9)
	r.edit(func(s *Settings) { s.Algorithm = WarmUp })
	r.burst(3) // warms up from now on
	r.after(30 * time.Second)
	r.burst(6) // half way: two thirds
}

func TestSnapshotOfTheSharedLimit(t *testing.T) {
	for _, algorithm := range algorithms {
		r := newRig(t, limit(algorithm, 6, 2))
		r.after(time.Hour)
		s := r.Snapshot(r.now, 10)
		if s.Remaining != 6 || !s.NextRefill.Equal(r.now) {
			t.Errorf("%v, nothing spent: %+v", algorithm, s)
		}
		r.ask()
		r.after(100 * time.Millisecond)
		s = r.Snapshot(r.now, 10)
		next := 400 * time.Millisecond
		if algorithm == SlidingWindow {
			next = 2900 * time.Millisecond
		}
		if s.Remaining != 5 || s.NextRefill.Sub(r.now) != next || s.Algorithm != algorithm || s.Capacity != 6 || s.RefillRate != 2 {
			t.Errorf("%v, one spent: %+v", algorithm, s)
		}
		if again := r.Snapshot(r.now, 10); again.Remaining != 5 {
			t.Errorf("%v: a snapshot cost something", algorithm)
		}
	}
}
