package budget

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
)

// Account is a key or a tenant with its budgets. It is immutable apart from its state,
// which it shares with the accounts of the same name that were made before it.
type Account struct {
	limits [windowCount]Amounts
	*state
}

// state holds the spent and reserved amounts of an account, in the windows that are
// open or have requests in flight.
type state struct {
	book    *Book
	name    string
	subject quota.Subject
	// latest is the account that was opened last, nil where the name has no budgets any
	// more.
	latest atomic.Pointer[Account]

	mu       sync.Mutex
	spans    []*span
	demand   demand
	answered atomic.Int64 // when the store answered last, in nanoseconds
	run      run          // of a run of an agent
	warned   time.Time    // of totals that were refused
	// refilling says that more is committed ahead right now.
	refilling atomic.Bool

	// refused counts the requests that found a budget used up, and deferred the requests
	// that found the rest of it reserved.
	refused, deferred [windowCount][units]atomic.Int64
}

// accountSpans are the windows of an account at one moment.
type accountSpans struct {
	all   [windowCount]*span
	count int
}

func (s *accountSpans) list() []*span { return s.all[:s.count] }

// spanAt returns the span of a window at a moment, with the amounts that others have
// settled; mu and the book's mutex are held.
func (s *state) spanAt(kind int, at time.Time) *span {
	start := s.book.startOf(kind, at)
	for _, found := range s.spans {
		if found.kind == kind && found.start == start {
			return found
		}
	}
	now := s.book.options.Now()
	kept := s.spans[:0]
	for _, old := range s.spans {
		if old.inFlight > 0 || old.end().After(now) {
			kept = append(kept, old)
		}
	}
	made := &span{kind: kind, window: s.book.windows[kind], start: start, others: map[string]peer{}}
	s.spans = append(kept, made)
	s.takeKnown(made)
	return made
}

// lockSpans locks mu and returns the spans of a moment, which it creates where they are
// missing.
func (s *state) lockSpans(at time.Time) (spans accountSpans) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	s.mu.Lock()
	for i := range s.book.windows {
		spans.all[i] = s.spanAt(i, at)
	}
	spans.count = len(s.book.windows)
	return spans
}

// takeKnown raises the amounts that others have settled in spans; mu and the book's
// mutex are held.
func (s *state) takeKnown(spans ...*span) {
	for _, one := range spans {
		for writer, amounts := range s.book.known[place{s.name, one.window, one.start}] {
			other := one.others[writer]
			other.settled = other.settled.greater(amounts)
			one.others[writer] = other
		}
	}
}

// Refusal says which budget has no room for a request. Its figures do not include the
// reservation that the request asked for.
type Refusal struct {
	Use
	// Wanted are the amounts that the request asked for.
	Wanted Amounts
	// Held says that the spent amounts leave room for the request. Others have reserved
	// that room, or it is the part of other gateways while the store is away.
	Held bool

	state *state
	kind  int // of the window
}

// ErrUnavailable means that the budgets cannot be kept, and requests must not pass
// without.
var ErrUnavailable = errors.New("the budgets cannot be kept now")

// open returns the windows of a request that came at a moment, which stay until it is settled.
func (a *Account) open(at time.Time) accountSpans {
	spans := a.lockSpans(at)
	defer a.mu.Unlock()
	for _, one := range spans.list() {
		one.inFlight++
	}
	return spans
}

// reserve reserves amounts in all windows of a request, or in none. It asks the other
// gateways where that is necessary.
func (a *Account) reserve(spans *accountSpans, want Amounts) (*Refusal, error) {
	a.mu.Lock()
	refused := a.take(spans, want)
	a.mu.Unlock()
	if refused != nil {
		return refused, nil
	}
	return a.agree(spans, want)
}

// take reserves amounts that this process knows to be free, or returns the budget that has no
// room for them, one that is used up before one that is held; mu is held.
func (a *Account) take(spans *accountSpans, want Amounts) *Refusal {
	if refused := a.refuse(spans, want); refused != nil {
		return refused
	}
	for _, one := range spans.list() {
		one.reserved = one.reserved.plus(want)
	}
	return nil
}

// refuse returns the budget that keeps take from reserving; mu is held.
func (a *Account) refuse(spans *accountSpans, more Amounts) (refused *Refusal) {
	for i, one := range spans.list() {
		used, spent := one.figures(a.book)
		for unit, limit := range a.bounds(i) {
			if limit <= 0 || more[unit] <= 0 || !a.isShort(one, unit, limit, used[unit], more[unit]) {
				continue
			}
			use := one.use(a.name, unit, limit, used[unit], spent[unit])
			found := &Refusal{use, more, more[unit] <= limit-spent[unit], a.state, i}
			if !found.Held {
				return found
			}
			if refused == nil {
				refused = found
			}
		}
	}
	return refused
}

// isShort reports whether a budget has no room for more.
func (a *Account) isShort(one *span, unit int, limit, used, more int64) bool {
	if more > limit-used {
		return true
	}
	if !one.isOut || unit == overdraft { // each gateway that cannot ask has one
		return false
	}
	share := (limit - one.outUsed[unit]) / int64(a.book.options.Shared.Members())
	return one.own()[unit]-one.outOwn[unit]+more > share
}

// isLikely reports whether a call that finds no room may reserve its likely use.
func (a *Account) isLikely(want Want) bool { return a.book.options.Likely && want.Likely != want.Full }

// reduce gives a part of a reservation back.
func (a *Account) reduce(spans *accountSpans, by Amounts) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range spans.list() {
		one.reserved = one.reserved.minus(by)
	}
}

// settle replaces the reservation of a request by the spent amounts, and ends the
// request.
func (a *Account) settle(spans *accountSpans, reserved, spent Amounts) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range spans.list() {
		one.reserved = one.reserved.minus(reserved)
		one.spent = one.spent.plus(spent)
		if one.inFlight--; one.inFlight == 0 {
			one.reserved = Amounts{} // a sum that reached the greatest number cannot be reduced exactly
		}
	}
}
