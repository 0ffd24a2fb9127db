package governor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/store/documents"
	"github.com/patchbay-ai/patchbay/internal/wings/runs"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/registry"
)

// page is documents of runs, which come in one page, and the error of the next page and of each write.
type page struct {
	documents.Store
	mu    sync.Mutex
	runs  []registry.Run
	asked int // how often the first page was read
	err   error
}

func (p *page) List(_ context.Context, query documents.Query) (docs []documents.Document, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if query.After != "0" {
		return nil, p.err
	}
	p.asked++
	for i := 0; len(p.runs) > 0 && (i < len(p.runs) || p.err != nil && i < query.Limit); i++ {
		run := &p.runs[i%len(p.runs)]
		doc, err := registry.Document(run, run.Used)
		if err != nil {
			return nil, err
		}
		docs = append(docs, doc)
	}
	return docs, nil
}

func (p *page) Get(context.Context, string, string) (documents.Document, error) {
	return documents.Document{}, documents.ErrNotFound
}

func (p *page) Put(context.Context, documents.Document) (int64, error) { return 1, p.err }

// beside returns a governor that reads decisions in a registry.
func beside(t *testing.T, w *page) *Governor {
	t.Helper()
	none := func(context.Context) (quota.Snapshots, error) { return nil, errors.New("there is no store") }
	ledger := quota.New(quota.Settings{}, quota.Options{Dir: t.TempDir(), OpenSnapshots: none})
	settings := runs.DefaultSettings()
	book := budget.New(budget.Options{Ledger: ledger, Runs: &budget.Runs{
		Idle: settings.Idle.Std(), GoesOn: func(*quota.Row) bool { return false },
	}})
	t.Cleanup(func() { _ = book.Close(context.Background()) }) // nothing was spent
	return New(Options{
		Settings: settings, Registry: registry.New(w, settings.Idle.Std()), IsPolled: true, Log: slog.New(slog.DiscardHandler),
		Book: func(*budget.Runs) *budget.Book { return book },
	})
}

// Those who ask for the runs of other gateways while the registry is unavailable wait for one try together. What
// it gave until then is known.
func TestThoseWhoAskAboutOthersAskOnce(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := registry.Run{ID: publicID(budget.RunName(&quota.Key{User: "n"})), Name: "n", Began: now, Used: now.Add(time.Hour), Terms: budget.Terms{}.String()}
	w := &page{err: errors.New("it is away"), runs: []registry.Run{r}}
	g := beside(t, w)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if g.meetOthers(t.Context(), time.Now()) == nil {
				t.Error("there is no error though the registry is unavailable")
			}
		})
	}
	all.Wait()
	if w.asked != 1 {
		t.Errorf("the registry was read %d times", w.asked)
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
	w := &page{runs: []registry.Run{{ID: publicID(budget.RunName(&quota.Key{User: "n"})), Name: "n", Began: now, Used: now, Terms: budget.Terms{}.String()}}}
	g := beside(t, w)
	if err := g.meetOthers(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	r := g.byPublicID(w.runs[0].ID)
	w.err = errors.New("it is away")
	if g.decide(r, func(t *budget.Terms) bool { t.IsEnded = true; return true }) == nil {
		t.Error("nobody is told that the others do not know")
	}
	if r.isOurs || !r.isStale(time.Now(), g) {
		t.Errorf("ours %t, stale %t", r.isOurs, r.isStale(time.Now(), g))
	}
}
