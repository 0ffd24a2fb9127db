package ratelimit

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func (r *rig) take() Spent {
	r.t.Helper()
	d, spent := r.Take(r.client, r.now)
	if !d.Allowed {
		r.t.Fatal("refused")
	}
	return spent
}

func (r *rig) remains(want int) {
	r.t.Helper()
	if got := r.Peek(r.client, r.now).Remaining; got != want {
		r.t.Fatalf("%d remain, want %d", got, want)
	}
}

// Whoever is refused after it was counted, at once or after a wait, gets all of
// it back.
func TestWhatIsReturnedCostsNothing(t *testing.T) {
	for _, algorithm := range algorithms {
		for _, perClient := range []bool{false, true} {
			t.Run(algorithm.String(), func(t *testing.T) {
				settings := limit(algorithm, 6, 1)
				settings.ClientIPEnable = perClient
				r := newRig(t, settings)
				r.after(time.Hour) // warm
				kept := r.take()
				kept.Use(r.now) // nothing was held
				first, second := r.take(), r.take()
				r.remains(3)
				if d := first.Return(r.now); !d.Limited || d.Remaining != 4 {
					t.Errorf("%+v after the first", d)
				}
				if d := first.Return(r.now); d.Limited {
					t.Error("given back twice")
				}
				r.remains(4)
				second.Hold()
				r.after(2 * time.Second)
				second.Return(r.now)
				r.after(time.Hour)
				r.burst(6)
			})
		}
	}
}

// While requests wait, what they took is not filled up behind their backs: those
// who pass are never more than the limit allows.
func TestHeldRequestsLeaveNoRoomToRefill(t *testing.T) {
	for _, algorithm := range []Algorithm{TokenBucket, LeakyBucket, WarmUp} {
		t.Run(algorithm.String(), func(t *testing.T) {
			r := newRig(t, limit(algorithm, 6, 1))
			r.after(time.Hour)
			var waiting []Spent
			for range 4 {
				waiting = append(waiting, r.take())
				waiting[len(waiting)-1].Hold()
			}
			r.after(time.Hour)
			r.remains(2)
			waiting[0].Use(r.now)
			r.remains(2) // it was counted now
			r.after(time.Second)
			r.remains(3)
			for i := range waiting[1:] {
				waiting[1+i].Return(r.now)
			}
			r.remains(6)
			r.burst(6)
		})
	}
}

// An edit in the meantime neither loses what is held nor makes it a gift.
func TestReturnAfterAnEdit(t *testing.T) {
	for _, algorithm := range algorithms {
		for name, change := range map[string]func(*Settings){
			"another algorithm": func(s *Settings) { s.Algorithm = (s.Algorithm + 1) % Algorithm(len(algorithms)); s.WarmUpPeriod = 1 },
			"per client":        func(s *Settings) { s.ClientIPEnable = true },
			"off":               func(s *Settings) { s.Enabled = false },
		} {
			t.Run(algorithm.String()+" "+name, func(t *testing.T) {
				r := newRig(t, limit(algorithm, 6, 1))
				r.after(time.Hour)
				spent, before := r.take(), r.plan.Load().settings
				spent.Hold()
				r.edit(change)
				r.after(time.Second)
				spent.Return(r.now)
				r.edit(func(s *Settings) { *s = before })
				r.after(2 * time.Hour)
				r.burst(6)
			})
		}
	}
}

// Whatever is taken, held and returned in whatever order: no more pass than the
// limit allows, and where none passes none counts.
func TestReturnsNeverRaiseTheLimit(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				settings := anyLimit(t, algorithm)
				start := time.Now()
				l := New(settings, start)
				rules := newRules(settings, 0, wholeMarks)
				type request struct {
					Spent
					taken int64
				}
				var passed []int64
				var waiting []request
				pass := func(w request, now int64) {
					if algorithm == SlidingWindow {
						now = w.taken // a window counts by when they came
					}
					passed = append(passed, now)
				}
				latest := int64(0)
				for _, moment := range arrivals(t, rules.window) {
					latest = max(latest, moment)
					now := start.Add(time.Duration(latest))
					if d, spent := l.Take(rig{}.client, now); d.Allowed {
						w := request{spent, latest}
						if rapid.Bool().Draw(t, "waits") {
							w.Hold()
							waiting = append(waiting, w)
						} else {
							pass(w, latest)
						}
					}
					for len(waiting) > 0 && rapid.Bool().Draw(t, "one is done") {
						i := rapid.IntRange(0, len(waiting)-1).Draw(t, "which")
						w := waiting[i]
						waiting = slices.Delete(waiting, i, i+1)
						if rapid.Bool().Draw(t, "passes") {
							w.Use(now)
							pass(w, latest)
						} else {
							w.Return(now)
						}
					}
				}
				slices.Sort(passed)
				checkPassed(t, rules, passed)
				for i := range waiting {
					waiting[i].Return(start.Add(time.Duration(latest)))
				}
				if s := l.Snapshot(start.Add(time.Duration(latest)+1000*time.Hour), 0); s.Remaining != settings.Capacity {
					t.Fatalf("%d of %d remain after a long time", s.Remaining, settings.Capacity)
				}
			})
		})
	}
}

func checkPassed(t *rapid.T, r *rules, times []int64) {
	if r.algorithm == SlidingWindow {
		for i := r.capacity; i < len(times); i++ {
			if span := times[i] - times[i-r.capacity]; span < r.window {
				t.Fatalf("%d passed within %v, window %v", r.capacity+1, time.Duration(span), time.Duration(r.window))
			}
		}
		return
	}
	for i := range times {
		for j := i; j < len(times); j++ {
			allowance := float64(r.burstAt(times[j])) + flow(r, times[i], times[j])
			if n := int64(j - i + 1); float64(n*partsPerRequest) > allowance+1 {
				t.Fatalf("%d passed within %v, where %.3f may be", n, time.Duration(times[j]-times[i]), allowance/float64(partsPerRequest))
			}
		}
	}
}

// A request that waits leaves no room to refill, so that nothing is announced
// that does not come.
func TestSnapshotWhileARequestWaits(t *testing.T) {
	r := newRig(t, limit(TokenBucket, 5, 1))
	_, spent := r.Take(r.client, r.now)
	spent.Hold()
	r.after(time.Minute)
	if s := r.Snapshot(r.now, 0); s.Remaining != 4 || !s.NextRefill.Equal(r.now) {
		t.Errorf("%d left, the next at %v", s.Remaining, s.NextRefill.Sub(r.now))
	}
	spent.Use(r.now)
	if s := r.Snapshot(r.now, 0); s.Remaining != 4 || s.NextRefill.Sub(r.now) != time.Second {
		t.Errorf("%d left, the next at %v", s.Remaining, s.NextRefill.Sub(r.now))
	}
}

func TestNamesOfClients(t *testing.T) {
	for client, want := range map[netip.Prefix]string{
		{}: "unknown", netip.MustParsePrefix("192.0.2.1/32"): "192.0.2.1", netip.MustParsePrefix("2001:db8::/64"): "2001:db8::/64",
	} {
		if got := ClientName(client); got != want {
			t.Errorf("%v is called %s, want %s", client, got, want)
		}
	}
}
