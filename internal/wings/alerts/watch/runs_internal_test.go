package watch

import (
	"slices"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/serve/problems"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/wings/alerts"
)

// A run is worth an alert from an amount on, and while it loops; without an amount only loops are.
func TestRunsThatCostMuchOrLoop(t *testing.T) {
	t.Parallel()
	amount := func(text string) prices.Amount {
		a, err := prices.ParseAmount(text)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	began := time.Date(2026, 11, 18, 9, 0, 0, 0, time.UTC)
	core := &wing.Core{Document: config.Default(), Runs: func(visit func(wing.Run)) {
		visit(wing.Run{ID: "small", Owner: "key/a", Cost: amount("4.99")})
		visit(wing.Run{ID: "dear", Cost: amount("5")})
		visit(wing.Run{ID: "mad", Owner: "key/c", Cost: amount("7.5"), Loop: "repeats", LoopsSince: began})
	}}
	for limit, want := range map[string][]string{
		"0": {"the run mad of key/c loops (repeats)"},
		"5": {"the run dear of the gateway has cost 5 USD; the alert is set to 5",
			"the run mad of key/c has cost 7.50 USD; the alert is set to 5", "the run mad of key/c loops (repeats)"},
		"100": {"the run mad of key/c loops (repeats)"},
	} {
		r := &runs{core: core}
		r.limit.Store(int64(amount(limit)))
		var said []string
		for _, of := range []alerts.Kind{alerts.Run, alerts.Loop} {
			row := kindsOf(core, r)[of]
			row.find(began.Add(time.Minute), func(f problems.Finding) {
				c := row.condition(f)
				said = append(said, c.Said.String())
				if c.Over.String() == "" || c.Level != warning || c.Since.IsZero() {
					t.Errorf("%+v", c)
				}
			})
		}
		if !slices.Equal(said, want) {
			t.Errorf("from %s on: %q, want %q", limit, said, want)
		}
	}
	none := &runs{core: &wing.Core{}}
	none.limit.Store(1)
	none.dear(began, func(c problems.Finding) { t.Errorf("no wing governs runs: %+v", c) })
	none.looping(began, func(c problems.Finding) { t.Errorf("no wing governs runs: %+v", c) })
}
