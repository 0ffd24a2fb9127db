package budget

import (
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
	"github.com/patchbay-ai/patchbay/internal/store/durable"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// Ledger counts spent amounts; *quota.Ledger is one.
type Ledger interface {
	Edit(edit quota.Edit)
	Admit(ticket *quota.Ticket, who quota.Subject, arrived time.Time) error
	JournalFailure() *condition.Failure
	Totals(ctx context.Context, filter quota.Filter) ([]quota.Row, string, error)
	RecoveredWriters() []string
	Stats() quota.Stats
	Close(ctx context.Context) error
}

// Shared is the store that gateways share; *tally.Pool is it.
type Shared interface {
	// Meet makes the first contact with the store.
	Meet(ctx context.Context)
	// Tell stores totals and returns the totals of all writers.
	Tell(ctx context.Context, sheets []tally.Sheet, isNews bool) ([]map[string]string, error)
	// IsAway reports whether the store does not answer. IsSettled reports whether it has
	// been there long enough for all gateways to tell their totals again.
	IsAway() bool
	IsSettled() bool
	// Members returns the number of gateways. Changes returns a text that changes when
	// one of them has told news, and is empty where that is not known.
	Members() int
	Changes() string
	// Stats has the failures of the store.
	Stats() tally.Stats
}

// Book keeps the accounts that have budgets. While there are none it has no file, no
// connection and no goroutine.
type Book struct {
	options Options
	windows []quota.Window
	writer  string // of the commitments of this process
	order   atomic.Int64

	mu       sync.Mutex
	accounts map[string]*state
	started  atomic.Bool
	// ended are the earlier processes of this gateway. It is set before the first account
	// exists.
	ended map[string]bool
	// known holds the totals that others had spent when they were last read, by account
	// and window.
	known map[place]map[string]Amounts
	// isKnown says that the journal and the database were read.
	isKnown atomic.Bool

	// rest says how long the exchange may rest; only the exchange uses it.
	rest rest
	// refusedTotals counts totals in the store that were not believed, and decisions the terms of runs
	// that came from other gateways.
	refusedTotals, decisions atomic.Int64

	stop    context.CancelFunc
	running sync.WaitGroup
}

type place struct {
	account string
	window  quota.Window
	start   int64
}

// Options are the parts and settings of a Book.
type Options struct {
	Ledger Ledger
	// FailOpen lets requests pass when the ledger fails. Degrade lets them pass when
	// the shared store fails, within this gateway's share of the rest.
	FailOpen, Degrade bool
	// Shared is that store; nil where gateways share nothing. Its places have names with
	// this prefix. Timeout bounds one call of it for a request.
	Shared  Shared
	Prefix  string
	Timeout time.Duration
	// Keys sign the totals there. Without Keys nothing is signed.
	Keys *seal.Keys
	// Runs makes the book count runs of agents; nil counts budgets of keys and tenants.
	Runs *Runs
	// Likely lets a request that finds no room for the most that it may use reserve its likely use.
	// One request of an account at a time does.
	Likely bool
	// ReadEvery is the time between two reads of the rows that others have written to
	// the database.
	ReadEvery time.Duration
	// Data is where the names of processes are kept; nil keeps none.
	Data *durable.Dir
	Log  *slog.Logger
	Now  func() time.Time
	// Wait calls read, the first read of the database, with a context that may end sooner; nil
	// calls it as it is.
	Wait func(ctx context.Context, read func(ctx context.Context))

	manual bool // start no goroutines; a test calls their functions itself
	// pause waits before a retry; nil means for that time.
	pause func(context.Context, time.Duration) error
}

// New returns a book without accounts.
func New(options Options) *Book {
	if options.Wait == nil {
		options.Wait = func(ctx context.Context, read func(ctx context.Context)) { read(ctx) }
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.pause == nil {
		options.pause = waiting.Pause
	}
	kinds := windows[:]
	if options.Runs != nil {
		kinds = []quota.Window{quota.BudgetRun}
	}
	return &Book{
		options: options, windows: kinds, writer: rand.Text()[:13],
		accounts: map[string]*state{}, known: map[place]map[string]Amounts{},
	}
}

// beat is the time between two exchanges with the other gateways.
const beat = time.Second

// Open returns the account of a name with these budgets, nil where there are none. The
// name keeps its spent amounts while the budgets change. A nil Book has no accounts.
func (b *Book) Open(name string, subject quota.Subject, budgets Budgets) *Account {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !budgets.isSet() {
		if known := b.accounts[name]; known != nil {
			known.latest.Store(nil)
		}
		return nil
	}
	found, _ := b.stateOf(name, subject)
	a := &Account{state: found}
	for i, budget := range budgets.all() {
		a.limits[i] = budget.limits()
	}
	found.latest.Store(a)
	return a
}

// stateOf returns the state of a name, and reports whether it is new; mu is held.
func (b *Book) stateOf(name string, subject quota.Subject) (s *state, isNew bool) {
	if !b.started.Load() {
		b.begin()
	}
	if s = b.accounts[name]; s == nil {
		s, isNew = &state{book: b, name: name, subject: subject}, true
		b.accounts[name] = s
	}
	return s, isNew
}

// Keep ends the budgets of all names but the ones in use: they are not shown any more.
// Their spent amounts are kept in case the name comes back.
func (b *Book) Keep(inUse func(name string) bool) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, known := range b.accounts {
		if !inUse(name) {
			known.latest.Store(nil)
		}
	}
}

// begin turns the ledger on and reads the amounts spent before; mu is held.
func (b *Book) begin() {
	b.started.Store(true)
	on := true
	b.options.Ledger.Edit(quota.Edit{Enabled: &on})
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	var rows []quota.Row
	var own string
	var err error
	b.options.Wait(ctx, func(ctx context.Context) { rows, own, err = b.fetch(ctx) })
	if own != "" {
		b.writer = own
	}
	b.ended = map[string]bool{}
	for _, writer := range append(b.rememberProcess(), b.options.Ledger.RecoveredWriters()...) {
		b.ended[writer] = true
	}
	b.take(rows, own, err)
	if b.options.manual {
		return
	}
	if b.options.Shared != nil { // before the first request needs it
		b.options.Shared.Meet(ctx)
	}
	b.running.Go(func() { logs.Persist(ctx, b.options.Log, "keeping the budgets", b.loop) })
}

// loop exchanges commitments and reads the database until the context ends.
func (b *Book) loop(ctx context.Context) {
	b.exchange(ctx)
	read := time.Now()
	if b.sharesDatabase() {
		b.learnRuns(ctx)
	}
	waiting.Every(ctx, beat, func(time.Time) {
		b.exchange(ctx)
		isDue := time.Since(read) >= b.options.ReadEvery
		switch {
		case b.options.Runs == nil && isDue || !b.isKnown.Load():
			read = time.Now()
			b.learn(ctx)
		case isDue && b.sharesDatabase():
			read = time.Now()
			b.learnRuns(ctx)
		}
	})
}

// learn takes over the totals of the database.
func (b *Book) learn(ctx context.Context) {
	rows, own, err := b.fetch(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(rows, own, err)
}

// mayCount reports whether requests may pass: the amounts spent before are known, and
// new ones will survive the process; or neither matters.
func (b *Book) mayCount() bool {
	return b.options.FailOpen || b.isKnown.Load() && b.options.Ledger.JournalFailure() == nil
}

// hasEnded reports whether a process is an earlier one of this gateway. All its
// spending is known then, and its reservations are free.
func (b *Book) hasEnded(process string) bool { return b.isKnown.Load() && b.ended[process] }

// fetch returns the ledger's rows of the windows that are open, and the writer that counts
// now.
func (b *Book) fetch(ctx context.Context) (rows []quota.Row, own string, err error) {
	if b.options.Runs != nil {
		return b.options.Ledger.Totals(ctx, b.runsSince(b.options.Now().Add(-longestRun)))
	}
	open := quota.RangesOf(quota.OpenWindows(b.options.Now(), b.windows)...)
	return b.options.Ledger.Totals(ctx, quota.Filter{Ranges: open})
}

// take takes over the spending of other writers: earlier processes of this gateway, and
// other gateways that share its database. mu is held.
func (b *Book) take(rows []quota.Row, own string, err error) {
	if err != nil && b.isKnown.Load() {
		return // the ledger says that its database is away
	}
	if err != nil {
		b.options.Log.Warn("what was spent of the budgets before cannot be read from the database", "error", err)
	}
	b.known = map[place]map[string]Amounts{}
	for i := range rows {
		row := &rows[i]
		if isWriter(row, own) {
			continue
		}
		at := place{accountName(&row.Key), row.Window, row.Start.Unix()}
		if runs := b.options.Runs; runs != nil {
			if !runs.GoesOn(row) {
				continue
			}
			at = place{RunName(&row.Key), row.Window, 0}
		}
		b.note(at, row)
	}
	b.tellAccounts()
	b.isKnown.Store(err == nil)
	if runs := b.options.Runs; runs != nil {
		runs.isRead.Store(err == nil)
	}
}

// note takes over the spending of a row, and reports whether it is more than was known; mu is held.
func (b *Book) note(at place, row *quota.Row) (isMore bool) {
	if b.known[at] == nil {
		b.known[at] = map[string]Amounts{}
	}
	before := b.known[at][row.Writer]
	after := before.greater(Amounts{row.Requests, row.Tokens, row.Cost})
	b.known[at][row.Writer] = after
	return after != before
}

// isWriter reports whether a row is of a process, which may count a window again.
func isWriter(row *quota.Row, process string) bool {
	return row.Writer == process || strings.HasPrefix(row.Writer, process+".")
}

// tellAccounts raises what others have settled in all accounts; mu is held.
func (b *Book) tellAccounts() {
	for _, s := range b.accounts {
		s.mu.Lock()
		s.takeKnown(s.spans...)
		s.mu.Unlock()
	}
}

// accountName returns the name of the account that a key of the ledger belongs to.
func accountName(key *quota.Key) string {
	if key.APIKey != "" {
		return allowance.KeyName(key.APIKey)
	}
	return allowance.TenantName(key.Tenant)
}

// KeySubject and TenantSubject are how accounts are counted in the ledger.
func KeySubject(id string) quota.Subject { return quota.Subject{APIKey: id, Service: schema.Chat} }

// TenantSubject is KeySubject for a tenant.
func TenantSubject(name string) quota.Subject {
	return quota.Subject{Tenant: name, Service: schema.Chat}
}

// exchange tells the other gateways the amounts that this one has committed, and learns
// theirs. Idle gateways learn it too, for the time when the store is away.
func (b *Book) exchange(ctx context.Context) {
	if b.options.Shared == nil {
		return
	}
	if b.commitAll(ctx) == nil {
		return
	}
	for _, s := range b.states() {
		s.lose()
	}
}

// commitAtOnce is how many accounts are told with one round trip.
const commitAtOnce = 256

// manyRuns is the number of runs from which on quiet ones are not told at each exchange. What others
// spent of these is not known here when the store goes away.
const manyRuns = 1000

// commitAll commits the amounts of every account, unless no gateway has told anything new
// since the last time.
func (b *Book) commitAll(ctx context.Context) error {
	all, isNews := b.states(), false
	// Each request of a run asks the store. Where there are many runs, quiet ones are therefore
	// told only to a store that has lost its data. One with reservations elsewhere is not quiet:
	// this process must see that their gateways live. One with calls here is not quiet either: it may be
	// ended by another gateway.
	isPartial := len(all) > manyRuns && b.options.Runs != nil && b.options.Shared.IsSettled()
	states := all[:0]
	for _, s := range all {
		// A gateway without requests of an account must know it too.
		s.lockSpans(b.options.Now())
		s.demand.next()
		s.lookAhead()
		hasNews := s.isNews()
		isOver := s.isOver(b.options.Now())
		isQuiet := isOver || isPartial && !hasNews && !s.isReservedElsewhere() && !s.isBusy()
		s.mu.Unlock()
		isNews = hasNews && !isOver || isNews
		if !isQuiet {
			states = append(states, s)
		}
	}
	changes, now := b.options.Shared.Changes(), b.options.Now()
	if b.rest.may(changes, now) && !isNews {
		return nil
	}
	for some := range slices.Chunk(states, commitAtOnce) {
		bounded, cancel := context.WithTimeout(ctx, max(b.options.Timeout, beat))
		err := b.commit(bounded, some...)
		cancel()
		if err != nil {
			return err
		}
	}
	b.rest = rest{changes, b.rest.changes, now}
	return nil
}

// rest remembers the changes seen at the last exchanges.
type rest struct {
	changes, before string
	at              time.Time
}

// longestRest is how long an exchange may rest in any case.
const longestRest = time.Minute

// may reports whether the exchange may rest. It happens once more after the exchange that
// found a change, because the change may be counted before it is stored.
func (r *rest) may(changes string, now time.Time) bool {
	return changes != "" && changes == r.changes && changes == r.before && now.Sub(r.at) < longestRest
}

func (b *Book) states() (all []*state) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.accounts {
		all = append(all, s)
	}
	return all
}

// presence is how long a gateway counts as there after it was.
const presence = 10 * time.Second

// IsShared reports whether gateways now tell each other their spending. A nil Book tells
// nobody.
func (b *Book) IsShared() bool { return b != nil && b.options.Shared != nil && b.started.Load() }

// Stats returns the counts of the ledger of budgets. Its counter is the store that gateways
// share. A nil Book has none.
func (b *Book) Stats() quota.Stats {
	if b == nil {
		return quota.Stats{}
	}
	stats := b.options.Ledger.Stats()
	if b.options.Shared != nil {
		shared := b.options.Shared.Stats()
		stats.Distributed, stats.CounterFailure, stats.CounterFailures = b.IsShared(), shared.Failure, shared.Failures
		stats.RefusedTotals = b.refusedTotals.Load()
	}
	return stats
}

// Close tells the other gateways the last spending, writes it, and ends.
func (b *Book) Close(ctx context.Context) error {
	b.mu.Lock()
	started, stop := b.started.Load(), b.stop
	b.mu.Unlock()
	if started {
		stop()
		b.running.Wait()
		for _, s := range b.states() { // nothing comes any more
			s.mu.Lock()
			s.demand = demand{}
			s.mu.Unlock()
		}
		b.exchange(ctx)
	}
	return b.options.Ledger.Close(ctx)
}
