package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// One caller does not take all places: the newest of its requests give way to those of
// others until nobody has two more than another one who wants a place.
func TestTheCallerWithTheMostPlacesGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(6)
		for n := range 8 {
			h.enter(fmt.Sprintf("a%d", n), false)
		}
		for _, name := range []string{"b0", "c0", "b1", "b2", "a8"} {
			h.enter(name, false)
		}
		if got := h.order(); got != "a6 full, a7 full, a5 full, a4 full, a3 full, b2 full, a8 full" || h.q.Len() != 6 {
			t.Errorf("%s; %d wait", got, h.q.Len())
		}
		for range 6 {
			h.wake()
		}
		if got := h.order(); !strings.HasSuffix(got, "a8 full, a0, b0, c0, a1, b1, a2") {
			t.Errorf("turns %s", got)
		}
	})
}

// Requests of a more urgent class do not give way to less urgent ones.
func TestUrgentRequestsDoNotGiveWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHall(3)
		for n := range 3 {
			h.enterAs(schema.Interactive, fmt.Sprintf("a%d", n), false)
		}
		h.enterAs(schema.Normal, "b1", false)
		h.enterAs(schema.Interactive, "c1", false)
		if got := h.order(); got != "b1 full, a2 full" {
			t.Errorf("%s", got)
		}
		h.empty()
	})
}

// A request that gives way at the moment at which its client leaves has no turn to hand on.
func TestAWaiterThatGaveWayEndsNoTurn(t *testing.T) {
	q := New()
	standing := [2]Standing{}
	for n := range standing {
		w := new(waiter)
		if !q.enter(w, "a", &standing[n], 2) {
			t.Fatal("no place")
		}
		if n == 1 {
			if !q.enter(new(waiter), "b", new(Standing), 2) || q.leave(w, "a", &standing[1]) {
				t.Error("what gave way is taken for a turn")
			}
		}
	}
	if q.turns != 0 || q.waiting != 2 {
		t.Errorf("%d turns, %d wait", q.turns, q.waiting)
	}
}

// room is a queue whose places are held, or waited in, and who has them by the order of
// their coming.
type room struct {
	*hall
	places []string
	held   map[string]*Place
	lost   []string
}

func (r *room) count(caller string) (n int) {
	for _, name := range r.places {
		if name[:1] == caller {
			n++
		}
	}
	return n
}

// come lets a request come to a full queue or not, and returns what is wrong with who gets a
// place.
func (r *room) come(name string, hold bool) string {
	caller, size := name[:1], r.settings.Size
	before, lost := len(r.ended), len(r.lost)
	most, isFull := 0, len(r.places) >= size
	for _, other := range r.places {
		most = max(most, r.count(other[:1]))
	}
	yields := isFull && most > r.count(caller)+1
	if has := r.q.HasPlace(caller, schema.Normal, size); has != (!isFull || yields) {
		return fmt.Sprintf("HasPlace for %s is %t among %v", name, has, r.places)
	}
	if hold {
		place := r.q.Hold(caller, schema.Normal, size, func() { r.lost = append(r.lost, name) })
		if place == nil {
			r.lost = append(r.lost, name)
		} else {
			r.held[name] = place
		}
		synctest.Wait()
	} else {
		r.enter(name, false)
	}
	gone := slices.Clone(r.lost[lost:])
	for _, ended := range r.ended[before:] {
		gone = append(gone, strings.TrimSuffix(ended, " full"))
	}
	newest := slices.DeleteFunc(slices.Clone(r.places), func(other string) bool { return len(gone) == 0 || other[:1] != gone[0][:1] })
	switch {
	case !isFull && len(gone) == 0, isFull && !yields && len(gone) == 1 && gone[0] == name:
	case yields && len(gone) == 1 && len(newest) == most && gone[0] == newest[most-1]:
		r.places = slices.DeleteFunc(r.places, func(other string) bool { return other == gone[0] })
	default:
		return fmt.Sprintf("%v lost their places to %s; before there were %v", gone, name, r.places)
	}
	if len(gone) == 0 || gone[0] != name {
		r.places = append(r.places, name)
	}
	return ""
}

// Whoever comes and leaves, whether they wait for a slot or are held: no more have places
// than may, only the newest request of the caller with the most gives way, only to a caller
// that has fewer afterwards, and nothing is left in the end.
func TestPlacesAreSharedBetweenCallers(t *testing.T) {
	acts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) act {
		return act{rapid.SampledFrom([]string{"enter", "enter", "hold", "hold", "leave"}).Draw(t, "what"), rapid.IntRange(0, 99).Draw(t, "who")}
	}), 1, 60)
	rapid.Check(t, func(rt *rapid.T) {
		size, story := rapid.IntRange(1, 8).Draw(rt, "size"), acts.Draw(rt, "story")
		fault := ""
		synctest.Test(t, func(*testing.T) { fault = playPlaces(size, story) })
		if fault != "" {
			rt.Fatal(fault)
		}
	})
}

// playPlaces plays a story, and returns what is wrong.
func playPlaces(size int, story []act) string {
	r := &room{hall: newHall(size), held: map[string]*Place{}}
	defer r.empty()
	for step, a := range story {
		if a.what == "leave" {
			if len(r.places) == 0 {
				continue
			}
			at := a.who % len(r.places)
			r.leaves(r.places[at])
			r.places = slices.Delete(r.places, at, at+1)
		} else if fault := r.come(fmt.Sprintf("%c%d", 'a'+a.who%4, step), a.what == "hold"); fault != "" {
			return fmt.Sprintf("step %d: %s", step, fault)
		}
		if r.q.Len() != len(r.places) {
			return fmt.Sprintf("step %d: %d have places, want %v", step, r.q.Len(), r.places)
		}
	}
	for _, name := range r.places {
		r.leaves(name)
	}
	for class := range r.q.lanes {
		if l := &r.q.lanes[class]; l.next != nil || len(l.callers) != 0 || len(l.ranks) != 0 || l.waiting+l.held != 0 {
			return fmt.Sprintf("something is left: %+v", l)
		}
	}
	return ""
}

// leaves takes a request out, twice where it is held: the second time changes nothing.
func (r *room) leaves(name string) {
	if place := r.held[name]; place != nil {
		r.q.Unhold(place)
		r.q.Unhold(place)
	} else {
		r.quit(name)
	}
}
