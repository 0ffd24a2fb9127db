package budget

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/allowance"
	"github.com/patchbay-ai/patchbay/internal/condition"
	"github.com/patchbay-ai/patchbay/internal/durable"
	"github.com/patchbay-ai/patchbay/internal/quota"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Ledger counts what was spent; *quota.Ledger is one.
type Ledger interface {
	Edit(edit quota.Edit)
	Admit(ticket *quota.Ticket, who quota.Subject, arrived time.Time) error
	JournalFailure() *condition.Failure
	Totals(ctx context.Context, windows []quota.CalendarWindow) ([]quota.Row, string, error)
	RecoveredWriters() []string
}

// Store is where gateways tell each other what they have spent and reserved.
type Store interface {
	// Commit stores what one gateway has committed in windows, unless it stored something
	// newer, and returns what every gateway has committed there, in the same order.
	Commit(ctx context.Context, gateway string, own []Commitment) (all []map[string]Committed, err error)
	// Close closes the connection to the store.
	Close()
}

// Commitment is what one gateway has spent and reserved in a window of an account.
type Commitment struct {
	Account string
	Window  quota.Window
	Start   time.Time
	// IsNew says that the store has not confirmed it yet.
	IsNew bool
	Committed
}

// Committed is what a store has of one gateway.
type Committed struct {
	// Order is greater for what is newer.
	Order int64
	// Amounts are what was spent and is reserved, and Reserved what of them is reserved;
	// that of a gateway of the release before is not known and counts as spent.
	Amounts, Reserved Amounts
}

// Book keeps the accounts that have budgets. While there are none it has no file, no
// connection and no goroutine.
type Book struct {
	options Options
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

	store   atomic.Pointer[Store]
	sharing condition.Condition // whether the store answers
	members atomic.Int64
	// membersAt is when there were last so many; only the exchange uses it.
	membersAt time.Time
	backAt    atomic.Int64 // when the store came back, in nanoseconds; 0 where it was never away
	// rest says how long the exchange may rest; only that uses it.
	rest rest

	stop    context.CancelFunc
	running sync.WaitGroup
}

type place struct {
	account string
	window  quota.Window
	start   int64
}

// Options are what a Book is made of.
type Options struct {
	Ledger Ledger
	// FailOpen lets requests pass when the ledger fails, and Degrade when the store of
	// all gateways does, within this gateway's share of what was left.
	FailOpen, Degrade bool
	// OpenStore connects to that store; nil where gateways share nothing. Timeout bounds
	// one call of it for a request.
	OpenStore func(context.Context) (Store, error)
	Timeout   time.Duration
	// Members tells how many gateways are there. Changes returns a text that is another one
	// when one of them has told the store something, and empty where that is not known.
	Members func() int
	Changes func() string
	// ReadEvery is the time between two reads of what others have written to the
	// database.
	ReadEvery time.Duration
	// Data is where the names of processes are kept; nil keeps none.
	Data *durable.Dir
	Log  *slog.Logger
	Now  func() time.Time

	manual bool // start no goroutines; a test calls what they would do
	// pause waits before a retry; nil means for that time.
	pause func(context.Context, time.Duration) error
}

// New returns a book without accounts.
func New(options Options) *Book {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.pause == nil {
		options.pause = pause
	}
	b := &Book{options: options, writer: rand.Text()[:13], accounts: map[string]*state{}, known: map[place]map[string]Amounts{}}
	b.members.Store(1)
	return b
}

// beat is the time between two exchanges with the other gateways.
const beat = time.Second

// Open returns the account of a name with these budgets, nil where there are none. What
// the name has spent is kept while the budgets change. A nil Book has no accounts.
func (b *Book) Open(name string, subject quota.Subject, budgets Budgets) *Account {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !budgets.isSet() {
		if known := b.accounts[name]; known != nil {
			known.latest = nil
		}
		return nil
	}
	if !b.started.Load() {
		b.begin()
	}
	found := b.accounts[name]
	if found == nil {
		found = &state{book: b, name: name, subject: subject}
		b.accounts[name] = found
	}
	a := &Account{state: found}
	for i, budget := range budgets.all() {
		a.limits[i] = budget.limits()
	}
	found.latest = a
	found.latestLimits.Store(&a.limits)
	return a
}

// Keep ends the budgets of all names but those that are in use: they are not shown any
// more. What they have spent is kept for the case that the name comes back.
func (b *Book) Keep(inUse func(name string) bool) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, known := range b.accounts {
		if !inUse(name) {
			known.latest = nil
		}
	}
}

// begin turns the ledger on and reads what was spent before; mu is held.
func (b *Book) begin() {
	b.started.Store(true)
	on := true
	b.options.Ledger.Edit(quota.Edit{Enabled: &on})
	ctx, cancel := context.WithCancel(context.Background())
	b.stop = cancel
	found := b.fetch(ctx)
	if found.own != "" {
		b.writer = found.own
	}
	b.ended = map[string]bool{}
	for _, writer := range append(b.rememberProcess(), b.options.Ledger.RecoveredWriters()...) {
		b.ended[writer] = true
	}
	b.take(found)
	if b.options.manual {
		return
	}
	b.join(ctx)
	b.running.Go(func() { b.loop(ctx) })
}

// join connects to the store that gateways share, so that the first request finds it
// open. Where that fails, the exchange tries again.
func (b *Book) join(ctx context.Context) {
	if b.options.OpenStore == nil {
		return
	}
	ctx, cancel := b.exchangeContext(ctx)
	defer cancel()
	err := b.connect(ctx)
	b.setAway(err)
	if err == nil {
		b.noteMembers(int64(max(1, b.options.Members())))
	}
}

// exchangeContext returns a context that bounds an exchange with the store.
func (b *Book) exchangeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, max(b.options.Timeout, beat))
}

// loop exchanges commitments and reads the database until the context ends.
func (b *Book) loop(ctx context.Context) {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	b.exchange(ctx)
	read := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		b.exchange(ctx)
		if time.Since(read) >= b.options.ReadEvery || !b.isKnown.Load() {
			read = time.Now()
			found := b.fetch(ctx)
			b.mu.Lock()
			b.take(found)
			b.mu.Unlock()
		}
	}
}

// mayCount reports whether requests may pass: what was spent before is known, and what
// they spend will survive the process; or neither matters.
func (b *Book) mayCount() bool {
	return b.options.FailOpen || b.isKnown.Load() && b.options.Ledger.JournalFailure() == nil
}

// hasEnded reports whether a process is an earlier one of this gateway. All that it has
// spent is known then, and what it had reserved is free.
func (b *Book) hasEnded(process string) bool { return b.isKnown.Load() && b.ended[process] }

// totals are what the ledger has of the windows that are open.
type totals struct {
	rows []quota.Row
	own  string // the writer that counts now
	err  error
}

func (b *Book) fetch(ctx context.Context) (found totals) {
	now := b.options.Now()
	var open []quota.CalendarWindow
	for _, w := range windows {
		open = append(open, quota.CalendarWindow{Window: w, Start: w.Start(now)})
	}
	found.rows, found.own, found.err = b.options.Ledger.Totals(ctx, open)
	return found
}

// take takes over what other writers have spent: earlier processes of this gateway, and
// other gateways that share its database. mu is held.
func (b *Book) take(found totals) {
	if found.err != nil && b.isKnown.Load() {
		return // the ledger says that its database is away
	}
	if found.err != nil {
		b.options.Log.Warn("what was spent of the budgets before cannot be read from the database", "error", found.err)
	}
	b.known = map[place]map[string]Amounts{}
	for i := range found.rows {
		row := &found.rows[i]
		if isOwn(row.Writer, found.own) {
			continue
		}
		at := place{accountName(&row.Key), row.Window, row.Start.Unix()}
		if b.known[at] == nil {
			b.known[at] = map[string]Amounts{}
		}
		b.known[at][row.Writer] = b.known[at][row.Writer].greater(Amounts{row.Requests, row.Tokens, row.Cost})
	}
	for _, s := range b.accounts {
		s.takeKnown(b.known)
	}
	b.isKnown.Store(found.err == nil)
}

// isOwn tells whether a writer is the one that counts now; one that had to count a window
// again has a suffix.
func isOwn(writer, own string) bool {
	return writer == own || len(writer) > len(own) && writer[:len(own)+1] == own+"."
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

// exchange tells the other gateways what this one has committed, and learns what they
// have. Idle gateways learn it too, for the time when the store is away.
func (b *Book) exchange(ctx context.Context) {
	if b.options.OpenStore == nil {
		return
	}
	ctx, cancel := b.exchangeContext(ctx)
	defer cancel()
	err := b.connect(ctx)
	if err == nil {
		b.noteMembers(int64(max(1, b.options.Members())))
		err = b.commitAll(ctx)
	}
	b.setAway(err)
	if err != nil {
		for _, s := range b.states() {
			s.lose()
		}
	}
}

// commitAll commits what every account has, unless nobody has told anything new since the
// last time.
func (b *Book) commitAll(ctx context.Context) error {
	states := b.states()
	for _, s := range states {
		// A gateway without requests of an account must know it too.
		s.lockSpans(b.options.Now())
		s.demand.next()
		s.lookAhead()
		s.mu.Unlock()
	}
	changes, now := b.options.Changes(), b.options.Now()
	if b.rest.may(changes, now) && !b.isAway() && !slices.ContainsFunc(states, (*state).hasNews) {
		return nil
	}
	for _, s := range states {
		if err := s.commit(ctx); err != nil {
			return err
		}
	}
	b.rest = rest{changes, b.rest.changes, now}
	return nil
}

// rest is what was known of changes at the last exchanges.
type rest struct {
	changes, before string
	at              time.Time
}

// longestRest is how long an exchange may rest in any case.
const longestRest = time.Minute

// may reports whether the exchange may rest. It happens once more after the one that found
// a change, because the change may be counted before it is stored.
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

// connect opens the store if it is not open.
func (b *Book) connect(ctx context.Context) error {
	if b.store.Load() != nil {
		return nil
	}
	store, err := b.options.OpenStore(ctx)
	if err == nil {
		b.store.Store(&store)
	}
	return err
}

// presence is how long a gateway counts as there after it was.
const presence = 10 * time.Second

// noteMembers takes over how many gateways there are. A store that was away, or lost its
// data, knows the others again when they have met it: until then the number does not fall,
// because it divides what each may use while the store is away.
func (b *Book) noteMembers(count int64) {
	known, now := b.members.Load(), b.options.Now()
	if count < known && (b.isAway() || now.Sub(b.membersAt) < presence || now.Sub(time.Unix(0, b.backAt.Load())) < presence) {
		return
	}
	b.membersAt = now
	if count != known {
		b.members.Store(count)
		b.options.Log.Info("the number of gateways that share budgets has changed", "gateways", count)
	}
}

// setAway notes whether the store answers, and logs when that changes.
func (b *Book) setAway(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		if b.sharing.Fail(err.Error()) {
			b.options.Log.Warn("the budgets cannot be shared: each gateway keeps to its part of what was left", "gateways", b.members.Load(), "error", err)
		}
		return
	}
	if b.isAway() {
		b.backAt.Store(b.options.Now().UnixNano()) // before others see that it is back
	}
	if b.sharing.Recover() {
		b.options.Log.Info("the budgets are shared again")
	}
}

// isAway reports whether the store did not answer the last time.
func (b *Book) isAway() bool { return b.sharing.Failure() != nil }

// Sharing is the state of the store in which gateways tell each other what they spend.
type Sharing struct {
	// On says that there is one in use.
	On bool
	// Failure is why it does not answer; nil means that it does. Failures counts how often
	// it did not.
	Failure  *condition.Failure
	Failures int64
}

// Sharing returns how the budgets are shared. A nil Book shares none.
func (b *Book) Sharing() Sharing {
	if b == nil {
		return Sharing{}
	}
	return Sharing{On: b.started.Load() && b.options.OpenStore != nil, Failure: b.sharing.Failure(), Failures: b.sharing.Failures()}
}

// grace is how long a gateway keeps to its part after the store is back: until then all
// others have told what they spent meanwhile.
const grace = 3 * beat

// isSettled tells whether the store has been there for so long that all gateways have told
// it what they committed. The exchange that finds the store again is the first one of the
// grace.
func (b *Book) isSettled() bool {
	return !b.isAway() && b.options.Now().Sub(time.Unix(0, b.backAt.Load())) >= grace
}

// Close tells the other gateways what was spent at last, and ends.
func (b *Book) Close(ctx context.Context) {
	b.mu.Lock()
	started, stop := b.started.Load(), b.stop
	b.mu.Unlock()
	if !started {
		return
	}
	stop()
	b.running.Wait()
	b.exchange(ctx)
	if store := b.store.Load(); store != nil {
		(*store).Close()
	}
}
