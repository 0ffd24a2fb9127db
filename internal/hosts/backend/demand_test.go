package backend_test

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
)

// Lines leave free what others needed a while ago, and take it when nobody does any more.
func TestLinesOfBatchesLeaveRoomForThoseWhoComeMeanwhile(t *testing.T) {
	t.Parallel()
	i := spareInstance(t, func(s *backend.Settings) {
		most := 4
		s.MaxConcurrency, s.BatchConcurrency = 4, &most
	})
	now := time.Now()
	free := func(want int) {
		t.Helper()
		if got := i.SpareFree(now); got != want {
			t.Errorf("%d lines may run, want %d", got, want)
		}
		if o := i.SpareObstacle(now); (o == backend.NoObstacle) != (want > 0) {
			t.Errorf("%d lines may run, and the obstacle is %v", want, o)
		}
	}
	free(4) // nobody else is there
	acquire := func() backend.Permit {
		t.Helper()
		permit, ok := i.Acquire(now)
		if !ok {
			t.Fatal("no slot")
		}
		return permit
	}
	first, second := acquire(), acquire()
	i.Release(first, breaker.Success, now)
	i.Release(second, breaker.Success, now)
	free(2) // two came at a time
	now = now.Add(10 * time.Second)
	third := acquire()
	free(2) // one is there, and another one may come
	i.Release(third, breaker.Success, now)
	now = now.Add(2 * time.Minute)
	free(4)
	// A line takes a tenth of a second: what others did is forgotten the sooner.
	line, ok := i.AcquireSpare(now)
	if !ok {
		t.Fatal("no slot for a line")
	}
	now = now.Add(100 * time.Millisecond)
	i.Release(line, breaker.Success, now)
	i.Release(acquire(), breaker.Success, now)
	free(3)
	now = now.Add(10 * time.Second)
	free(4)
}

// An instance without a bound has slots for everybody.
func TestLinesOfBatchesLeaveNoRoomWhereSlotsAreUnbounded(t *testing.T) {
	t.Parallel()
	i := spareInstance(t, func(*backend.Settings) {})
	now := time.Now()
	i.SpareFree(now)
	for range 50 {
		if _, ok := i.Acquire(now); !ok {
			t.Fatal("no slot")
		}
	}
	if got := i.SpareFree(now); got != 2 {
		t.Errorf("%d lines may run", got)
	}
}
