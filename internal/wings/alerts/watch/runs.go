package watch

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/serve/problems"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// runs notices runs of agents that cost much, and those that loop.
type runs struct {
	core *wing.Core
	// limit is the cost from which on a run is worth an alert, 0 if none is.
	limit atomic.Int64
}

// dear reports the runs that have cost as much as the limit.
func (r *runs) dear(now time.Time, found func(problems.Finding)) {
	limit := prices.Amount(r.limit.Load())
	if limit <= 0 {
		return
	}
	r.visit(func(run wing.Run) {
		if run.Cost >= limit {
			found(findingOf(run, now, "cost", run.Cost.Money(), "limit", limit.String(),
				"currency", r.core.Document.Prices.Currency))
		}
	})
}

// looping reports the runs that loop.
func (r *runs) looping(_ time.Time, found func(problems.Finding)) {
	r.visit(func(run wing.Run) {
		if run.Loop != "" {
			found(findingOf(run, run.LoopsSince, "rule", run.Loop))
		}
	})
}

// findingOf returns a finding about a run. Its owner is the gateway if no keys are needed.
func findingOf(run wing.Run, since time.Time, values ...any) problems.Finding {
	return problems.Finding{Subject: run.ID, IsWarning: true, Since: since,
		Values: append(values, "run", run.ID, "owner", cmp.Or(run.Owner, "the gateway"))}
}

// visit visits the runs that are under way.
func (r *runs) visit(visit func(wing.Run)) {
	if r.core.Runs != nil {
		r.core.Runs(visit)
	}
}
