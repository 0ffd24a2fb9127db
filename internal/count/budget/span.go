package budget

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
)

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
	committed map[string]peer
	// ahead is what this process commits beyond what it has, so that the next requests need
	// not ask, and leased how much that was when it was last set.
	ahead, leased Amounts
	// confirmed is what the store has confirmed of this process: what others leave to it
	// until it commits less. Replies to what was sent before firstOrder say no more.
	firstOrder int64
	confirmed  Committed
	// While the store is away, outUsed is what was used and outOwn what this process had
	// of it when that began.
	isOut           bool
	outUsed, outOwn Amounts
	// isRead says that the store was read once, when it was known whether totals without a
	// signature are taken over.
	isRead bool
}

// peer is what the store has of another process, and when that was last seen to change,
// which it does with every exchange of a process that is there.
type peer struct {
	Committed
	changed time.Time
	// isSplit says that the process tells what of it is reserved, and found is what the store
	// had.
	isSplit bool
	found   told
}

// spent is what the process has spent, as far as it told. What one that is not there any
// more had reserved counts as spent: nobody says what became of it.
func (p peer) spent(now time.Time) Amounts {
	if now.Sub(p.changed) >= presence {
		return p.Amounts
	}
	return p.Amounts.minus(p.Reserved)
}

// beginOutage notes what was used when the store was last there. Reservations of this
// process that the store did not confirm are not part of that: those of requests that run
// at once belong to the share of this process, as later ones do. Nor is what it committed
// ahead, which the others count as used: so they have room for what this process does not
// know of theirs.
func (s *span) beginOutage(b *Book) {
	if s.isOut {
		return
	}
	s.isOut, s.outOwn, s.ahead = true, s.own().lesser(s.confirmed.Amounts), Amounts{}
	s.outUsed = s.used(b).minus(s.own()).plus(s.outOwn)
}

// hasNews reports whether the store has not confirmed what this process has.
func (s *span) hasNews() bool {
	return s.confirmed.Order == 0 || s.confirmed.Amounts != s.own().plus(s.ahead) || s.confirmed.Reserved != s.reserved.plus(s.ahead)
}

// commitment returns what to tell the store. From now on this process has no more than that
// without asking.
func (s *span) commitment(order int64) Committed {
	c := Committed{order, s.own().plus(s.ahead), s.reserved.plus(s.ahead)}
	if least := s.confirmed.Amounts.lesser(c.Amounts); least != s.confirmed.Amounts {
		s.confirmed.Amounts, s.firstOrder = least, order
	}
	return c
}

// confirm takes over that the store has a commitment.
func (s *span) confirm(c Committed) {
	if c.Order > s.confirmed.Order && c.Order >= s.firstOrder {
		s.confirmed = c
	}
}

// own is what this process has spent and reserved.
func (s *span) own() Amounts { return s.spent.plus(s.reserved) }

// used is what all have spent and reserved, as far as it is known here.
func (s *span) used(b *Book) Amounts {
	used := s.own()
	for name, amounts := range s.settled {
		if !b.hasEnded(name) { // one that ended reserves nothing any more
			amounts = amounts.greater(s.committed[name].Amounts)
		}
		used = used.plus(amounts)
	}
	for name, committed := range s.committed {
		if _, counted := s.settled[name]; !counted && !b.hasEnded(name) {
			used = used.plus(committed.Amounts)
		}
	}
	return used
}

// figures is used in two parts: what was spent, and what is reserved.
func (s *span) figures(b *Book) (spent, reserved Amounts) {
	now := b.options.Now()
	spent = s.spent
	for name, amounts := range s.settled {
		if !b.hasEnded(name) {
			amounts = amounts.greater(s.committed[name].spent(now))
		}
		spent = spent.plus(amounts)
	}
	for name, committed := range s.committed {
		if _, counted := s.settled[name]; !counted && !b.hasEnded(name) {
			spent = spent.plus(committed.spent(now))
		}
	}
	return spent, s.used(b).minus(spent)
}

// lastOrder is after every order of a process that runs.
const lastOrder = 1 << 52

// lacking returns what the store should know of other processes, by their names: what those
// of them that ended had spent, without what they had reserved, and after it lost its data
// what was known of all. mu is held.
func (s *span) lacking(b *Book, told map[string]Committed) map[string]Committed {
	all := map[string]Committed{}
	for writer := range b.ended {
		amounts, counted := s.settled[writer]
		known, there := told[writer]
		if b.hasEnded(writer) && (counted || there) && known.Order < lastOrder {
			all[writer] = Committed{Order: lastOrder, Amounts: amounts}
		}
	}
	for writer, committed := range s.committed {
		if _, there := told[writer]; !there && !b.hasEnded(writer) {
			all[writer] = committed.Committed
		}
	}
	return all
}
