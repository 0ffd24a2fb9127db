package gateway

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/quota/sqlstore"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// newLedger returns the quota ledger with its journal and its stores. None of them is
// opened before the ledger is on.
func newLedger(doc *config.Document, pool *tally.Pool, log *slog.Logger) *quota.Ledger {
	return quota.New(doc.Quota, quota.Options{
		Dir:           filepath.Join(doc.Server.DataDir, quota.JournalDir),
		OpenSnapshots: snapshotsOf(doc),
		Shared:        pool,
		Log:           log,
	})
}

// snapshotsOf returns how the database of ledgers is opened.
func snapshotsOf(doc *config.Document) func(context.Context) (quota.Snapshots, error) {
	return func(ctx context.Context) (quota.Snapshots, error) {
		store, err := sqlstore.Open(ctx, doc.Store.URL, doc.Server.DataDir)
		if err != nil {
			return nil, err
		}
		return store, nil
	}
}

// newBook returns the budgets of keys and tenants, with a ledger of their own beside the
// ledger of usage: it has the same stores, and a journal of its own.
func (g *Gateway) newBook() *budget.Book {
	return g.newBookOf(filepath.Join(g.Document.Server.DataDir, budget.JournalDir), nil)
}

// newBookOf returns a book with a journal in a folder: of runs or, for nil, of budgets.
func (g *Gateway) newBookOf(folder string, runs *budget.Runs) *budget.Book {
	doc, log := g.Document, g.log
	settings := doc.Quota.Clone()
	settings.Enabled, settings.Distributed.Enabled = false, false
	settings.FailOpen = true // the book refuses requests, and spent amounts are counted in any case
	settings.Windows = []quota.Window{quota.BudgetDay, quota.BudgetMonth, quota.BudgetTotal}
	counted := quota.Options{Dir: folder, OpenSnapshots: snapshotsOf(doc), Log: log}
	if runs != nil {
		settings.Windows, counted.Bound = []quota.Window{quota.BudgetRun}, runs.OfLedger()
	}
	ledger := quota.New(settings, counted)
	options := budget.Options{
		Ledger: ledger, Runs: runs, FailOpen: doc.Quota.FailOpen, Degrade: doc.Quota.Distributed.DegradeToLocal,
		Timeout: doc.Quota.Distributed.Timeout.Std(), Likely: doc.Quota.Reserve == quota.Likely,
		ReadEvery: time.Duration(doc.Quota.FlushIntervalSeconds) * time.Second, Data: g.Store.Data(), Log: log,
		Keys: g.Credentials.MasterKeys(), Wait: g.patience.Wait,
	}
	if runs != nil {
		options.Likely = runs.Likely
	}
	if doc.Quota.Distributed.Enabled {
		options.Shared, options.Prefix = g.Shared, doc.Quota.Distributed.KeyPrefix
	}
	book := budget.New(options)
	if runs != nil {
		g.runsBook.Store(book)
	}
	return book
}

// writeLast closes a ledger, which writes its last counts. Counts that cannot be written
// in time stay in its journal for the next start.
func writeLast(log *slog.Logger, what string, close func(context.Context) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := close(ctx); err != nil {
		log.Warn(what+" was not written whole; the next start does it", "error", err)
	}
}

func (g *Gateway) closeLedger() { writeLast(g.log, "the quota ledger", g.Ledger.Close) }

// editLedger changes the ledger until the next restart or reload.
func (g *Gateway) editLedger(edit quota.Edit) {
	g.Ledger.Edit(edit)
	g.useLedger()
}

// useLedger makes requests ask the ledger while it is on. A ledger that is turned off
// meanwhile counts nothing.
func (g *Gateway) useLedger() {
	g.usingLedger.Lock()
	defer g.usingLedger.Unlock()
	if g.Ledger.Settings().Enabled {
		g.Requests.SetLedger(g.Ledger)
	} else {
		g.Requests.SetLedger(nil)
	}
}
