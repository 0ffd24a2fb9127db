package budget

import (
	"errors"
	"maps"
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

// state is what an account has spent and reserved, in the windows that are open or have
// requests in flight.
type state struct {
	book    *Book
	name    string
	subject quota.Subject
	// latest is the account that was opened last, nil where the name has no budgets any
	// more; the book's mutex guards it.
	latest *Account

	// latestLimits are those of the account that was opened last.
	latestLimits atomic.Pointer[[windowCount]Amounts]

	mu       sync.Mutex
	spans    []*span
	demand   demand
	answered atomic.Int64 // when the store answered last, in nanoseconds
	warned   time.Time    // of totals that were refused
	// refilling says that more is committed ahead right now.
	refilling atomic.Bool

	// refused counts the requests for which a budget was used up, and deferred those for
	// which what was left of it was reserved.
	refused, deferred [windowCount][units]atomic.Int64
}

// spanAt returns the span of a window at a moment; mu is held.
func (s *state) spanAt(w quota.Window, at time.Time) *span {
	start := w.Start(at).Unix()
	for _, found := range s.spans {
		if found.window == w && found.start == start {
			return found
		}
	}
	now := s.book.options.Now()
	kept := s.spans[:0]
	for _, old := range s.spans {
		if old.inFlight > 0 || old.window.End(time.Unix(old.start, 0)).After(now) {
			kept = append(kept, old)
		}
	}
	made := &span{window: w, start: start, settled: map[string]Amounts{}, committed: map[string]peer{}}
	s.spans = append(kept, made)
	return made
}

// lockSpans locks mu and returns the spans of a moment, which it creates where they are
// missing, with what is known of them.
func (s *state) lockSpans(at time.Time) (spans [windowCount]*span) {
	s.book.mu.Lock()
	defer s.book.mu.Unlock()
	s.mu.Lock()
	for i, w := range windows {
		spans[i] = s.spanAt(w, at)
		if len(spans[i].settled) == 0 {
			maps.Copy(spans[i].settled, s.book.known[place{s.name, w, spans[i].start}])
		}
	}
	return spans
}

// takeKnown raises what others have settled; the book's mutex is held.
func (s *state) takeKnown(known map[place]map[string]Amounts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.spans {
		for writer, amounts := range known[place{s.name, one.window, one.start}] {
			one.settled[writer] = one.settled[writer].greater(amounts)
		}
	}
}

// Refusal says which budget has no room for a request. What that request would have
// reserved is not in it.
type Refusal struct {
	Use
	// Held says that what was used leaves room for the request. Others have reserved that
	// room, or it is the part of other gateways while the store is away.
	Held bool

	state *state
}

// ErrUnavailable means that the budgets cannot be kept, and requests must not pass
// without.
var ErrUnavailable = errors.New("the budgets cannot be kept now")

// reserve reserves amounts in all windows of the account, or in none.
func (a *Account) reserve(want Amounts, at time.Time) (spans [windowCount]*span, refused *Refusal) {
	spans = a.lockSpans(at)
	defer a.mu.Unlock()
	if refused = a.refuse(&spans, want); refused != nil {
		return spans, refused
	}
	for _, one := range spans {
		one.reserved = one.reserved.plus(want)
		one.inFlight++
	}
	return spans, nil
}

// refuse returns the budget that has no room for more, one that is used up before one that
// is held; mu is held.
func (a *Account) refuse(spans *[windowCount]*span, more Amounts) (refused *Refusal) {
	for i, one := range spans {
		used := one.used(a.book)
		for unit, limit := range a.limits[i] {
			if limit <= 0 || more[unit] <= 0 || !a.isShort(one, unit, limit, used[unit], more[unit]) {
				continue
			}
			spent, reserved := one.figures(a.book)
			found := &Refusal{one.use(a.name, unit, limit, spent[unit], reserved[unit]), more[unit] <= limit-spent[unit], a.state}
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
	if !one.isOut {
		return false
	}
	share := (limit - one.outUsed[unit]) / int64(a.book.options.Shared.Members())
	return one.own()[unit]-one.outOwn[unit]+more > share
}

// isUsedUp returns the budget that has no room for more, whatever is given back.
func (a *Account) isUsedUp(more Amounts, at time.Time) *Refusal {
	spans := a.lockSpans(at)
	defer a.mu.Unlock()
	if refused := a.refuse(&spans, more); refused != nil && !refused.Held {
		return refused
	}
	return nil
}

// release gives a reservation back.
func (a *Account) release(spans *[windowCount]*span, reserved Amounts) {
	a.settle(spans, reserved, Amounts{})
}

// settle replaces a reservation by what was spent.
func (a *Account) settle(spans *[windowCount]*span, reserved, spent Amounts) {
	a.mu.Lock()
	defer a.mu.Unlock()
	settleSpans(spans, reserved, spent)
}

// settleSpans is settle where mu is held.
func settleSpans(spans *[windowCount]*span, reserved, spent Amounts) {
	for _, one := range spans {
		one.reserved = one.reserved.minus(reserved)
		one.spent = one.spent.plus(spent)
		if one.inFlight--; one.inFlight == 0 {
			one.reserved = Amounts{} // a sum that reached the greatest number is not what is left of it
		}
	}
}
