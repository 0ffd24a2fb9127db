package fleet_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
)

// TestTheModelThatIsNeededLastLeaves has memory for two models: one that is used every ten
// minutes all day, and one that is used now and then. Which of them was used last does not
// matter, unless that is a moment ago.
func TestTheModelThatIsNeededLastLeaves(t *testing.T) {
	const day, minute = 86400.0, 60.0
	for _, c := range []struct {
		name             string
		often, rare, now float64 // when each was used last
		leaves           string
	}{
		{"the rare one was used last", day - 8*minute, day - 3*minute, day, "rare"},
		{"the other one was used last", day - 3*minute, day - 8*minute, day, "rare"},
		{"the rare one was used a moment ago", day - 8*minute, day - 1, day, "often"},
		{"the other one has not come back", day - 8*minute, day, day + 500*minute, "often"},
	} {
		f := fleet.New(fleet.Options{}, at(0))
		room := fleet.Keeping{Room: 2}
		often, rare := keep(f, "h", "often", room, at(1)), keep(f, "h", "rare", room, at(1))
		use := func(i *fleet.Instance, now float64) {
			if !i.Enter(1, at(now)) {
				t.Fatal("not in memory")
			}
			i.Leave(at(now + 2))
		}
		for now := 10 * minute; now < c.often; now += 10 * minute {
			use(often, now)
		}
		for now := 200 * minute; now < c.rare; now += 200 * minute {
			use(rare, now)
		}
		use(often, c.often)
		use(rare, c.rare)
		third := f.Instance("h", "third")
		third.Keep(room)
		leave, begun, _ := third.BeginLoad(false, at(c.now))
		if begun != fleet.Began || len(leave) != 1 || leave[0].Model() != c.leaves {
			t.Errorf("%s: %v, %d leave", c.name, begun, len(leave))
			for _, i := range leave {
				t.Errorf("%s leaves", i.Model())
			}
		}
	}
}

// TestAModelThatWaitsForRoomIsNotLoadedElsewhere: requests join it for as long as loading it
// on another host would take.
func TestAModelThatWaitsForRoomIsNotLoadedElsewhere(t *testing.T) {
	f := fleet.New(fleet.Options{}, at(0))
	room := fleet.Keeping{Room: 1}
	a, b := f.Instance("a", "m"), f.Instance("b", "m")
	a.Keep(room)
	b.Keep(room)
	one, two := keep(f, "a", "one", room, at(1)), keep(f, "b", "two", room, at(1))
	one.Enter(1, at(30))
	two.Enter(1, at(31))
	from := []*fleet.Instance{a, b}
	first := f.Preferred(from, false, false, at(40))
	if _, begun, _ := from[first[0]].BeginLoad(false, at(40)); begun != fleet.NoRoom {
		t.Fatal(begun)
	}
	one.Leave(at(41))
	two.Leave(at(41))
	if got := f.Preferred(from, false, false, at(42)); len(got) != 1 || got[0] != first[0] {
		t.Errorf("%v, and %v waits for room", got, first)
	}
	from[first[0]].Withdraw()
	if got := f.Preferred(from, false, true, at(60)); len(got) != 1 {
		t.Errorf("%v when nobody waits", got)
	}
}

// TestAProcessThatDoesNotRunIsAbsent: who looked knows more than nothing.
func TestAProcessThatDoesNotRunIsAbsent(t *testing.T) {
	f := fleet.New(fleet.Options{}, at(0))
	i := f.Instance("h", "m")
	i.Keep(fleet.Keeping{})
	i.Found(false, false, at(1))
	if state := i.Residence(at(2)).State; state != "absent" {
		t.Error(state)
	}
}
