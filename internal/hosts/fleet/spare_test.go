package fleet_test

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// Calls of the class Spare have a model loaded where no other one leaves for it that somebody
// uses, used lately, or waits for.
func TestWhichModelsLeaveForSpareCalls(t *testing.T) {
	const room = 1
	for name, c := range map[string]struct {
		other fleet.Keeping
		// use is what happens to the other model, which came into memory at 0 s.
		use func(other *fleet.Instance, f *fleet.Fleet)
		// from is when the model may be loaded, in seconds; below 0 it never is.
		from float64
	}{
		"not used since it was loaded": {fleet.Keeping{Room: room}, nil, 120},
		"used": {fleet.Keeping{Room: room}, func(other *fleet.Instance, _ *fleet.Fleet) {
			other.Enter(1, at(30))
			other.Leave(at(50))
		}, 170},
		"in use":                {fleet.Keeping{Room: room}, func(other *fleet.Instance, _ *fleet.Fleet) { other.Enter(1, at(30)) }, -1},
		"put to sleep later":    {fleet.Keeping{Room: room, SleepAfter: 10 * time.Minute}, nil, 600},
		"put to sleep early":    {fleet.Keeping{Room: room, SleepAfter: 10 * time.Second}, nil, 10},
		"room for both":         {fleet.Keeping{Room: 2}, nil, 0},
		"nobody knows the room": {fleet.Keeping{}, nil, 120},
		"another one waits for room": {fleet.Keeping{Room: room}, func(_ *fleet.Instance, f *fleet.Fleet) {
			third := f.Instance("h", "third")
			third.Keep(fleet.Keeping{Room: room})
			third.BeginLoad(false, at(0.5)) // the other one rests
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			f := fleet.New(fleet.Options{}, at(0))
			other := keep(f, "h", "other", c.other, at(0))
			m := f.Instance("h", "m")
			m.Keep(c.other)
			if c.use != nil {
				c.use(other, f)
			}
			for now := 60.0; now < 700; now += 5 {
				want := c.from >= 0 && now >= c.from
				if got := m.AllowsSpare(at(now)); got != want {
					t.Fatalf("after %.0f s a call may come: %t", now, got)
				}
				if want {
					break
				}
				if _, begun := m.BeginSpareLoad(at(now)); begun != fleet.NoRoom {
					t.Fatalf("after %.0f s it is loaded: %d", now, begun)
				}
				if !other.Enter(0, at(0)) {
					t.Fatalf("after %.0f s the other one has to leave", now)
				}
			}
		})
	}
}

func TestSpareCallsAreToldOfPinnedModels(t *testing.T) {
	f := fleet.New(fleet.Options{}, at(0))
	keep(f, "h", "other", fleet.Keeping{Room: 1, IsPinned: true}, at(0))
	m := f.Instance("h", "m")
	m.Keep(fleet.Keeping{Room: 1})
	if _, begun := m.BeginSpareLoad(at(1000)); begun != fleet.Full || !m.AllowsSpare(at(1000)) {
		t.Errorf("got %d", begun)
	}
}

// A model of batches makes way for one that waits: no further call comes.
func TestSpareCallsMakeWayForAModelThatWaits(t *testing.T) {
	f := fleet.New(fleet.Options{}, at(0))
	m := keep(f, "h", "m", fleet.Keeping{Room: 1}, at(0))
	m.Enter(1, at(100))
	if !m.AllowsSpare(at(101)) {
		t.Error("no call may come although the model is in memory")
	}
	other := f.Instance("h", "other")
	other.Keep(fleet.Keeping{Room: 1})
	if _, begun, _ := other.BeginLoad(false, at(102)); begun != fleet.NoRoom {
		t.Fatal(begun)
	}
	if m.AllowsSpare(at(103)) {
		t.Error("one more call may come although another model waits")
	}
}
