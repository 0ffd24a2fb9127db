package governor

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/wings/runs"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/known"
)

// Runs with many sub-agents take their memory of the same bound: the idlest give way, and the
// memory of those that are over comes back.
func TestSubAgentsCountForTheBoundOfMemory(t *testing.T) {
	t.Parallel()
	none := func(context.Context) (quota.Snapshots, error) { return nil, errors.New("there is no store") }
	ledger := quota.New(quota.Settings{}, quota.Options{Dir: t.TempDir(), OpenSnapshots: none})
	book := budget.New(budget.Options{Ledger: ledger})
	t.Cleanup(func() { _ = book.Close(context.Background()) }) // nothing was spent
	g := New(Options{
		Settings: runs.DefaultSettings(),
		Book:     func(*budget.Runs) *budget.Book { return book },
	})
	const many = mostBytes/(mostAgents*agentBytes) + 10
	caller, now := &access.Caller{Header: http.Header{}}, time.Now()
	var last *run
	for i := range many {
		name := strconv.Itoa(i)
		last = g.open(identity{"key", name}, known.Run{ID: name, Agent: "first"}, caller, now)
		g.mu.Lock()
		g.seat(last, now)
		last.pins = 0
		for agent := range mostAgents {
			g.meet(last, strconv.Itoa(agent))
		}
		g.mu.Unlock()
	}
	if g.bytes > mostBytes || g.used.Len() >= many || g.used.Len() < many/2 || len(g.runs) != many {
		t.Errorf("%d bytes, %d active runs of %d", g.bytes, g.used.Len(), many)
	}
	if len(last.agents) != mostAgents || g.byID[last.id] != last {
		t.Errorf("the run that was used last has %d agents", len(last.agents))
	}
	g.sweep(now.Add(365 * 24 * time.Hour))
	if g.bytes != 0 || len(g.runs) != 0 {
		t.Errorf("%d bytes, %d runs after all are over", g.bytes, len(g.runs))
	}
}
