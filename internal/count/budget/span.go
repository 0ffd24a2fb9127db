package budget

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
)

// span is one window of an account.
type span struct {
	// kind is the place of the window among those of its book, and start the second of its
	// beginning.
	kind   int
	window quota.Window
	start  int64
	// spent and reserved are the amounts of this process.
	spent, reserved Amounts
	inFlight        int
	// others holds the amounts of other processes, by their names. Nothing of it is
	// forgotten while the window is open: a store that loses its data costs nothing.
	others map[string]peer
	// ahead is the amount that this process commits beyond its own for the next
	// requests, and leased is its value when it was last set.
	ahead, leased Amounts
	// confirmed is the amount that the store has confirmed of this process: others leave
	// it to this process until it commits less. Replies to messages before firstOrder
	// are too old and say no more.
	firstOrder int64
	confirmed  Committed
	// While the store is away, outUsed is the used amount and outOwn this process's part
	// of it at the beginning of the outage.
	isOut           bool
	outUsed, outOwn Amounts
}

// end returns the end of the window.
func (s *span) end() time.Time { return s.window.End(time.Unix(s.start, 0)) }

// peer holds the known amounts of another process.
type peer struct {
	// settled is the amount in the database.
	settled Amounts
	// Committed is the amount in the shared store, and changed the time when it was last
	// seen to change. It changes with every exchange of a living process.
	Committed
	changed time.Time
	// text is the store's entry of the process.
	text string
}

// figures returns the spent and reserved amounts of the process together, and the spent ones
// alone, as far as it told them. A dead process may have spent its reservations: nobody knows,
// and so they count as spent.
func (p *peer) figures(now time.Time) (used, spent Amounts) {
	used, spent = p.Amounts, p.Amounts
	if now.Sub(p.changed) < presence {
		spent = spent.minus(p.Reserved)
	} else {
		used[overdraft], spent[overdraft] = 0, 0 // a permit ends with its process
	}
	return p.settled.greater(used), p.settled.greater(spent)
}

// beginOutage notes the used amounts of the time when the store was last there.
// Reservations of this process that the store did not confirm are not part of that:
// reservations of running requests belong to the share of this process, as later ones do.
// Amounts committed ahead are not part of it either, although the others count them as
// used: so the others have room for their spending that this process does not know.
func (s *span) beginOutage(b *Book) {
	if s.isOut {
		return
	}
	used, _ := s.figures(b)
	s.isOut, s.outOwn, s.ahead = true, s.own().lesser(s.confirmed.Amounts), Amounts{}
	s.outUsed = used.minus(s.own()).plus(s.outOwn)
}

// hasNews reports whether the store has not confirmed the amounts of this process.
func (s *span) hasNews() bool {
	return s.confirmed.Order == 0 || s.confirmed.Amounts != s.own().plus(s.ahead) ||
		s.confirmed.Reserved != s.reserved.plus(s.ahead)
}

// commitment returns the message for the store. From now on this process has no more than
// that without asking.
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

// own returns the spent and reserved amounts of this process.
func (s *span) own() Amounts { return s.spent.plus(s.reserved) }

// figures returns the spent and reserved amounts of all together, and the spent ones alone,
// as far as this process knows. An earlier process of this gateway reserves nothing any more:
// the database has all that it spent.
func (s *span) figures(b *Book) (used, spent Amounts) {
	used, spent = s.own(), s.spent
	for name, other := range s.others {
		usedByOther, spentByOther := other.settled, other.settled
		if !b.hasEnded(name) {
			usedByOther, spentByOther = other.figures(b.options.Now())
		}
		used, spent = used.plus(usedByOther), spent.plus(spentByOther)
	}
	return used, spent
}

// lastOrder is after every order of a process that runs.
const lastOrder = 1 << 52

// lacking returns the amounts of other processes that the store should know, by their
// names: the spending of ended processes without their reservations and, after it lost its
// data, all known amounts. mu is held.
func (s *span) lacking(b *Book, told map[string]Committed) map[string]Committed {
	all := map[string]Committed{}
	for writer := range b.ended {
		settled := s.others[writer].settled
		known, there := told[writer]
		if b.hasEnded(writer) && (settled != Amounts{} || there) && known.Order < lastOrder {
			all[writer] = Committed{Order: lastOrder, Amounts: settled}
		}
	}
	for writer, other := range s.others {
		if _, there := told[writer]; !there && other.Order > 0 && !b.hasEnded(writer) {
			all[writer] = other.Committed
		}
	}
	return all
}
