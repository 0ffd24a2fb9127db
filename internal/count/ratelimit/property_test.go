package ratelimit

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// arrivals draws moments at which requests come, in nanoseconds: bursts, pauses,
// and a clock that sometimes steps back.
func arrivals(t *rapid.T, window int64) []int64 {
	// Shares of a window, because drawn numbers prefer to be small.
	fortieths := rapid.SampledFrom([]int64{0, 0, 1, 1, 3, 3, 10, 20, 39, 40, 80, -20})
	gaps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) int64 {
		return fortieths.Draw(t, "fortieths")*window/40 + rapid.Int64Range(-3, window/100).Draw(t, "odd")
	}), 60, 200).Draw(t, "gaps")
	times := make([]int64, len(gaps))
	now := int64(0)
	for i, gap := range gaps {
		now += gap
		times[i] = now
	}
	return times
}

// admitted runs arrivals through a fresh bucket, each moment several times, and
// returns when requests were allowed, on a clock that never steps back.
func admitted(t *rapid.T, r *rules, times []int64) []int64 {
	var sum bucket
	sum.begin(r, 0)
	var allowed []int64
	latest := int64(0)
	for _, now := range times {
		latest = max(latest, now)
		for range rapid.IntRange(1, 4).Draw(t, "requests") {
			var d Decision
			sum.decide(r, now, 1, true, &d)
			checkDecision(t, r, &sum, now, d)
			if d.Allowed {
				allowed = append(allowed, latest)
			}
		}
	}
	return allowed
}

// checkDecision proves that a decision keeps its word: after exactly the times it
// tells a retry is allowed and nothing counts as spent any more, one nanosecond
// earlier that is not so.
func checkDecision(t *rapid.T, r *rules, sum *bucket, now int64, d Decision) {
	if d.Remaining < 0 || d.Remaining > r.capacity || d.RetryAfter < 0 || d.ResetAfter < d.RetryAfter {
		t.Fatalf("%+v", d)
	}
	if (d.Remaining == 0) != (d.RetryAfter > 0) {
		t.Fatalf("remaining and retry disagree: %+v", d)
	}
	now = max(now, sum.at, sum.window.now)
	probe := *sum // peeking moves a window's clock; its ring is not written to
	early := int64(1)
	if r.algorithm == WarmUp {
		early = 10 // its curve is rounded
	}
	if int64(d.ResetAfter) >= early && probe.peek(r, now+int64(d.ResetAfter)-early).ResetAfter == 0 {
		t.Fatalf("nothing is spent before the time to reset: %+v", d)
	}
	if reset := probe.peek(r, now+int64(d.ResetAfter)); reset.Remaining != r.capacity || reset.ResetAfter != 0 {
		t.Fatalf("at the time to reset: %+v after %+v", reset, d)
	}
	if d.RetryAfter == 0 {
		return
	}
	probe = *sum
	if probe.peek(r, now+int64(d.RetryAfter)-1).Allowed {
		t.Fatalf("allowed before the time to retry: %+v", d)
	}
	if !probe.peek(r, now+int64(d.RetryAfter)).Allowed {
		t.Fatalf("refused at the time to retry: %+v", d)
	}
}

func anyLimit(t *rapid.T, algorithm Algorithm) Settings {
	s := limit(algorithm, rapid.IntRange(1, 12).Draw(t, "capacity"), rapid.IntRange(1, 12).Draw(t, "rate"))
	s.WarmUpPeriod = minute / 6
	return s
}

func TestBucketsNeverAllowMoreThanCapacityPlusRefill(t *testing.T) {
	for _, algorithm := range []Algorithm{TokenBucket, LeakyBucket, WarmUp} {
		t.Run(algorithm.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := newRules(anyLimit(t, algorithm), 0, wholeMarks)
				times := admitted(t, r, arrivals(t, r.window))
				for i := range times {
					for j := i; j < len(times); j++ {
						allowance := float64(r.burstAt(times[j])) + flow(r, times[i], times[j])
						if n := int64(j - i + 1); float64(n*partsPerRequest) > allowance+1 {
							t.Fatalf("%d allowed within %v, where %.3f may be", n, time.Duration(times[j]-times[i]), allowance/float64(partsPerRequest))
						}
					}
				}
			})
		})
	}
}

// flow is how much may flow in between two times, by adding up slices of the
// rate instead of the formula that the limiter uses.
func flow(r *rules, from, to int64) float64 {
	const slices = 64
	ramp := max(from, min(to, r.warmEnd))
	width := float64(ramp-from) / slices
	sum := float64(to-ramp) * float64(r.rate)
	for i := range slices {
		middle := float64(from) + (float64(i)+0.5)*width
		if width > 0 {
			sum += width * float64(r.rate) * (1 + 2*middle/float64(r.warmEnd)) / 3
		}
	}
	return sum
}

func TestNoWindowHoldsMoreThanItsCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		marks := rapid.SampledFrom([]int{3, 10, 50, wholeMarks}).Draw(t, "marks") // most share marks
		r := newRules(anyLimit(t, SlidingWindow), 0, marks)
		times := admitted(t, r, arrivals(t, r.window))
		for i := r.capacity; i < len(times); i++ {
			if span := times[i] - times[i-r.capacity]; span < r.window {
				t.Fatalf("%d allowed within %v, window %v", r.capacity+1, time.Duration(span), time.Duration(r.window))
			}
		}
	})
}

// An exact window is one that remembers everything.
func TestWindowWithEnoughMarksIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anyLimit(t, SlidingWindow)
		marks := rapid.SampledFrom([]int{s.Capacity, s.Capacity + 1, wholeMarks}).Draw(t, "marks")
		r := newRules(s, 0, marks)
		var sum bucket
		sum.begin(r, 0)
		var log []int64
		latest := int64(0)
		for _, now := range arrivals(t, r.window) {
			latest = max(latest, now)
			held := 0
			for _, at := range log {
				if latest-at < r.window {
					held++
				}
			}
			var d Decision
			sum.decide(r, now, 1, true, &d)
			if d.Allowed != (held < r.capacity) {
				t.Fatalf("allowed %v with %d of %d in the window", d.Allowed, held, r.capacity)
			}
			if d.Allowed {
				log = append(log, latest)
			}
		}
	})
}

// There are so many marks that none has to stand for more than a grain of time,
// however requests come.
func TestMarksOfAWindowSuffice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		marks := rapid.IntRange(3, 40).Draw(t, "marks")
		r := newRules(limit(SlidingWindow, 100*marks, 100*marks), 0, marks)
		var b bucket
		step := rapid.Int64Range(1, r.grain).Draw(t, "step")
		for now := int64(0); now < 3*r.window; now += max(step, r.window/2000) {
			var d Decision
			b.decide(r, now, 1, true, &d)
			w := &b.window
			if span := w.newest().latest - w.opened; span > r.grain || w.used > marks {
				t.Fatalf("%d of %d marks are used, and one spans %v where a grain is %v", w.used, marks, time.Duration(span), time.Duration(r.grain))
			}
		}
	})
}

// Whoever asks without pause gets at least 98 % of what the limit promises.
func TestSaturationUsesTheAllowance(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				most := 50
				if algorithm == SlidingWindow {
					most = 4 * clientMarks // some share marks
				}
				s := limit(algorithm, rapid.IntRange(1, most).Draw(t, "capacity"), rapid.IntRange(1, most).Draw(t, "rate"))
				s.WarmUpPeriod = minute / 6
				r := newRules(s, 0, clientMarks)
				// So long that the last, unfinished window or token weighs little.
				duration := max(110*r.window, 200*int64(time.Second)/r.rate)
				if algorithm == SlidingWindow {
					duration = 4*r.window + r.window/10
				}
				got := saturate(r, duration, rapid.Int64Range(0, r.window/2000).Draw(t, "jitter"))
				want := (float64(r.burstAt(0)) + flow(r, 0, duration)) / float64(partsPerRequest)
				if algorithm == SlidingWindow {
					want = 5 * float64(r.capacity)
				}
				if float64(got) < 0.98*want || float64(got) > want+1 {
					t.Fatalf("%d allowed of %.1f", got, want)
				}
			})
		})
	}
}

// saturate asks again as soon as it may, give or take a jitter, and counts.
func saturate(r *rules, duration, jitter int64) (allowed int) {
	var sum bucket
	sum.begin(r, 0)
	for now := int64(0); now <= duration; {
		var d Decision
		sum.decide(r, now, 1, true, &d)
		if d.Allowed {
			allowed++
			continue
		}
		now += int64(d.RetryAfter) + jitter%(int64(d.RetryAfter)/100+1)
	}
	return allowed
}

// An edit that raises the capacity adds what it raises; apart from that, edits
// give nothing away.
func TestEditsGiveNothingAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := time.Now()
		algorithm := rapid.SampledFrom(algorithms[:2]).Draw(t, "algorithm")
		l := New(anyLimit(t, algorithm), start)
		settings := l.plan.Load().settings
		capacity, rate := settings.Capacity, settings.RefillRate
		now, allowed := start, 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 500).Draw(t, "ms")) * time.Millisecond)
			if rapid.Bool().Draw(t, "edit") {
				next := anyLimit(t, algorithm)
				l.Update(next, now)
				capacity += max(0, next.Capacity-settings.Capacity)
				rate = max(rate, next.RefillRate)
				settings = next
			}
			for range rapid.IntRange(0, 50).Draw(t, "requests") {
				if l.Allow(v4(1), now).Allowed {
					allowed++
				}
			}
		}
		if allowance := float64(capacity) + float64(rate)*now.Sub(start).Seconds(); float64(allowed) > allowance {
			t.Fatalf("%d allowed of %.1f", allowed, allowance)
		}
	})
}
