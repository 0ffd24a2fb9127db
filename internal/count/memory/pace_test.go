package memory

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestSmallHeapsMayGrow(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct{ alive, roots, limit, want uint64 }{
		{4 * mib, 0, math.MaxInt64, 700},
		{4 * mib, 3 * mib, math.MaxInt64, 400}, // 28 MiB are four times 7
		{17 * mib, 0, math.MaxInt64, usualGrowth},
		{400 * mib, 0, math.MaxInt64, usualGrowth},
		{4 * mib, 0, 64 * mib, 300}, // little memory: a quarter of it is 16 MiB
		{4 * mib, 0, mib, usualGrowth},
		{0, 0, math.MaxInt64, usualGrowth}, // nothing was collected yet
	} {
		if got := growthOf(test.alive, test.roots, test.limit); got != test.want {
			t.Errorf("%d MiB of a heap with %d MiB roots and a limit of %d MiB: %d, want %d",
				test.alive/mib, test.roots/mib, test.limit/mib, got, test.want)
		}
	}
}

// garbage has memory that nobody holds filled with so many bytes, and returns how often it was
// collected.
func garbage(bytes int) uint64 {
	before := collections()
	for range bytes / (4 << 10) {
		kept = new([4 << 10]byte)
	}
	kept = nil
	return collections() - before
}

var kept *[4 << 10]byte //nolint:gochecknoglobals // so that it is not on the stack

func TestSmallHeapIsCollectedSeldom(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(usualGrowth))
	p := pace{growth: usualGrowth}
	runtime.GC()
	usual := garbage(20 << 20)
	runtime.GC()
	p.follow(math.MaxInt64)
	if paced := garbage(20 << 20); paced > 0 || usual < 2 {
		t.Errorf("20 MiB of garbage were collected %d times, and with the pace %d times, want none", usual, paced)
	}
	p.set(usualGrowth)
	if again := garbage(20 << 20); again < 2 {
		t.Errorf("20 MiB of garbage were collected %d times after the end", again)
	}
}

// Somebody who sets GOGC knows why.
func TestPaceLeavesAnotherGrowthAlone(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(150))
	runtime.GC()
	for _, test := range []struct {
		percent int
		pace    pace
	}{{150, pace{growth: usualGrowth}}, {usualGrowth, pace{growth: usualGrowth, off: true}}} {
		debug.SetGCPercent(test.percent)
		test.pace.follow(math.MaxInt64)
		if got := debug.SetGCPercent(test.percent); got != test.percent {
			t.Errorf("GOGC is %d, want %d", got, test.percent)
		}
	}
}
