package redistally

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/testing/tallytest"
)

// The script stores totals as the model does, also numbers that Lua does not know exactly, and
// also where Redis does not know the script.
func TestTotalsAreThoseOfTheModel(t *testing.T) {
	t.Parallel()
	store, err := Open(t.Context(), storetest.Redis(t).URL, "test", "a")
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		model := tallytest.New()
		if err := store.client.Do(t.Context(), store.client.B().ScriptFlush().Build()).Error(); err != nil {
			rt.Fatal(err)
		}
		number := rapid.SampledFrom([]int64{0, 1, 9, 10, 11, 1 << 53, 1<<53 + 1, 1<<62 + 1, 1<<62 + 2})
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			var sheets []tally.Sheet
			for _, place := range rapid.SliceOfNDistinct(rapid.IntRange(0, 3), 1, 3, rapid.ID).Draw(rt, "places") {
				sheet := tally.Sheet{Expire: time.Now().Add(time.Hour), IsOrdered: place > 1, IsRead: rapid.Bool().Draw(rt, "read")}
				sheet.Name = fmt.Sprint("sheet", run, sheet.IsOrdered, place%2)
				for range rapid.IntRange(0, 3).Draw(rt, "totals") {
					sheet.Totals = append(sheet.Totals, tally.Total{
						Writer:  rapid.SampledFrom([]string{"a", "b", "c d"}).Draw(rt, "writer"),
						Numbers: fmt.Sprint(number.Draw(rt, "first"), number.Draw(rt, "second")),
						Instead: rapid.SampledFrom([]string{"", "1 1", "10 0", "9 9007199254740993"}).Draw(rt, "instead"),
					})
				}
				sheets = append(sheets, sheet)
			}
			got, err := store.Tell(rt.Context(), sheets, false)
			if err != nil {
				rt.Fatal(err)
			}
			for i, want := range model.Tell(sheets, false) {
				if !maps.Equal(got[i], want) || (got[i] == nil) == sheets[i].IsRead {
					rt.Fatalf("%+v: %v, want %v", sheets[i], got[i], want)
				}
			}
		}
		for _, isOrdered := range []bool{false, true} {
			for name := range 2 {
				all := []tally.Sheet{{Name: fmt.Sprint("sheet", run, isOrdered, name), IsRead: true}}
				got, err := store.Tell(rt.Context(), all, false)
				if want := model.Tell(all, false)[0]; err != nil || !maps.Equal(got[0], want) {
					rt.Fatalf("%s: %v, want %v; %v", all[0].Name, got[0], want, err)
				}
			}
		}
	})
}

// News are counted where every exchange sees them.
func TestNewsAreSeenByOthers(t *testing.T) {
	t.Parallel()
	server := storetest.Redis(t)
	var stores []*Store
	for _, id := range []string{"a", "b"} {
		store, err := Open(t.Context(), server.URL, "test", id)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(store.Close)
		stores = append(stores, store)
	}
	seen := func() int64 {
		t.Helper()
		presence, _, err := stores[1].Exchange(t.Context(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return presence.Changes
	}
	before := seen()
	for _, isNews := range []bool{false, true, true} {
		sheet := tally.Sheet{Name: "s", Expire: time.Now().Add(time.Hour), Totals: []tally.Total{{Writer: "a", Numbers: "1"}}}
		if _, err := stores[0].Tell(t.Context(), []tally.Sheet{sheet}, isNews); err != nil {
			t.Fatal(err)
		}
	}
	if after := seen(); after != before+2 {
		t.Errorf("%d news, want 2", after-before)
	}
}
