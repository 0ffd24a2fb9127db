package budget

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/quota"
)

// span is one window of an account.
type span struct {
	// kind is the place of the window in windows, and start the second at which it begins.
	kind  int
	start int64
	// spent and reserved are those of this process.
	spent, reserved Amounts
	inFlight        int
	// others is what other processes have, by their names. Nothing of it is forgotten while
	// the window is open, so a store that loses its data costs nothing.
	others map[string]peer
	// ahead is what this process commits beyond what it has, for the next requests, and
	// leased how much that was when it was last set.
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

func (s *span) window() quota.Window { return windows[s.kind] }

// end returns the end of the window.
func (s *span) end() time.Time { return s.window().End(time.Unix(s.start, 0)) }

// peer is what is known of another process.
type peer struct {
	// settled is what the database has.
	settled Amounts
	// Committed is what the store that gateways share has, and changed when that was last
	// seen to change, which it does with every exchange of a process that is there.
	Committed
	changed time.Time
	// isSplit says that the process tells what of it is reserved, and found is what the store
	// had.
	isSplit bool
	found   told
}

// figures returns what the process has spent and reserved, and what it has spent, as far as it
// told. A process that is not there any more may have spent what it had reserved: nobody says
// what became of it.
func (p *peer) figures(now time.Time) (used, spent Amounts) {
	spent = p.Amounts
	if now.Sub(p.changed) < presence {
		spent = spent.minus(p.Reserved)
	}
	return p.settled.greater(p.Amounts), p.settled.greater(spent)
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
	used, _ := s.figures(b)
	s.isOut, s.outOwn, s.ahead = true, s.own().lesser(s.confirmed.Amounts), Amounts{}
	s.outUsed = used.minus(s.own()).plus(s.outOwn)
}

// hasNews reports whether the store has not confirmed what this process has.
func (s *span) hasNews() bool {
	return s.confirmed.Order == 0 || s.confirmed.Amounts != s.own().plus(s.ahead) ||
		s.confirmed.Reserved != s.reserved.plus(s.ahead)
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

// figures returns what all have spent and reserved, and what they have spent, as far as it is
// known here. An earlier process of this gateway reserves nothing any more: the database has
// all that it spent.
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

// lacking returns what the store should know of other processes, by their names: what those
// of them that ended had spent, without what they had reserved, and after it lost its data
// what was known of all. mu is held.
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
