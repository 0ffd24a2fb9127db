package quota

import (
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/schema"
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
		if full := strings.HasPrefix(b.reason(), "quota-memory-full: "); full != (n+1 >= most) {
			t.Errorf("%d counts: %q", n+1, b.reason())
		}
	}
	// The cells of one day are all there; other days fill the rest.
	windows := [WindowCount]bool{Day: true}
	var cells [WindowCount]*cell
	for day := int64(1); day < spare; day++ {
		if strings.Contains(b.reason(), "not at all") {
			t.Errorf("%d counts: %q", b.cells.Load(), b.reason())
		}
		if !b.acquire(&Subject{Tenant: "late", Service: schema.Chat, Model: "m"}, &windows, day*24*3600, &cells) || cells[Day].owner.key.Tenant != Overflow {
			t.Fatalf("day %d is not counted", day)
		}
	}
	if held := b.cells.Load(); held != most+2*spare || !strings.Contains(b.reason(), "not at all") {
		t.Errorf("%d counts: %q", held, b.reason())
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
