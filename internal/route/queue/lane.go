package queue

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

const (
	// While requests of a more urgent class wait, a class keeps one in oneIn turns. passes is
	// the number of turns that go to others before.
	oneIn  = 20
	passes = oneIn - 1
)

// next returns the class with the next turn, and whether it has the turn although more
// urgent requests wait; NoClass where nobody has a turn. It counts the classes that are
// passed over.
func (q *Queue) next() (class schema.Class, isKept bool) {
	most := schema.NoClass
	for c := schema.Interactive; c >= schema.Batch; c-- {
		l := &q.lanes[c]
		switch {
		case l.waiting == 0:
		case most == schema.NoClass:
			most, class = c, c
		case !isKept && l.passed >= passes:
			class, isKept = c, true
		}
	}
	if most == schema.NoClass {
		if q.unwanted() && q.lanes[schema.Spare].waiting > 0 {
			return schema.Spare, false
		}
		return schema.NoClass, false
	}
	for c := schema.Batch; c < most; c++ {
		switch l := &q.lanes[c]; {
		case l.waiting == 0:
		case c == class:
			l.passed -= passes
		default:
			l.passed = min(l.passed+1, 2*passes)
		}
	}
	return class, isKept
}

// lane is the requests of one class.
type lane struct {
	waiting int // for a slot
	held    int // for something else
	// passed is how many turns went to others while requests waited here behind a more
	// urgent class, less the ones that this class has made up for with a turn.
	passed int
	pace   pace // of its turns
	aimed  int  // waiting requests with a target
	// turns counts the turns. Callers whose last turn is not after round have had none in this
	// round of the callers.
	turns, round uint64
	callers      map[string]*callerQueue
	// next is the caller with the next turn, if no target is nearer; the queues of all callers
	// with waiters form a ring, the one with the earliest last turn first.
	next *callerQueue
	// ranks has the callers by the number of their places, each list by its first.
	ranks []*callerQueue
}

// callerQueue holds the places of one caller in a lane. Waiters are in the order in which they
// are due, held in the order in which they came.
type callerQueue struct {
	caller     string
	last       uint64 // its last turn, or the last of others when it came
	waiters    []*waiter
	held       []*Place
	prev, next *callerQueue // in the ring
	// rank is the number of places; above and below have the same.
	rank         int
	above, below *callerQueue
}

// of returns the queue of a caller. A new one has to get a place.
func (l *lane) of(caller string) *callerQueue {
	c := l.callers[caller]
	if c == nil {
		c = &callerQueue{caller: caller}
		if l.callers == nil {
			l.callers = map[string]*callerQueue{}
		}
		l.callers[caller] = c
	}
	return c
}

// add lets a request wait behind the others of its caller that are due before it.
func (l *lane) add(w *waiter, caller string) {
	c := l.of(caller)
	if len(c.waiters) == 0 {
		c.last = l.turns
		l.appendToRing(c)
	}
	l.insert(c, w)
}

// insert puts a request among those of its caller.
func (l *lane) insert(c *callerQueue, w *waiter) {
	at := len(c.waiters)
	for at > 0 && w.isBefore(c.waiters[at-1]) {
		at--
	}
	c.waiters = slices.Insert(c.waiters, at, w)
	l.waiting++
	if w.isAimed {
		l.aimed++
	}
	l.rank(c)
}

// isBefore reports whether a request is due before another one.
func (w *waiter) isBefore(other *waiter) bool {
	switch {
	case w.due.Equal(other.due):
		return w.number < other.number
	case w.due.IsZero() || other.due.IsZero():
		return other.due.IsZero()
	}
	return w.due.Before(other.due)
}

// addFirst lets a request wait that had a turn: it is still its caller's turn, and only
// earlier requests of the caller are before it.
func (l *lane) addFirst(w *waiter, caller string) {
	c := l.of(caller)
	if len(c.waiters) > 0 {
		l.unlink(c)
	}
	c.last = l.round
	l.appendToRing(c)
	l.next = c
	l.insert(c, w)
}

// first takes out the request with the next turn.
func (l *lane) first() *waiter {
	c := l.nearest()
	w := c.waiters[0]
	l.turns++
	c.last = l.turns
	l.drop(c, 0)
	switch {
	case len(c.waiters) == 0: // it left the ring
	case l.next == c:
		l.next = c.next
	default:
		l.unlink(c)
		l.appendToRing(c)
	}
	return w
}

// nearest returns the caller with the next turn: the one with the nearest target of those that
// have had none in this round, and else the one whose last turn is longest ago. Nobody has two
// turns in a round.
func (l *lane) nearest() *callerQueue {
	if l.aimed == 0 {
		return l.next
	}
	if l.next.last > l.round {
		l.round = l.turns
	}
	best := l.next
	for c := best.next; c != l.next && c.last <= l.round; c = c.next {
		if c.waiters[0].isAimed && c.waiters[0].isBefore(best.waiters[0]) {
			best = c
		}
	}
	return best
}

// find returns the place of a waiter among those of its caller, -1 where it is not there.
func (l *lane) find(w *waiter, caller string) int {
	c := l.callers[caller]
	if c == nil {
		return -1
	}
	return slices.Index(c.waiters, w)
}

// drop removes a waiter from its queue, and an empty queue from the ring.
func (l *lane) drop(c *callerQueue, i int) {
	if c.waiters[i].isAimed {
		l.aimed--
	}
	c.waiters = slices.Delete(c.waiters, i, i+1)
	l.waiting--
	if len(c.waiters) == 0 {
		l.unlink(c)
	}
	l.rank(c)
}

// unlink removes a caller's queue from the ring.
func (l *lane) unlink(c *callerQueue) {
	if c.next == c {
		l.next = nil
		return
	}
	c.prev.next, c.next.prev = c.next, c.prev
	if l.next == c {
		l.next = c.next
	}
}

// appendToRing puts a caller's queue at the end of the ring.
func (l *lane) appendToRing(c *callerQueue) {
	if l.next == nil {
		c.prev, c.next = c, c
		l.next = c
		return
	}
	c.prev, c.next = l.next.prev, l.next
	c.prev.next, c.next.prev = c, c
}
