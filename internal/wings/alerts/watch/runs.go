package watch

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
)

// runs notices runs of agents that cost much, and those that loop.
type runs struct {
	core *wing.Core
	// limit is the cost from which on a run is worth an alert, 0 if none is.
	limit atomic.Int64
}

// dear reports the runs that have cost as much as the limit.
func (r *runs) dear(now time.Time, found func(condition)) {
	limit := prices.Amount(r.limit.Load())
	if limit <= 0 {
		return
	}
	r.visit(func(run wing.Run) {
		if run.Cost >= limit {
			values := []any{"run", run.ID, "owner", ownerOf(run)}
			found(condition{
				Subject: run.ID, Level: warning, Since: now,
				Said: say.New("alert.run", append(values, "cost", run.Cost.Money(), "limit", limit.String(),
					"currency", r.core.Document.Prices.Currency)...),
				Over: say.New("alert.run_over", values...),
			})
		}
	})
}

// looping reports the runs that loop.
func (r *runs) looping(_ time.Time, found func(condition)) {
	r.visit(func(run wing.Run) {
		if run.Loop != "" {
			values := []any{"run", run.ID, "owner", ownerOf(run)}
			found(condition{
				Subject: run.ID, Level: warning, Since: run.LoopsSince,
				Said: say.New("alert.loop", append(values, "rule", run.Loop)...),
				Over: say.New("alert.loop_over", values...),
			})
		}
	})
}

// visit visits the runs that are under way.
func (r *runs) visit(visit func(wing.Run)) {
	if r.core.Runs != nil {
		r.core.Runs(visit)
	}
}

// ownerOf names the owner of a run: the gateway where no keys are needed.
func ownerOf(run wing.Run) string { return cmp.Or(run.Owner, "the gateway") }
