package quota_test

import (
	"slices"
	"testing"
	"time"
)

// patience is far longer than anything takes, also on a machine that is busy with
// other things: a test that waits for so long has failed.
const patience = 2 * time.Minute

// eventually waits until something is so, which then stays so.
func eventually(t testing.TB, what string, so func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		case <-tick.C:
		}
	}
}

func sorted[T any](list []T, compare func(a, b T) int) []T {
	slices.SortFunc(list, compare)
	return list
}
