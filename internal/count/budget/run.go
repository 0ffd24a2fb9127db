package budget

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
	"github.com/patchbay-ai/patchbay/internal/count/tally"
)

// Runs are the settings of a book that counts runs of agents. A run has one window, which
// begins with its first request and ends when nothing was asked for in it for a time.
type Runs struct {
	// Idle is that time.
	Idle time.Duration
	// GoesOn reports whether the run of a row that the ledger has goes on. It is called when
	// the book begins, and again where the ledger could not be read whole.
	GoesOn func(row *quota.Row) bool
}

// longestRun is how long the ledger has the rows of a run.
const longestRun = 8 * 24 * time.Hour

// run is the state of a run that no key has.
type run struct {
	terms atomic.Pointer[Terms]
	// told is the version of the terms that the store has.
	told atomic.Int64
	// began and used are when the run had its first and its latest request at any gateway, in
	// nanoseconds. counted is when it began here, which the ledger knows it by.
	began, used atomic.Int64
	counted     time.Time
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
	// IsEnded says that somebody has ended the run.
	IsEnded bool
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
	if !b.started.Load() {
		b.begin()
	}
	name := RunName(&quota.Key{APIKey: subject.APIKey, User: string(subject.User)})
	found := b.accounts[name]
	if found == nil {
		found = &state{book: b, name: name, subject: subject}
		found.run.counted = began
		found.run.began.Store(began.UnixNano())
		found.run.terms.Store(&Terms{})
		found.Touch(b.options.Now())
		found.mu.Lock()
		found.spanAt(0, began)
		found.mu.Unlock()
		b.accounts[name] = found
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

// Name returns the name of the account.
func (a *Account) Name() string { return a.name }

// bounds returns the limits of a window, with the terms of a run.
func (a *Account) bounds(kind int) Amounts {
	limits := a.limits[kind]
	terms := a.run.terms.Load()
	if terms == nil {
		return limits
	}
	if most := terms.MostCost; most > 0 && (limits[Cost] <= 0 || most < limits[Cost]) {
		limits[Cost] = most
	}
	for unit, limit := range limits {
		if limit > 0 {
			limits[unit] = Amounts{limit}.plus(Amounts{terms.Raised[unit]})[0]
		}
	}
	return limits
}

// Bounds returns the limits of a run as they are now.
func (a *Account) Bounds() Amounts { return a.bounds(0) }

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
func (a *Account) Terms() Terms { return *a.run.terms.Load() }

// Decide changes the terms of a run, here and at the other gateways. It asks those for their
// latest decision first. An error means that they cannot be told now, and will be later.
func (a *Account) Decide(change func(*Terms)) error {
	err := a.Refresh()
	a.mu.Lock()
	next := *a.run.terms.Load()
	change(&next)
	next.Version = max(next.Version+1, a.book.options.Now().UnixMilli())
	a.run.terms.Store(&next)
	a.mu.Unlock()
	return errors.Join(err, a.Refresh())
}

// Restore sets the terms and the beginning of a run as an earlier process had them.
func (a *Account) Restore(terms Terms, began time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if terms.Version > a.run.terms.Load().Version {
		a.run.terms.Store(&terms)
	}
	a.beganAt(began)
}

// Touch notes that something was asked for in a run.
func (s *state) Touch(now time.Time) { s.run.used.Store(max(s.run.used.Load(), now.UnixNano())) }

// Used returns when something was last asked for in a run, at any gateway.
func (s *state) Used() time.Time { return time.Unix(0, s.run.used.Load()) }

// Began returns when a run had its first request, at any gateway.
func (s *state) Began() time.Time { return time.Unix(0, s.run.began.Load()) }

// beganAt notes that a run has begun earlier than was known; mu is held.
func (s *state) beganAt(at time.Time) {
	s.run.began.Store(min(s.run.began.Load(), at.UnixNano()))
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
		return s.Used().Add(runs.Idle + time.Second)
	}
	return one.end().Add(keepTotals)
}

// The sheet of a run has its terms and its beginning beside the totals of processes.
const (
	termsWriter = "run:terms"
	beganWriter = "run:began"
)

// hasNewTerms reports whether the store lacks terms of a run.
func (s *state) hasNewTerms() bool {
	terms := s.run.terms.Load()
	return terms != nil && terms.Version > s.run.told.Load()
}

// addTerms adds terms and beginning of a run to its sheet, and returns their version; mu is held.
func (s *state) addTerms(sheets []tally.Sheet) int64 {
	terms := s.run.terms.Load()
	if terms == nil || len(sheets) == 0 {
		return 0
	}
	sheet := &sheets[0]
	// The earliest beginning has the greatest order.
	began := strconv.FormatInt(lastOrder-s.run.began.Load()/int64(time.Second), 10)
	for writer, text := range map[string]string{termsWriter: terms.String(), beganWriter: began} {
		if keys := s.book.options.Keys; keys != nil {
			text += " " + keys.Sign(writer, sheet.Name, text)
		}
		sheet.Totals = append(sheet.Totals, tally.Total{Writer: writer, Numbers: text})
	}
	return terms.Version
}

// takeTerms takes over terms and beginning of a run from the store's sheet; mu is held.
func (s *state) takeTerms(p prepared, all []map[string]string) {
	known := s.run.terms.Load()
	if known == nil || len(all) == 0 {
		return
	}
	if p.terms > s.run.told.Load() {
		s.run.told.Store(p.terms)
	}
	name := p.sheets[0].Name
	if found, ok := ReadTerms(s.unsigned(name, termsWriter, all[0])); ok && found.Version > known.Version {
		s.run.terms.Store(&found)
		s.run.told.Store(found.Version)
	}
	if order, err := strconv.ParseInt(s.unsigned(name, beganWriter, all[0]), 10, 64); err == nil && order > 0 {
		s.beganAt(time.Unix(lastOrder-order, 0))
	}
}

// unsigned returns the text of a writer in a sheet without its signature; it is empty where that is
// wrong.
func (s *state) unsigned(sheet, writer string, all map[string]string) string {
	text := all[writer]
	keys := s.book.options.Keys
	if keys == nil {
		return text
	}
	at := strings.LastIndexByte(text, ' ')
	if at < 0 || keys.Verify(text[at+1:], writer, sheet, text[:at]) != nil {
		return ""
	}
	return text[:at]
}

// String returns the terms as a total: the version and numbers.
func (t Terms) String() string {
	ended := int64(0)
	if t.IsEnded {
		ended = 1
	}
	text := write(t.Version, t.Raised)
	for _, n := range [...]int64{int64(t.Longer / time.Second), t.MostCost, ended, t.Looped, t.Lifted} {
		text += " " + strconv.FormatInt(n, 10)
	}
	return text
}

// ReadTerms reads the terms that String returned.
func ReadTerms(text string) (t Terms, ok bool) {
	var longer, ended int64
	to := [...]*int64{&t.Version, &t.Raised[Requests], &t.Raised[Tokens], &t.Raised[Cost], &longer, &t.MostCost, &ended,
		&t.Looped, &t.Lifted}
	parts := strings.Split(text, " ")
	if len(parts) != len(to) {
		return t, false
	}
	for i, part := range parts {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil || n < 0 {
			return t, false
		}
		*to[i] = n
	}
	t.Longer, t.IsEnded = time.Duration(longer)*time.Second, ended == 1
	return t, true
}

// EachRun calls visit with the totals of every run of the last days that the ledger has: one
// row for each gateway and process.
func (b *Book) EachRun(ctx context.Context, since time.Time, visit func(*quota.Row)) error {
	rows, _, err := b.options.Ledger.TotalsSince(ctx, quota.BudgetRun, since)
	for i := range rows {
		visit(&rows[i])
	}
	return err
}
