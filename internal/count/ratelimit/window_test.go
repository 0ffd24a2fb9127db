package ratelimit

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestWindowIsAListOfRequests: a window that has a mark for every moment answers like a
// list of when requests came, whatever is added, forgotten or taken back.
func TestWindowIsAListOfRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const length = 1000
		r := &rules{algorithm: SlidingWindow, capacity: math.MaxInt, window: length, marks: 200}
		var w window
		var list []int64
		now := int64(0)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			now += rapid.Int64Range(0, length/8).Draw(t, "gap")
			w.forget(r, now)
			list = slices.DeleteFunc(list, func(at int64) bool { return now-at >= length })
			n := rapid.IntRange(1, 3).Draw(t, "requests")
			switch rapid.SampledFrom([]string{"come", "come", "come", "the oldest go", "one is given back"}).Draw(t, "what") {
			case "come":
				w.add(r, now, n)
				list = append(list, slices.Repeat([]int64{now}, n)...)
			case "the oldest go":
				w.dropOldest(n)
				list = list[min(n, len(list)):]
			case "one is given back":
				if len(list) > 0 {
					i := rapid.IntRange(0, len(list)-1).Draw(t, "which")
					w.giveBack(r, list[i], now, 1)
					list = slices.Delete(list, i, i+1)
				}
			}
			checkWindow(t, &w, r, list, now)
		}
	})
}

func checkWindow(t *rapid.T, w *window, r *rules, list []int64, now int64) {
	if w.total != len(list) {
		t.Fatalf("%d requests, want %d", w.total, len(list))
	}
	after := now - rapid.Int64Range(0, r.window).Draw(t, "after")
	if len(list) > 0 && rapid.Bool().Draw(t, "exactly") {
		after = list[rapid.IntRange(0, len(list)-1).Draw(t, "which")]
	}
	since := 0
	for _, at := range list {
		if at > after {
			since++
		}
	}
	if got := w.since(after); got != since {
		t.Fatalf("%d requests after %d, want %d", got, after, since)
	}
	below := rapid.IntRange(1, len(list)+1).Draw(t, "below")
	wait := time.Duration(0)
	if below <= len(list) {
		wait = time.Duration(list[len(list)-below] + r.window - now)
	}
	if got := w.untilBelow(r, now, below); got != wait && w.total >= below {
		t.Fatalf("fewer than %d of %d after %d, want %d", below, len(list), got, wait)
	}
}

// TestRequestsDoNotShareAMarkAfterAReturn: a request that is given back leaves the mark
// before it as it was, so that its requests are forgotten in time.
func TestRequestsDoNotShareAMarkAfterAReturn(t *testing.T) {
	const length, grain = 1000, 100
	for _, returned := range []int64{150, 500} {
		r := &rules{algorithm: SlidingWindow, capacity: 100, window: length, marks: 12, grain: grain}
		var w window
		w.add(r, 0, 1)
		w.add(r, returned, 1)
		w.giveBack(r, returned, returned, 1)
		w.add(r, returned+10, 1)
		if w.total != 2 {
			t.Errorf("%d requests, want 2", w.total)
		}
		if w.forget(r, length-1); w.total != 2 {
			t.Errorf("%d requests before the first is a window old", w.total)
		}
		if w.forget(r, length); w.total != 1 {
			t.Errorf("%d requests after the first is a window old, and one at %d was given back", w.total, returned)
		}
	}
}

// TestRequestsOfOneGrainShareAMark, and those of the next have one of their own.
func TestRequestsOfOneGrainShareAMark(t *testing.T) {
	const length, grain = 1000, 100
	r := &rules{algorithm: SlidingWindow, capacity: 100, window: length, marks: 12, grain: grain}
	var w window
	for _, at := range []int64{0, 60, 99, 101, 190, 300} {
		w.add(r, at, 1)
	}
	for now, want := range map[int64]int{length + 98: 6, length + 99: 3, length + 189: 3, length + 190: 1, length + 300: 0} {
		probe := w
		if probe.forget(r, now); probe.total != want {
			t.Errorf("%d requests count at %d, want %d", probe.total, now, want)
		}
	}
}

// TestReturnOfARequestThatIsForgotten takes nothing from others that still count.
func TestReturnOfARequestThatIsForgotten(t *testing.T) {
	const length = 1000
	r := &rules{algorithm: SlidingWindow, capacity: 100, window: length, marks: 12}
	for _, now := range []int64{length - 1, length, length + 1} {
		var w window
		w.add(r, 0, 1)
		w.add(r, 500, 1)
		if w.giveBack(r, 0, now, 1); w.total != 1 || w.newest().latest != 500 {
			t.Errorf("%d requests after the first was given back at %d", w.total, now)
		}
	}
}
