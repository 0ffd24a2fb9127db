package governor

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/wings/runs"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/board"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/known"
)

// wall is a board in memory.
type wall struct {
	mu    sync.Mutex
	runs  []board.Run
	asked int
	// told are the ids of the runs that were told, and displaced those that are not there any more.
	told, displaced []string
	err             error
}

func (w *wall) Tell(_ context.Context, runs []board.Run) (int, error) {
	for i := range runs {
		w.told = append(w.told, runs[i].ID)
	}
	return len(runs), w.err
}

func (w *wall) Since(context.Context, time.Time) ([]board.Run, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	return w.runs, w.err
}

func (w *wall) Displaced(context.Context) ([]string, error) { return w.displaced, w.err }

func (w *wall) Sweep(context.Context, time.Time) error { return nil }

func (w *wall) Close() {}

// beside returns a governor that reads a board which has decisions.
func beside(t *testing.T, w *wall) *Governor {
	t.Helper()
	none := func(context.Context) (quota.Snapshots, error) { return nil, errors.New("there is no store") }
	ledger := quota.New(quota.Settings{}, quota.Options{Dir: t.TempDir(), OpenSnapshots: none})
	settings := runs.DefaultSettings()
	book := budget.New(budget.Options{Ledger: ledger, Runs: &budget.Runs{
		Idle: settings.Idle.Std(), GoesOn: func(*quota.Row) bool { return false },
	}})
	t.Cleanup(func() { _ = book.Close(context.Background()) }) // nothing was spent
	return New(Options{
		Settings: settings, Board: w, IsPolled: true, Log: slog.New(slog.DiscardHandler),
		Book: func(*budget.Runs) *budget.Book { return book },
	})
}

// Those who ask for the runs of other gateways while the board is away wait for one try together. What
// it gave until then is known.
func TestThoseWhoAskAboutOthersAskOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := board.Run{ID: publicID(budget.RunName(&quota.Key{User: "n"})), Name: "n", Began: now, Used: now.Add(time.Hour), Terms: budget.Terms{}.String()}
	w := &wall{err: errors.New("it is away"), runs: []board.Run{r}}
	g := beside(t, w)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if g.meetOthers(t.Context(), time.Now()) == nil {
				t.Error("nobody is told that the board is away")
			}
		})
	}
	all.Wait()
	if w.asked != 1 {
		t.Errorf("the board was asked %d times", w.asked)
	}
	met := g.byPublicID(r.ID)
	if met == nil || met.account.Used().After(time.Now()) {
		t.Fatalf("%+v", met)
	}
}

// A decision about a run of another gateway does not make it a run of this one, for metrics and alerts,
// and is told.
func TestADecisionDoesNotMakeARunOurs(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := &wall{runs: []board.Run{{ID: publicID(budget.RunName(&quota.Key{User: "n"})), Name: "n", Began: now, Used: now, Terms: budget.Terms{}.String()}}}
	g := beside(t, w)
	if err := g.meetOthers(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	r := g.byPublicID(w.runs[0].ID)
	w.err = errors.New("it is away")
	if g.decide(r, func(t *budget.Terms) bool { t.IsEnded = true; return true }) == nil {
		t.Error("nobody is told that the others do not know")
	}
	if r.isOurs || !r.hasNews(time.Now(), g) {
		t.Errorf("ours %t, news %t", r.isOurs, r.hasNews(time.Now(), g))
	}
}

// Runs that a writer of the store has displaced are told again, and do not use up how many may be told.
func TestDisplacedRunsAreToldAgain(t *testing.T) {
	t.Parallel()
	w := &wall{}
	g, now := beside(t, w), time.Now()
	r := g.open(identity{"key", "n"}, known.Run{ID: "n"}, &access.Caller{}, now)
	g.exchange(t.Context(), now)
	g.exchange(t.Context(), now.Add(checkEvery))
	w.displaced = []string{r.id, "run_of_nobody"}
	g.exchange(t.Context(), now.Add(2*checkEvery))
	if !slices.Equal(w.told, []string{r.id, r.id}) || g.others.count != 1 {
		t.Errorf("told %v, counted %d, want %s twice, counted once", w.told, g.others.count, r.id)
	}
}
