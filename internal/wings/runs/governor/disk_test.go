package governor

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/wings/runs"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/known"
)

// onDisk returns a governor with a ledger and a file in a folder. Runs may have three requests.
func onDisk(dir string, most Most) *Governor {
	settings, counted := runs.DefaultSettings(), quota.DefaultSettings()
	settings.Limits.Requests, settings.Loops.Repeats = 3, 0
	counted.Windows = []quota.Window{quota.BudgetRun}
	return New(Options{
		Settings: settings, Most: &most, Data: durable.At(dir), Log: slog.New(slog.DiscardHandler),
		Currency: func() string { return "USD" },
		Book: func(r *budget.Runs) *budget.Book {
			r.Found = nil
			ledger := quota.New(counted, quota.Options{
				Dir: filepath.Join(dir, "runs"), Bound: r.OfLedger(), Log: slog.New(slog.DiscardHandler),
				OpenSnapshots: func(ctx context.Context) (quota.Snapshots, error) {
					return sqlstore.Open(ctx, "sqlite:totals.db", dir)
				},
			})
			return budget.New(budget.Options{Ledger: ledger, Runs: r})
		},
	})
}

// call makes a call of a run, and returns the code of its refusal.
func call(t *testing.T, g *Governor, owner, name string) string {
	t.Helper()
	caller := &access.Caller{KeyID: owner, Header: http.Header{known.Header: {name}}}
	entered, err := g.Enter(t.Context(), &account.Account{
		Asks: &schema.Request{Door: schema.DoorChat}, Record: &calls.Record{}, Caller: caller,
	})
	if err != nil {
		var refusal *schema.Error
		if !errors.As(err, &refusal) {
			t.Fatal(err)
		}
		return refusal.Code
	}
	defer entered.Leave(account.End{})
	charge := budget.Charge{Run: entered.Account()}
	refused, err := charge.Reserve(t.Context(), [2]*budget.Account{}, budget.Exactly(budget.Amounts{1}), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if refused != nil {
		return entered.Refused(refused).Code
	}
	if refusal := entered.Confirm(); refusal != nil {
		return refusal.Code
	}
	charge.Settle(schema.Usage{Total: 1}, 1)
	return ""
}

// The ended runs of an owner, and those at their limits, survive more new ones of another owner than
// that may have, also together with restarts; on the disk there are no more runs than the bound.
func TestTheRunsOfAnOwnerSurviveThoseOfAnother(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]Most{
		"of an owner": {40, 1000, mostBytes}, "in all": {1000, 40, mostBytes}, "at rest": {40, 1000, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			start := func() (*Governor, func()) {
				g := onDisk(dir, most)
				return g, func() {
					if err := g.Close(context.Background()); err != nil {
						t.Fatal(err)
					}
				}
			}
			g, stop := start()
			call(t, g, "victim", "ended")
			for range 3 {
				call(t, g, "victim", "used up")
			}
			end(t, g.byPublicID(publicID(budget.RunName(&quota.Key{APIKey: "victim", User: "ended"}))))
			for i := range 150 {
				if i%50 == 49 {
					stop()
					g, stop = start()
				}
				if code := call(t, g, "other", nameOf(i)); code != "" {
					t.Fatalf("new run %d of the other owner: got %q", i, code)
				}
			}
			stop()
			g, stop = start()
			defer stop()
			for name, want := range map[string]string{"ended": "run_ended", "used up": "run_limit_reached"} {
				if code := call(t, g, "victim", name); code != want {
					t.Errorf("the run that is %s: got %q, want %q", name, code, want)
				}
			}
			past, onDisk := 0, 0
			if err := g.book.EachRun(t.Context(), time.Now().Add(-time.Hour), func(row *quota.Row) {
				if onDisk++; row.Key.User == nameOf(0) {
					past++
				}
			}); err != nil {
				t.Fatal(err)
			}
			if want := min(most.InAll, most.OfOwner+2); past != 0 || onDisk != want {
				t.Errorf("got %d runs on the disk, %d of them the first one that gave way; want %d", onDisk, past, want)
			}
			if code := call(t, g, "other", nameOf(149)); code != "" || len(g.runs) != onDisk {
				t.Errorf("got %q and %d runs in memory, want %d", code, len(g.runs), onDisk)
			}
		})
	}
}
