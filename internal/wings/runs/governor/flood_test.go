package governor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/runs"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/known"
)

// flooded returns a governor without a store, and a function that opens a run of an owner and lets a
// request of it in. The refusal is that of its room.
func flooded(t testing.TB, most *Most) (g *Governor, let func(owner, name string, now time.Time) (*run, *schema.Error)) {
	t.Helper()
	none := func(context.Context) (quota.Snapshots, error) { return nil, errors.New("there is no store") }
	ledger := quota.New(quota.Settings{}, quota.Options{Dir: t.TempDir(), OpenSnapshots: none})
	settings := runs.DefaultSettings()
	book := budget.New(budget.Options{Ledger: ledger, FailOpen: true, Runs: &budget.Runs{
		Idle: settings.Idle.Std(), GoesOn: func(*quota.Row) bool { return false },
	}})
	t.Cleanup(func() { _ = book.Close(context.Background()) }) // what was spent is not written
	g = New(Options{
		Settings: settings, Most: most,
		Book: func(*budget.Runs) *budget.Book { return book },
	})
	caller := &access.Caller{Header: http.Header{}}
	return g, func(owner, name string, now time.Time) (*run, *schema.Error) {
		r := g.open(identity{owner, name}, known.Run{ID: name, Sign: known.Session}, caller, now)
		defer g.unpin(r)
		g.mu.Lock()
		defer g.mu.Unlock()
		return r, g.seat(r, now)
	}
}

// nameOf returns the name of a run of an agent.
func nameOf(i int) string { return fmt.Sprintf("4a353e4e-ee1c-4fca-8362-%012d", i) }

// Beyond the memory that runs may take the idlest rest, and come back as they were. A run with a call
// under way does not rest.
func TestTheIdlestOfTooManyRunsRest(t *testing.T) {
	const mostRuns, mostBytes = 25_000, 8 << 20 // tables of this size are as full as those of 200,000
	g, let := flooded(t, &Most{mostRuns, mostRuns, mostBytes})
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	now, before := time.Now(), heap()
	busy := g.open(identity{"key0", "busy"}, known.Run{ID: "busy"}, &access.Caller{}, now)
	ended, _ := let("key1", "ended", now)
	if err := ended.latest().Decide(func(t *budget.Terms) bool { t.IsEnded = true; return true }); err != nil {
		t.Fatal(err)
	}
	spent := budget.Charge{Run: ended.latest()}
	if refused, err := spent.Reserve(t.Context(), [2]*budget.Account{}, budget.Exactly(budget.Amounts{1}), now); refused != nil || err != nil {
		t.Fatal(refused, err)
	}
	spent.Settle(schema.Usage{Total: 70}, 9)
	const many, owners = mostRuns - 10, 10
	for i := range many - 1 {
		if _, refusal := let(fmt.Sprintf("key%d", i%owners), nameOf(i), now); refusal != nil {
			t.Fatal(i, refusal)
		}
	}
	taken := heap() - before
	t.Logf("%d runs take %d bytes; %d do not rest and take %d", g.rooms.all, taken, g.used.Len(), g.bytes)
	if g.bytes > mostBytes || taken > mostBytes+restBytes*many || g.rooms.all != many || len(g.runs) != many+1 {
		t.Errorf("%d of %d runs are active; they take %d bytes, all %d", g.used.Len(), len(g.runs), g.bytes, taken)
	}
	if g.byID[busy.id] != busy || g.runs[identity{"key8", nameOf(many - 2)}].active == nil {
		t.Error("a run with a call under way, or a late one, rests")
	}
	if g.runs[ended.identity].active != nil {
		t.Error("the idlest run does not rest")
	}
	back := g.byPublicID(ended.id)
	figures, _ := back.latest().Figures()
	if terms := back.latest().Terms(); !terms.IsEnded || figures != (budget.Amounts{1, 70, 9}) || !back.latest().Began().Equal(time.Unix(0, now.UnixNano())) {
		t.Errorf("it comes back with %+v, %v, %s", terms, figures, back.latest().Began())
	}
	g.unpin(busy)
	g.sweep(now.Add(365 * 24 * time.Hour))
	if g.bytes != 0 || len(g.runs)+len(g.byID)+g.used.Len()+g.rooms.all+len(g.rooms.of)+len(g.rooms.order) != 0 {
		t.Errorf("%d bytes, %d, %d and %d runs after all are over", g.bytes, len(g.runs), g.used.Len(), g.rooms.all)
	}
}

// A run that no request was let in of takes no room and stays no longer than its requests.
func TestARefusedRequestBeginsNoRun(t *testing.T) {
	t.Parallel()
	g, _ := flooded(t, nil)
	who := identity{"key", "n"}
	one := g.open(who, known.Run{ID: "n"}, &access.Caller{}, time.Now())
	if other := g.open(who, known.Run{ID: "n"}, &access.Caller{}, time.Now()); other != one {
		t.Error("two requests begin two runs of one name")
	}
	g.unpin(one)
	if g.runs[who] != one || g.rooms.all != 0 {
		t.Errorf("it is gone while a request uses it, or has one of %d rooms", g.rooms.all)
	}
	g.unpin(one)
	if len(g.runs) != 0 || g.bytes != 0 {
		t.Errorf("%d runs, %d bytes", len(g.runs), g.bytes)
	}
}

// end ends a run.
func end(t *testing.T, r *run) {
	t.Helper()
	if err := r.latest().Decide(func(t *budget.Terms) bool { t.IsEnded = true; return true }); err != nil {
		t.Fatal(err)
	}
}

// The room of an owner is as large as it is; beyond it the idlest run gives way that does not hold its
// room, and where all do, new runs are refused until one has been idle.
func TestTheRoomOfAnOwner(t *testing.T) {
	t.Parallel()
	const mostOfOwner = 500
	g, let := flooded(t, &Most{mostOfOwner, mostRuns, mostBytes})
	began := time.Now()
	victim, _ := let("victim", "n", began)
	var all []*run
	for i := range mostOfOwner {
		r, refusal := let("owner", nameOf(i), began)
		if refusal != nil {
			t.Fatal(i, refusal)
		}
		if i < mostOfOwner/2 {
			end(t, g.byPublicID(r.id))
		}
		all = append(all, r)
	}
	now := began.Add(g.idle() - time.Second)
	let("owner", all[0].name, now) // an attempt
	for i := range mostOfOwner / 2 {
		if _, refusal := let("owner", "new"+nameOf(i), now); refusal != nil {
			t.Fatal("new run", i, refusal)
		}
	}
	if g.byPublicID(all[0].id) == nil || g.byPublicID(all[mostOfOwner-1].id) != nil || g.rooms.of["owner"].size() != mostOfOwner {
		t.Errorf("an ended run gave way, or not the others; %d remain", g.rooms.of["owner"].size())
	}
	for i := range mostOfOwner / 2 {
		g.mu.Lock()
		r := g.wake(identity{"owner", "new" + nameOf(i)})
		g.mu.Unlock()
		end(t, r)
	}
	_, refusal := let("owner", "one more", now)
	if refusal == nil || refusal.Code != "too_many_runs" || refusal.RetryAfter != 30*time.Second {
		t.Errorf("a new run in a full room: %+v", refusal)
	}
	if g.runs[identity{"owner", "one more"}] != nil {
		t.Error("the refused run is there")
	}
	if _, refusal := let("owner", all[0].name, now); refusal != nil {
		t.Errorf("an old run in a full room: %+v", refusal)
	}
	if _, refusal := let("other", "n", now); refusal != nil || g.byPublicID(victim.id) == nil {
		t.Errorf("a full room of another owner: %+v", refusal)
	}
	if _, refusal := let("owner", "one more", began.Add(g.idle()+time.Minute)); refusal != nil {
		t.Errorf("after the ended runs were idle: %+v", refusal)
	}
}

// Where there are too many runs of all owners, the one with the most gives way first, and ended runs keep
// no other owner from beginning its own.
func TestTheOwnerWithTheMostGivesWay(t *testing.T) {
	t.Parallel()
	const mostRuns = 2_000
	g, let := flooded(t, &Most{mostRuns, mostRuns, 1 << 20})
	now := time.Now()
	small, _ := let("small", "n", now)
	const owners, each = 11, (mostRuns - 1) / 11
	for i := range mostRuns - 1 {
		owner := fmt.Sprintf("key%d", i%owners)
		if i >= owners*each {
			owner = "key3"
		}
		if _, refusal := let(owner, nameOf(i), now); refusal != nil {
			t.Fatal(i, refusal)
		}
	}
	if _, refusal := let("small", "n2", now); refusal != nil || g.rooms.all != mostRuns || g.rooms.of["key3"].size() != each+mostRuns-1-owners*each-1 {
		t.Errorf("%+v, %d runs, %d of the owner with the most", refusal, g.rooms.all, g.rooms.of["key3"].size())
	}
	if g.runs[identity{"key3", nameOf(3)}] != nil || g.byPublicID(small.id) == nil {
		t.Error("another run than the idlest of the owner with the most gave way")
	}
	for _, r := range g.every() {
		r.stopped = new(schema.Error)
	}
	for i := range 10 {
		if _, refusal := let("small", nameOf(i), now); refusal != nil {
			t.Errorf("run %d of an owner with few, while all hold their rooms: %+v", i, refusal)
		}
	}
	if g.rooms.all != mostRuns {
		t.Errorf("%d runs", g.rooms.all)
	}
}

// BenchmarkOpen is the work for the first request of a run, in an owner's full room.
func BenchmarkOpen(b *testing.B) {
	_, let := flooded(b, nil)
	now := time.Now()
	for i := range mostOfOwner {
		let("key", nameOf(i), now)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		let("key", nameOf(mostOfOwner+i), now)
	}
}
