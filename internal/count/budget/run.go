package budget

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
)

// Runs are the settings of a book that counts runs of agents. A run has one window, which
// begins with its first request and ends when nothing was asked for in it for a time.
type Runs struct {
	// Idle is that time.
	Idle time.Duration
	// GoesOn reports whether the run of a row that the ledger has goes on. It is called when
	// the book begins, and again where the ledger could not be read whole.
	GoesOn func(row *quota.Row) bool
	// Found is called with a row of another gateway whose run is not known here and goes on. It is nil
	// where gateways do not share the database of the ledger.
	Found func(row *quota.Row)
	// Bound is the bound of the runs in the ledger. Keeps is not called before the ledger was read.
	Bound quota.Bound

	isRead atomic.Bool
	// Likely is Options.Likely for runs.
	Likely bool
}

// OfLedger returns the bound for the ledger: before it was read, all runs stay.
func (r *Runs) OfLedger() *quota.Bound {
	bound := r.Bound
	bound.Keeps = func(key *quota.Key, start time.Time) bool { return !r.isRead.Load() || r.Bound.Keeps(key, start) }
	return &bound
}

// longestRun is how long the ledger has the rows of a run.
const longestRun = 8 * 24 * time.Hour

// run is the state of a run that no key has; mu of its account guards it.
type run struct {
	terms *Terms // nil if nothing was decided
	// told is the version of the terms that the store has, and toldUse the time of the latest
	// request that it has, in nanoseconds.
	told, toldUse int64
	// began and used are when the run had its first and its latest request at any gateway, in
	// nanoseconds. counted is when it began here, which the ledger knows it by; it does not change.
	began, used int64
	counted     time.Time
}

// decided returns the decisions of people about the run.
func (r *run) decided() (t Terms) {
	if r.terms != nil {
		t = *r.terms
	}
	return t
}

// Terms are the decisions of people about a run, on top of its limits.
type Terms struct {
	// Version grows with each change.
	Version int64
	// Raised and Longer are added to the limits.
	Raised Amounts
	Longer time.Duration
	// MostCost is the cost that the client asked to stay below; 0 asks for nothing.
	MostCost int64
	// IsEnded means that the run was ended, IsCut that its calls in progress end, too, and
	// IsByOperator that an operator of the whole gateway did it.
	IsEnded, IsCut, IsByOperator bool
	// Looped counts the stops for loops, and Lifted those of them that were lifted.
	Looped, Lifted int64
}

// RunSubject is how a run is counted in the ledger. Its owner is the id of a key, or empty.
func RunSubject(owner, tenant, name string) quota.Subject {
	return quota.Subject{APIKey: owner, Tenant: tenant, User: []byte(quota.UserName(name))}
}

// runPrefix begins the names of accounts of runs.
const runPrefix = "run/"

// RunName returns the name of the account of a run that the ledger has.
func RunName(key *quota.Key) string {
	sum := sha256.Sum256([]byte(key.APIKey + "\x00" + key.User))
	return runPrefix + hex.EncodeToString(sum[:12])
}

// OpenRun returns the account of a run with these limits, of which 0 is none. A run that is not
// known begins now.
func (b *Book) OpenRun(subject quota.Subject, began time.Time, limits Amounts) *Account {
	b.mu.Lock()
	defer b.mu.Unlock()
	found, isNew := b.stateOf(RunName(&quota.Key{APIKey: subject.APIKey, User: string(subject.User)}), subject)
	if isNew {
		found.mu.Lock()
		found.run = run{counted: began, began: began.UnixNano()}
		found.touch(b.options.Now())
		found.spanAt(0, began)
		found.mu.Unlock()
	}
	a := &Account{state: found}
	a.limits[0] = limits
	found.latest.Store(a)
	return a
}

// Begin reads the runs that go on from the ledger, and reports whether it could.
func (b *Book) Begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.started.Load() {
		b.begin()
	}
	return b.isKnown.Load()
}

// Forget removes the account of a run that is over.
func (b *Book) Forget(a *Account) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.accounts[a.name] == a.state {
		delete(b.accounts, a.name)
		delete(b.known, place{a.name, quota.BudgetRun, 0})
	}
}

// Rested is a run that has no account for a time, because no request uses it.
type Rested struct {
	run        run
	spent, all Amounts // of this process, and of all
	others     map[string]peer
}

// Rest removes the account of a run for a time, and reports false while requests of it are under way.
func (b *Book) Rest(a *Account) (r Rested, isQuiet bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.isBusy() || b.accounts[a.name] != a.state {
		return r, false
	}
	one := a.spanAt(0, a.run.counted)
	_, all := one.figures(b)
	r = Rested{run: a.run, spent: one.spent, all: all}
	if len(one.others) > 0 {
		r.others = one.others
	}
	delete(b.accounts, a.name)
	delete(b.known, place{a.name, quota.BudgetRun, 0})
	return r, true
}

// Wake returns the account of a run again.
func (b *Book) Wake(subject quota.Subject, r Rested, limits Amounts) *Account {
	a := b.OpenRun(subject, r.run.counted, limits)
	b.mu.Lock()
	defer b.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.spanAt(0, r.run.counted)
	one.spent = r.spent
	for writer, before := range r.others {
		before.settled = before.settled.greater(one.others[writer].settled)
		one.others[writer] = before
	}
	a.run = r.run
	return a
}

// Terms returns the decisions of people about the run.
func (r *Rested) Terms() Terms { return r.run.decided() }

// Spent returns what was spent of the run, as far as this process knows.
func (r *Rested) Spent() Amounts { return r.all }

// Bounds returns limits of the run with its terms.
func (r *Rested) Bounds(limits Amounts) Amounts { return r.Terms().Bounds(limits) }

// IsUsedUp reports whether nothing is left of one of the limits.
func (r *Rested) IsUsedUp(limits Amounts) bool { return r.all.reaches(r.Bounds(limits)) }

// Began returns when the run had its first request.
func (r *Rested) Began() time.Time { return time.Unix(0, r.run.began) }

// Used returns when something was last asked for in the run.
func (r *Rested) Used() time.Time { return time.Unix(0, r.run.used) }

// IsUsedUp reports whether nothing is left of one of the limits of a run.
func (a *Account) IsUsedUp(limits Amounts) bool {
	spent, _ := a.Figures()
	return spent.reaches(a.Terms().Bounds(limits))
}

// reaches reports whether one of the amounts is at its limit, of which 0 is none.
func (a Amounts) reaches(limits Amounts) bool {
	for unit, limit := range limits {
		if limit > 0 && a[unit] >= limit {
			return true
		}
	}
	return false
}

// sharesDatabase reports whether gateways learn of each other's runs by the database alone.
func (b *Book) sharesDatabase() bool {
	runs := b.options.Runs
	return runs != nil && runs.Found != nil && b.options.Shared == nil
}

// learnRuns takes over what other gateways have written of runs to the database that they share. Those
// of which they have written while a run may be idle go on.
func (b *Book) learnRuns(ctx context.Context) {
	now := b.options.Now()
	filter := b.runsSince(now.Add(-longestRun))
	filter.Changed = now.Add(-b.options.Runs.Idle)
	rows, own, err := b.options.Ledger.Totals(ctx, filter)
	if err != nil {
		return // the ledger says that its database is away
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for at := range b.known {
		if b.accounts[at.account] == nil { // nobody has taken the run over
			delete(b.known, at)
		}
	}
	for i := range rows {
		row := &rows[i]
		if isWriter(row, own) || b.ended[row.Writer] {
			continue
		}
		at := place{RunName(&row.Key), row.Window, 0}
		if !b.note(at, row) {
			continue
		}
		if s := b.accounts[at.account]; s != nil {
			s.Touch(now)
		} else {
			b.options.Runs.Found(row)
		}
	}
	b.tellAccounts()
}

// runsSince selects the runs that began at a moment or later.
func (b *Book) runsSince(since time.Time) quota.Filter {
	until := b.options.Now().Add(time.Hour)
	return quota.Filter{Ranges: []quota.Range{{Window: quota.BudgetRun, From: since, To: until}}}
}

// Learn asks the store that gateways share for what was spent of runs. Those of which it does not tell
// now are asked for later.
func (b *Book) Learn(ctx context.Context, runs []*Account) {
	if b.options.Shared == nil {
		return
	}
	for some := range slices.Chunk(runs, commitAtOnce) {
		if ctx.Err() != nil {
			return
		}
		states := make([]*state, len(some))
		for i, a := range some {
			states[i] = a.state
		}
		// The end of ctx is no failure of the store.
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), max(b.options.Timeout, beat))
		err := b.commit(bounded, states...)
		cancel()
		if err != nil {
			return
		}
	}
}

// Decisions counts the terms of runs that came from other gateways.
func (b *Book) Decisions() int64 { return b.decisions.Load() }

// Name returns the name of the account.
func (a *Account) Name() string { return a.name }

// bounds returns the limits of a window, with the terms of a run; mu is held.
func (a *Account) bounds(kind int) Amounts {
	limits := a.limits[kind]
	if a.book.options.Likely {
		limits[overdraft] = 1
	}
	return a.run.decided().Bounds(limits)
}

// Bounds returns limits with the terms.
func (t Terms) Bounds(limits Amounts) Amounts {
	if most := t.MostCost; most > 0 && (limits[Cost] <= 0 || most < limits[Cost]) {
		limits[Cost] = most
	}
	for unit, limit := range limits {
		if limit > 0 {
			limits[unit] = Amounts{limit}.plus(Amounts{t.Raised[unit]})[0]
		}
	}
	return limits
}

// Bounds returns the limits of a run as they are now.
func (a *Account) Bounds() Amounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bounds(0)
}

// Figures returns the spent and the reserved amounts of a run, as far as this process knows.
func (a *Account) Figures() (spent, reserved Amounts) {
	spans := a.lockSpans(a.book.options.Now())
	defer a.mu.Unlock()
	used, spent := spans.all[0].figures(a.book)
	return spent, used.minus(spent)
}

// Refresh asks the other gateways for their part of a run.
func (a *Account) Refresh() error {
	if a.book.options.Shared == nil {
		return nil
	}
	return a.ask()
}

// Terms returns the decisions of people about a run.
func (a *Account) Terms() Terms {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.run.decided()
}

// Decide changes the terms of a run, here and at the other gateways. It asks those for their
// latest decision first. If change returns false, the terms stay as they are; other decisions wait until
// it has returned. An error means that the other gateways get it later.
func (a *Account) Decide(change func(*Terms) bool) error {
	err := a.Refresh()
	a.mu.Lock()
	next := a.run.decided()
	if !change(&next) {
		a.mu.Unlock()
		return nil
	}
	next.Version = max(next.Version+1, a.book.options.Now().UnixMilli())
	a.run.terms = &next
	a.mu.Unlock()
	return errors.Join(err, a.Refresh())
}

// Restore sets the terms and the beginning of a run as an earlier process or another gateway had
// them.
func (a *Account) Restore(terms Terms, began time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.takeTerms(terms)
	a.beganAt(began)
}

// Meet sets the latest use of a run that another gateway has told of, and in which nothing was asked
// for here.
func (a *Account) Meet(used time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run.used, a.run.toldUse = used.UnixNano(), used.UnixNano()
}

// Touch notes that something was asked for in a run.
func (s *state) Touch(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.touch(now)
}

func (s *state) touch(now time.Time) { s.run.used = max(s.run.used, now.UnixNano()) }

// isBusy reports whether requests are under way here; mu is held.
func (s *state) isBusy() bool {
	return slices.ContainsFunc(s.spans, func(one *span) bool { return one.inFlight > 0 })
}

// isOver reports whether a run has been idle for so long that another one of its name may have begun at
// another gateway, whose use is not mixed with its own; mu is held.
func (s *state) isOver(now time.Time) bool {
	runs := s.book.options.Runs
	return runs != nil && !s.isBusy() && now.Sub(time.Unix(0, s.run.used)) >= runs.Idle
}

// Used returns when something was last asked for in a run, at any gateway.
func (s *state) Used() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Unix(0, s.run.used)
}

// Began returns when a run had its first request, at any gateway.
func (s *state) Began() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Unix(0, s.run.began)
}

// beganAt notes that a run has begun earlier than was known; mu is held.
func (s *state) beganAt(at time.Time) {
	s.run.began = min(s.run.began, at.UnixNano())
}

// countedAt returns when a request of the account counts that came at a moment.
func (s *state) countedAt(came time.Time) time.Time {
	if s.book.options.Runs != nil {
		return s.run.counted
	}
	return came
}

// startOf returns the second at which the window of a moment begins. A run has one window.
func (b *Book) startOf(kind int, at time.Time) int64 {
	if b.options.Runs != nil {
		return 0
	}
	return b.windows[kind].Start(at).Unix()
}

// expiry returns when the store may forget a sheet.
func (s *state) expiry(one *span) time.Time {
	if runs := s.book.options.Runs; runs != nil {
		return time.Unix(0, s.run.used).Add(runs.Idle + time.Second)
	}
	return one.end().Add(keepTotals)
}

// useParts is how often the store hears, while a run is idle for as long as it may, of requests that
// change no total, because they are refused: at other gateways the run is not over either.
const useParts = 8

// hasNewTerms reports whether the store lacks terms of a run, or that it is in use; mu is held.
func (s *state) hasNewTerms() bool {
	runs := s.book.options.Runs
	return runs != nil &&
		(s.run.used-s.run.toldUse >= int64(runs.Idle/useParts) || s.run.decided().Version > s.run.told)
}

// takeTerms takes over terms of a run that are newer; mu is held.
func (s *state) takeTerms(terms Terms) {
	if terms.Version > s.run.decided().Version {
		s.run.terms = &terms
		s.book.decisions.Add(1)
	}
}

// takeRun takes over what another process has told of a run; mu is held.
func (s *state) takeRun(told *entry) {
	if s.book.options.Runs == nil {
		return
	}
	s.takeTerms(told.terms)
	s.run.told = max(s.run.told, told.terms.Version)
	used := time.Unix(told.used, 0)
	if now := s.book.options.Now(); used.After(now) { // the clock of the other one may be ahead
		used = now
	}
	s.touch(used)
	s.run.toldUse = max(s.run.toldUse, used.UnixNano())
	if told.began > 0 {
		s.beganAt(time.Unix(told.began, 0))
	}
}

// The number of an end is the sum of these.
const endedText, cutText, operatorText = 1, 2, 4

// numbers returns the numbers of terms in the order of their text.
func (t *Terms) numbers(end *int64) []*int64 {
	return []*int64{&t.Version, &t.Raised[Requests], &t.Raised[Tokens], &t.Raised[Cost], (*int64)(&t.Longer),
		&t.MostCost, end, &t.Looped, &t.Lifted}
}

// String returns the terms as numbers.
func (t Terms) String() string {
	var end int64
	if t.IsEnded {
		end = endedText
		if t.IsCut {
			end |= cutText
		}
		if t.IsByOperator {
			end |= operatorText
		}
	}
	return writeNumbers(t.numbers(&end))
}

// ReadTerms reads the terms that String returned.
func ReadTerms(text string) (t Terms, ok bool) {
	var end int64
	rest, ok := readNumbers(text, t.numbers(&end))
	t.IsEnded, t.IsCut, t.IsByOperator = end != 0, end&cutText != 0, end&operatorText != 0
	return t, ok && rest == ""
}

// EachRun calls visit with the totals of every run of the last days that the ledger has: one
// row for each gateway and process.
func (b *Book) EachRun(ctx context.Context, since time.Time, visit func(*quota.Row)) error {
	rows, _, err := b.options.Ledger.Totals(ctx, b.runsSince(since))
	for i := range rows {
		visit(&rows[i])
	}
	return err
}
