package memory

import "testing"

func TestMemoryIsShortBetweenTheMarks(t *testing.T) {
	w := &Watch{limit: 1000}
	for _, step := range []struct {
		used uint64
		want bool
	}{{100, false}, {899, false}, {901, true}, {850, true}, {801, true}, {799, false}, {850, false}} {
		if w.judge(step.used); w.Short() != step.want {
			t.Fatalf("with %d of 1000 used: short = %v, want %v", step.used, w.Short(), step.want)
		}
	}
}

func TestUsedGrowsWithWhatIsHeld(t *testing.T) {
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
