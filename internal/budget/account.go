package budget

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/quota"
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

	mu    sync.Mutex
	spans []*span

	// refused counts the requests that a budget had no room for.
	refused [windowCount][units]atomic.Int64
}

// span is one window of an account.
type span struct {
	window quota.Window
	start  int64
	// spent and reserved are those of this process.
	spent, reserved Amounts
	inFlight        int
	// settled is what other writers have spent, by the database, and committed what they
	// have spent and reserved, by the store that gateways share. Neither is ever forgotten
	// while the window is open, so that a store which loses its data costs nothing.
	settled   map[string]Amounts
	committed map[string]Committed
	// confirmed is what the store has confirmed of this process, in its last reply.
	confirmed      Amounts
	confirmedOrder int64
	// While the store is away, outUsed is what was used and outOwn what this process had
	// of it when that began.
	isOut           bool
	outUsed, outOwn Amounts
}

// beginOutage notes what was used when the store was last there. Reservations of this
// process that the store did not confirm are not part of that: those of requests that run
// at once belong to the share of this process, as later ones do.
func (s *span) beginOutage(b *Book) {
	if s.isOut {
		return
	}
	s.isOut, s.outOwn = true, s.own().lesser(s.confirmed)
	s.outUsed = s.used(b).minus(s.own()).plus(s.outOwn)
}

// own is what this process has spent and reserved.
func (s *span) own() Amounts { return s.spent.plus(s.reserved) }

// used is what all have spent and reserved, as far as it is known here.
func (s *span) used(b *Book) Amounts {
	used := s.own()
	for name, amounts := range s.settled {
		if !b.ended[name] { // one that ended reserves nothing any more
			amounts = amounts.greater(s.committed[name].Amounts)
		}
		used = used.plus(amounts)
	}
	for name, committed := range s.committed {
		if _, counted := s.settled[name]; !counted && name != b.writer {
			used = used.plus(committed.Amounts)
		}
	}
	return used
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
	made := &span{window: w, start: start, settled: map[string]Amounts{}, committed: map[string]Committed{}}
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

// Refusal says which budget is used up. What the request that was refused would have
// reserved is not in it.
type Refusal struct{ Use }

// ErrUnavailable means that the budgets cannot be kept, and requests must not pass
// without.
var ErrUnavailable = errors.New("the budgets cannot be kept now")

// reserve reserves amounts in all windows of the account, or in none.
func (a *Account) reserve(want Amounts, at time.Time) (spans [windowCount]*span, refused *Refusal) {
	spans = a.lockSpans(at)
	defer a.mu.Unlock()
	for i, one := range spans {
		if refused = a.refuse(one, a.limits[i], want); refused != nil {
			return spans, refused
		}
	}
	for _, one := range spans {
		one.reserved = one.reserved.plus(want)
		one.inFlight++
	}
	return spans, nil
}

// refuse returns the budget that has no room for more; mu is held.
func (a *Account) refuse(one *span, limits, more Amounts) *Refusal {
	used := one.used(a.book)
	for unit, limit := range limits {
		if limit <= 0 {
			continue
		}
		short := more[unit] > 0 && more[unit] > limit-used[unit]
		if one.isOut && !short {
			share := (limit - one.outUsed[unit]) / a.book.members.Load()
			short = one.own()[unit]-one.outOwn[unit]+more[unit] > share
		}
		if short {
			return &Refusal{one.use(a.name, unit, limit, used[unit])}
		}
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
		one.inFlight--
	}
}

// commit tells the store what this process has committed in the spans of the account, and
// takes over what the others have.
func (s *state) commit(ctx context.Context) error {
	store := s.book.store.Load()
	if store == nil {
		return ErrUnavailable
	}
	s.mu.Lock()
	spans := append([]*span(nil), s.spans...)
	own := make([]Commitment, len(spans))
	order := s.book.order.Add(1)
	for i, one := range spans {
		own[i] = Commitment{s.name, one.window, time.Unix(one.start, 0).UTC(), order, one.own()}
	}
	s.mu.Unlock()
	if len(own) == 0 {
		return nil
	}
	all, err := (*store).Commit(ctx, s.book.writer, own)
	if err != nil {
		return err
	}
	for _, missing := range s.take(spans, own, all) {
		if _, err := (*store).Commit(ctx, missing.writer, []Commitment{missing.last}); err != nil {
			return err
		}
	}
	return nil
}

// take takes over what the store has of other processes, and returns what it lacks.
func (s *state) take(spans []*span, own []Commitment, all []map[string]Committed) (lacking []lack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, one := range spans {
		for writer, committed := range all[i] {
			// Replies may overtake each other.
			if writer != s.book.writer && committed.Order >= one.committed[writer].Order {
				one.committed[writer] = committed
			}
		}
		if own[i].Order > one.confirmedOrder {
			one.confirmed, one.confirmedOrder = own[i].Amounts, own[i].Order
		}
		if s.book.isSettled() {
			one.isOut = false
		}
		lacking = append(lacking, one.lacking(s.book, own[i], all[i])...)
	}
	return lacking
}

// lack is a commitment of another process that the store does not have.
type lack struct {
	writer string
	last   Commitment
}

// lastOrder is after every order of a process that runs.
const lastOrder = 1 << 52

// lacking returns what the store should know of other processes: what those of them that
// ended had spent, without what they had reserved, and after it lost its data what was
// known of all. mu is held.
func (s *span) lacking(b *Book, like Commitment, reply map[string]Committed) (all []lack) {
	for writer, amounts := range s.settled {
		if b.ended[writer] && reply[writer].Order < lastOrder {
			like.Order, like.Amounts = lastOrder, amounts
			all = append(all, lack{writer, like})
		}
	}
	for writer, committed := range s.committed {
		if _, there := reply[writer]; !there && !b.ended[writer] {
			like.Order, like.Amounts = committed.Order, committed.Amounts
			all = append(all, lack{writer, like})
		}
	}
	return all
}

// lose notes that the store is away: from now on this process keeps to its share.
func (s *state) lose() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.spans {
		one.beginOutage(s.book)
	}
}

// agree asks the store whether a reservation that was made is within the budgets of all
// gateways. While the store is away, the reservation must be within the share of this one.
// A reservation that is refused is given back at once, so that those of other requests that
// wait for the same answer have its room.
func (a *Account) agree(spans *[windowCount]*span, reserved Amounts) (*Refusal, error) {
	if a.book.options.OpenStore == nil {
		return nil, nil //nolint:nilnil // neither refused nor failed
	}
	err := ErrUnavailable
	if !a.book.away.Load() {
		err = a.ask()
		a.book.setAway(err)
	}
	if err != nil && !a.book.options.Degrade && !a.book.options.FailOpen {
		return nil, ErrUnavailable
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, one := range spans {
		if err != nil {
			one.beginOutage(a.book)
		}
		one.reserved = one.reserved.minus(reserved)
		refused := a.refuse(one, a.limits[i], reserved)
		one.reserved = one.reserved.plus(reserved)
		if refused != nil {
			settleSpans(spans, reserved, Amounts{})
			return refused, nil
		}
	}
	return nil, nil //nolint:nilnil // neither refused nor failed
}

// ask commits with the timeout of a request. The client library may return later.
func (a *Account) ask() error {
	ctx, cancel := context.WithTimeout(context.Background(), a.book.options.Timeout)
	defer cancel()
	answered := make(chan error, 1)
	a.book.running.Go(func() { answered <- a.commit(ctx) })
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
