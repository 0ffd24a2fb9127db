package access

import (
	"sync"
	"testing"
	"time"
)

func TestActivityCountsTheCallsOfADay(t *testing.T) {
	t.Parallel()
	var a activity
	noon := time.Date(2026, 5, 31, 12, 0, 0, 0, time.UTC)
	if n := a.calls(noon); n != 0 {
		t.Errorf("%d calls before the first", n)
	}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 100 {
				a.note(noon)
			}
		})
	}
	callers.Wait()
	if n := a.calls(noon.Add(11 * time.Hour)); n != 400 {
		t.Errorf("%d calls in a day, want 400", n)
	}
	next := noon.Add(12 * time.Hour)
	if n := a.calls(next); n != 0 {
		t.Errorf("%d calls on the next day", n)
	}
	a.note(next)
	if n := a.calls(next); n != 1 || !time.Unix(0, a.last.Load()).Equal(next) {
		t.Errorf("%d calls, the last at %v", n, time.Unix(0, a.last.Load()))
	}
}
