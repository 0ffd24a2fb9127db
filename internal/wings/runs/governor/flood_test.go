package governor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/wings/runs"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/known"
)

// Runs beyond those that are known at a time make the idlest give way, and the tables and the book of
// all that are known take no more memory than they may. A run with a call under way stays.
func TestTheIdlestOfTooManyRunsGiveWay(t *testing.T) {
	none := func(context.Context) (quota.Snapshots, error) { return nil, errors.New("there is no store") }
	ledger := quota.New(quota.Settings{}, quota.Options{Dir: t.TempDir(), OpenSnapshots: none})
	settings := runs.DefaultSettings()
	book := budget.New(budget.Options{Ledger: ledger, Runs: &budget.Runs{
		Idle: settings.Idle.Std(), GoesOn: func(*quota.Row) bool { return false },
	}})
	t.Cleanup(func() { _ = book.Close(context.Background()) }) // nothing was spent
	g := New(Options{
		Settings: settings,
		Book:     func(func(*quota.Row) bool, func(*quota.Row)) *budget.Book { return book },
	})
	heap := func() uint64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	caller, now, before := &access.Caller{Header: http.Header{}}, time.Now(), heap()
	open := func(i int) *run {
		name := fmt.Sprintf("4a353e4e-ee1c-4fca-8362-%012d", i)
		return g.open(identity{"key", name}, known.Run{ID: name, Sign: known.Session}, caller, now)
	}
	busy := open(0)
	if refusal := busy.enter(new(turn)); refusal != nil {
		t.Fatal(refusal)
	}
	const many = 40_000
	for i := range many {
		open(i)
	}
	taken := heap() - before
	t.Logf("%d runs take %d bytes, %d each; %d are counted", len(g.runs), taken, taken/uint64(len(g.runs)), g.bytes)
	if g.bytes > mostBytes || len(g.runs) > mostRuns || taken > mostBytes || len(g.runs) < 10_000 {
		t.Errorf("%d runs take %d bytes", len(g.runs), taken)
	}
	if g.byID[busy.id] != busy || g.runs[identity{"key", "4a353e4e-ee1c-4fca-8362-000000039999"}] == nil {
		t.Error("a run with a call under way, or the latest, gave way")
	}
	if g.runs[identity{"key", "4a353e4e-ee1c-4fca-8362-000000000001"}] != nil {
		t.Error("the idlest run did not give way")
	}
}
