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
			if rapid.IntRange(0, 3).Draw(t, "taken back") == 0 {
				w.dropOldest(n)
				list = list[min(n, len(list)):]
			} else {
				w.addMany(r, now, n)
				list = append(list, slices.Repeat([]int64{now}, n)...)
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
