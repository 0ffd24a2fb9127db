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
	passed  int
	pace    pace // of its turns
	callers map[string]*callerQueue
	// next is the caller with the next turn; the queues of all callers with waiters form
	// a ring.
	next *callerQueue
	// ranks has the callers by the number of their places, each list by its first.
	ranks []*callerQueue
}

// callerQueue holds the places of one caller in a lane. Waiters and held are in the order
// in which they came.
type callerQueue struct {
	caller     string
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

// add lets a request wait behind the others of its caller.
func (l *lane) add(w *waiter, caller string) {
	c := l.of(caller)
	if len(c.waiters) == 0 {
		l.appendToRing(c)
	}
	c.waiters = append(c.waiters, w)
	l.waiting++
	l.rank(c)
}

// addFirst lets a request wait that had a turn: it is still its caller's turn, and only
// earlier requests of the caller are before it.
func (l *lane) addFirst(w *waiter, caller string) {
	c := l.of(caller)
	if len(c.waiters) > 0 {
		l.unlink(c)
	}
	at := slices.IndexFunc(c.waiters, func(other *waiter) bool { return other.number > w.number })
	if at < 0 {
		at = len(c.waiters)
	}
	c.waiters = slices.Insert(c.waiters, at, w)
	l.waiting++
	l.appendToRing(c)
	l.next = c
	l.rank(c)
}

// first takes out the request with the next turn.
func (l *lane) first() *waiter {
	c := l.next
	w := c.waiters[0]
	l.drop(c, 0)
	if l.next == c {
		l.next = c.next
	}
	return w
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
