package memory

import (
	"context"
	"math"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemoryIsShortBetweenTheMarks(t *testing.T) {
	w := new(Watch)
	w.limit.Store(1000)
	for _, step := range []struct {
		used uint64
		want bool
	}{{100, false}, {899, false}, {901, true}, {850, true}, {801, true}, {799, false}, {850, false}} {
		if w.update(step.used); w.Short() != step.want {
			t.Fatalf("with %d of 1000 used: short = %v, want %v", step.used, w.Short(), step.want)
		}
	}
}

func TestUsedGrowsWithWhatIsHeld(t *testing.T) {
	debug.FreeOSMemory() // what earlier tests left behind does not count
	before := used()
	held := make([]byte, 64<<20)
	for i := range held {
		held[i] = 1
	}
	if after := used(); after < before+32<<20 {
		t.Errorf("used %d before and %d after taking 64 MiB", before, after)
	}
	if held[0] != 1 {
		t.Fatal("the memory must be alive until here")
	}
}

// The limit can come, change and go while the program runs.
func TestLimitChangesWhileItIsWatched(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := New(0)
		standing := debug.SetMemoryLimit(-1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Run(ctx)
		}()
		const little = 1 << 20 // less than any program uses, however much the collector frees
		for _, step := range []struct {
			limit, inForce int64
			short          bool
		}{
			{0, standing, false},
			{little, little, true},
			{1 << 50, 1 << 50, false},
			{little, little, true},
			{0, standing, false},
		} {
			w.SetLimit(step.limit)
			<-time.After(2 * checkEvery) // the clock of the bubble
			synctest.Wait()
			if w.Short() != step.short || debug.SetMemoryLimit(-1) != step.inForce {
				t.Errorf("limit %d: short %v, the collector works towards %d", step.limit, w.Short(), debug.SetMemoryLimit(-1))
			}
		}
		cancel()
		<-ended
	})
}

// What requests left behind does not keep memory short, although nobody allocates
// enough for the collector to run by itself.
func TestGarbageDoesNotKeepMemoryShort(t *testing.T) {
	percent := debug.SetGCPercent(-1) // the collector runs only when it is asked to
	t.Cleanup(func() { debug.SetGCPercent(percent) })
	synctest.Test(t, func(t *testing.T) {
		const left = 256 << 20
		debug.FreeOSMemory()
		w := new(Watch)
		w.limit.Store(int64(float64(used()+left) / 0.95))
		leaveBehind(left)
		if w.update(used()); !w.Short() {
			t.Fatal("memory is not short although the garbage was not collected")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.Run(ctx)
		}()
		<-time.After(3 * checkEvery) // the clock of the bubble
		synctest.Wait()
		if w.Short() {
			t.Error("memory is short although only garbage fills it")
		}
		cancel()
		<-ended
	})
}

// leaveBehind allocates memory that nobody holds afterwards.
//
//go:noinline
func leaveBehind(size int) int {
	garbage := make([]byte, size)
	garbage[size/2] = 1
	return int(garbage[size/2])
}

// Bodies have half of the memory, also when the limit changes.
func TestBodiesHaveHalfOfTheMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	w := New(2 << 40)
	if got := w.Bodies().Limit(); got != 1<<40 {
		t.Errorf("%d", got)
	}
	w.SetLimit(4 << 40)
	if got := w.Bodies().Limit(); got != 2<<40 {
		t.Errorf("%d after a change", got)
	}
	w.SetLimit(math.MaxInt64)
	if got := w.Bodies().Limit(); got != Unlimited {
		t.Errorf("%d without a limit", got)
	}
	if none := (*Watch)(nil).Bodies(); none != nil {
		t.Error("without a watch there is a bound")
	}
}
