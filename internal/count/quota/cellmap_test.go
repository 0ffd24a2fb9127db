package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// acquireDay returns the cell in which a user is counted by the day, nil if there is
// no room for one.
func acquireDay(b *cellMap, tenant, user string) *cell {
	windows := [WindowCount]bool{Day: true}
	var cells [WindowCount]*cell
	b.acquire(&Subject{Tenant: tenant, User: []byte(user), Service: schema.Chat, Model: "m"}, &windows, 0, &cells)
	return cells[Day]
}

// TestRoomForCountsEndsInThreeSteps: first users are counted together, then tenants,
// then nobody is, each when exactly as many counts are held as there may be.
func TestRoomForCountsEndsInThreeSteps(t *testing.T) {
	b := newCellMap("w")
	const most, spare = 4, 3
	b.maxCells, b.spareCells = most, spare
	folded := func(n int) Key {
		switch {
		case n < most:
			return Key{Tenant: fmt.Sprint("tenant-", n), User: "ann"}
		case n < most+spare:
			return Key{Tenant: fmt.Sprint("tenant-", n), User: Overflow}
		}
		return Key{Tenant: Overflow, User: Overflow}
	}
	for n := range most + spare + 1 {
		if c, want := acquireDay(b, fmt.Sprint("tenant-", n), "ann"), folded(n); c == nil || c.owner.key.Tenant != want.Tenant || c.owner.key.User != want.User {
			t.Fatalf("request %d is counted in %+v, want %+v", n, c, want)
		}
		if full := strings.HasPrefix(b.reason().String(), "quota-memory-full: "); full != (n+1 >= most) {
			t.Errorf("%d counts: %q", n+1, b.reason().String())
		}
	}
	// The cells of one day are all there; other days fill the rest.
	windows := [WindowCount]bool{Day: true}
	var cells [WindowCount]*cell
	for day := int64(1); day < spare; day++ {
		if strings.Contains(b.reason().String(), "not at all") {
			t.Errorf("%d counts: %q", b.cells.Load(), b.reason().String())
		}
		if !b.acquire(&Subject{Tenant: "late", Service: schema.Chat, Model: "m"}, &windows, day*24*3600, &cells) || cells[Day].owner.key.Tenant != Overflow {
			t.Fatalf("day %d is not counted", day)
		}
	}
	if held := b.cells.Load(); held != most+2*spare || !strings.Contains(b.reason().String(), "not at all") {
		t.Errorf("%d counts: %q", held, b.reason().String())
	}
	if b.acquire(&Subject{Tenant: "late", Service: schema.Chat, Model: "m"}, &windows, spare*24*3600, &cells) {
		t.Errorf("counted in %+v without room", cells[Day])
	}
	if c := acquireDay(b, "tenant-0", "ann"); c == nil || c.owner.key.User != "ann" {
		t.Errorf("who has a count lost it: %+v", c)
	}
}

// TestFullMemoryKeepsTenantsApartWhileKeysMayBeTold: when there is no room for counts,
// a tenant's users have a key together as long as spareKeys are left.
func TestFullMemoryKeepsTenantsApartWhileKeysMayBeTold(t *testing.T) {
	b := newCellMap("w")
	b.maxCells, b.spareCells, b.maxKeys = 1, 10, 2
	acquireDay(b, "acme", "ann")
	if c := acquireDay(b, "acme", "bob"); c == nil || c.owner.key.Tenant != "acme" || c.owner.key.User != Overflow {
		t.Errorf("%+v", c)
	}
	b.maxKeys = b.keys.Load() - spareKeys
	if c := acquireDay(b, "globex", "eve"); c == nil || c.owner.key.Tenant != Overflow {
		t.Errorf("%+v", c)
	}
}

// TestEveryWindowOfAKeyIsFoundAgain: clocks of requests are not in order, and each
// window is counted in one cell however they come.
func TestEveryWindowOfAKeyIsFoundAgain(t *testing.T) {
	b := newCellMap("w")
	who := &Subject{Service: schema.Chat, Model: "m"}
	windows := [WindowCount]bool{Minute: true}
	seen := map[int64]*cell{}
	for _, minute := range []int64{5, 7, 6, 5, 8, 7, 4, 8, 6, 4} {
		var cells [WindowCount]*cell
		b.acquire(who, &windows, minute*60, &cells)
		c := cells[Minute]
		if c == nil || c.start != minute*60 || seen[minute] != nil && seen[minute] != c {
			t.Fatalf("minute %d is counted in %+v", minute, c)
		}
		seen[minute] = c
	}
	if newest := b.find(who).newest[Minute].Load(); newest != seen[8] || b.cells.Load() != int64(len(seen)) {
		t.Errorf("%+v is newest of %d", newest, b.cells.Load())
	}
}

// acquireOn is acquireDay for a given day, of a user of one tenant.
func acquireOn(b *cellMap, user string, day int64) *cell {
	windows := [WindowCount]bool{Day: true}
	var cells [WindowCount]*cell
	b.acquire(&Subject{User: []byte(user), Service: schema.Chat, Model: "m"}, &windows, day*24*3600, &cells)
	return cells[Day]
}

func always(*cell) bool { return true }

// TestPrunedCountsMakeRoom: for other keys and other counts, also those of earlier
// processes.
func TestPrunedCountsMakeRoom(t *testing.T) {
	b := newCellMap("w")
	b.maxKeys, b.maxCells, b.spareCells = 2, 4, 10
	b.restore([]Row{{Writer: "earlier", Window: Day, Start: Day.Start(time.Unix(0, 0)), Totals: Totals{Requests: 1}}})
	for round, names := range [][]string{{"ann", "bob"}, {"carol", "dave"}, {"eve", "frank"}} {
		for _, name := range names {
			c := acquireOn(b, name, int64(round))
			if c.owner.key.User != name {
				t.Errorf("%s is counted as %s", name, c.owner.key.User)
			}
			c.release()
		}
		if c := acquireOn(b, "one too many", int64(round)); c.owner.key.User != Overflow {
			t.Errorf("a third user is counted as %s", c.owner.key.User)
		} else {
			c.release()
		}
		b.prune(always)
		if b.keys.Load() != 0 || b.cells.Load() != 0 || len(b.recovered) != 0 {
			t.Errorf("%d keys, %d counts, %d recovered are left", b.keys.Load(), b.cells.Load(), len(b.recovered))
		}
	}
}

// TestKeysStayAsLongAsOneOfTheirCountsIsNeeded, be it the newest or an older one.
func TestKeysStayAsLongAsOneOfTheirCountsIsNeeded(t *testing.T) {
	for _, needed := range []int64{1, 2, 3} {
		b := newCellMap("w")
		cells := map[int64]*cell{}
		for _, day := range []int64{2, 1, 3} {
			cells[day] = acquireOn(b, "ann", day)
			cells[day].release()
		}
		b.prune(func(c *cell) bool { return c != cells[needed] })
		if b.keys.Load() != 1 || b.cells.Load() != 1 {
			t.Errorf("%d keys and %d counts are left", b.keys.Load(), b.cells.Load())
		}
		for day, before := range cells {
			if again := acquireOn(b, "ann", day); (again == before) != (day == needed) {
				t.Errorf("day %d of which day %d was kept is counted in %p, before in %p", day, needed, again, before)
			}
		}
	}
}

// TestCountsThatAreUsedStay: a request that will still add tokens finds its count.
func TestCountsThatAreUsedStay(t *testing.T) {
	b := newCellMap("w")
	used := acquireOn(b, "ann", 1)
	b.prune(always)
	if again := acquireOn(b, "ann", 1); again != used || b.cells.Load() != 1 {
		t.Errorf("%p, before %p, of %d", again, used, b.cells.Load())
	}
	used.release()
	used.release()
	b.prune(always)
	if again := acquireOn(b, "ann", 1); again == used || again.writer == used.writer {
		t.Errorf("a count that begins anew has the writer %s of the one before", again.writer)
	}
	if next := acquireOn(b, "ann", 2); next.writer != "w" {
		t.Errorf("a later day has the writer %s", next.writer)
	}
}
