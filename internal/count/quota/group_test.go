package quota

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestGroupWaitsForAllThatRun: also for those that are started meanwhile, and no longer
// than the context lasts. Nobody waits for a group in which nothing runs.
func TestGroupWaitsForAllThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g group
		waits := func(ctx context.Context) (time.Duration, error) {
			began := time.Now()
			err := g.wait(ctx)
			return time.Since(began), err
		}
		run := func(long time.Duration) { g.start(func() { <-time.After(long) }) }
		if took, err := waits(t.Context()); took != 0 || err != nil {
			t.Errorf("%v, %v for nothing", took, err)
		}
		run(time.Second)
		run(3 * time.Second)
		go func() {
			<-time.After(2 * time.Second)
			run(2 * time.Second)
		}()
		short, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if took, err := waits(short); took != time.Second/2 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v, %v where the context ends before", took, err)
		}
		done := make(chan time.Duration)
		for range 2 {
			go func() {
				took, _ := waits(t.Context())
				done <- took
			}()
		}
		for range 2 {
			if took := <-done; took != 3500*time.Millisecond {
				t.Errorf("%v until all had ended, want 3.5 s", took)
			}
		}
		if took, err := waits(t.Context()); took != 0 || err != nil {
			t.Errorf("%v, %v after all had ended", took, err)
		}
		run(time.Second)
		if took, err := waits(t.Context()); took != time.Second || err != nil {
			t.Errorf("%v, %v for what was started after all others had ended", took, err)
		}
	})
}

// A total below 0 is one that no gateway tells.
func TestTotalsBelowZeroAreNotRead(t *testing.T) {
	writer := strings.Join([]string{"w", "t", "k", "u", "chat", "m"}, separator)
	for text, want := range map[string]bool{
		"1 5 3 2 9": true, "0 0 0 0 0": true, "-1 5 3 2 9": false, "1 -5 3 2 9": false, "1 5 3 2 -9": false, "1 5": false,
	} {
		if _, ok := readTotal(writer, text); ok != want {
			t.Errorf("%q is read: %t", text, ok)
		}
	}
}
