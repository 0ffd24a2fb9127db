package quota_test

import (
	"slices"
	"testing"
	"time"
)

// eventually waits until something is so, for longer than it should take.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	within(t, 20*time.Second, what, so)
}

func within(t testing.TB, longest time.Duration, what string, so func() bool) {
	t.Helper()
	deadline := time.After(longest)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-deadline:
			t.Fatalf("not within %v: %s", longest, what)
		case <-tick.C:
		}
	}
}

func sorted[T any](list []T, compare func(a, b T) int) []T {
	slices.SortFunc(list, compare)
	return list
}
