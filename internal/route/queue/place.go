package queue

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Place is the place of a request that is held: it waits for something else than a slot,
// such as a model that is being loaded, and has no turn.
type Place struct {
	class   schema.Class
	caller  string
	number  uint64
	giveWay func()
}

// Hold gives a request a place without a turn, and returns nil where there is none. Unhold
// must follow. GiveWay is called if the place goes to a caller with fewer; it must not call
// the queue.
func (q *Queue) Hold(caller string, class schema.Class, size int, giveWay func()) *Place {
	q.mu.Lock()
	defer q.mu.Unlock()
	p := &Place{class: class.Or(schema.Normal), caller: caller, giveWay: giveWay}
	if p.class == schema.Spare {
		return p
	}
	if !q.makePlace(caller, p.class, size) {
		return nil
	}
	q.lastNumber++
	p.number = q.lastNumber
	q.lanes[p.class].hold(p)
	q.held++
	return p
}

// Unhold undoes Hold.
func (q *Queue) Unhold(p *Place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.unhold(p) && q.held == 0 && q.waiting == 0 {
		q.wakeIdle()
	}
}

// unhold takes a place out; false means that it was not there or gave way.
func (q *Queue) unhold(p *Place) bool {
	if p.class == schema.Spare || !q.lanes[p.class].unhold(p) {
		return false
	}
	q.held--
	return true
}

// HasPlace reports whether a request of a caller would get a place now. It changes nothing.
func (q *Queue) HasPlace(caller string, class schema.Class, size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	class = class.Or(schema.Normal)
	return class == schema.Spare || q.before(class) < size || q.lanes[class].yielding(caller) != nil
}

// makePlace reports whether there is a place for a request of a caller. In a full queue the
// last request of the caller with the most places of the class gives way, if it has more
// than the other one will have.
func (q *Queue) makePlace(caller string, class schema.Class, size int) bool {
	if q.before(class) < size {
		return true
	}
	l := &q.lanes[class]
	c := l.yielding(caller)
	if c == nil {
		return false
	}
	w, p := c.newest()
	if p != nil {
		q.unhold(p)
		p.giveWay()
		return true
	}
	l.drop(c, len(c.waiters)-1)
	q.count(class, -1)
	w.End(ErrFull)
	return true
}

// hold adds a request that has no turn.
func (l *lane) hold(p *Place) {
	c := l.of(p.caller)
	c.held = append(c.held, p)
	l.held++
	l.rank(c)
}

// unhold removes one; false means that it is not there.
func (l *lane) unhold(p *Place) bool {
	c := l.callers[p.caller]
	if c == nil {
		return false
	}
	at := slices.Index(c.held, p)
	if at < 0 {
		return false
	}
	c.held = slices.Delete(c.held, at, at+1)
	l.held--
	l.rank(c)
	return true
}

// newest returns the last request of a caller, or a place that is held if that is newer.
func (c *callerQueue) newest() (*waiter, *Place) {
	w, p := len(c.waiters)-1, len(c.held)-1
	if p >= 0 && (w < 0 || c.held[p].number > c.waiters[w].number) {
		return nil, c.held[p]
	}
	return c.waiters[w], nil
}

// yielding returns the caller with the most places if another one may have one of them: the
// two are nearer to each other then, and do not take the place from each other in turns.
func (l *lane) yielding(caller string) *callerQueue {
	if len(l.ranks) == 0 {
		return nil
	}
	own, most := 0, len(l.ranks)-1
	if c := l.callers[caller]; c != nil {
		own = c.rank
	}
	if most <= own+1 {
		return nil
	}
	return l.ranks[most]
}

// rank files a caller under the number of its places after a change by one, and forgets
// a caller without any. The last of ranks is never empty.
func (l *lane) rank(c *callerQueue) {
	if c.rank > 0 {
		if c.above != nil {
			c.above.below = c.below
		} else {
			l.ranks[c.rank] = c.below
		}
		if c.below != nil {
			c.below.above = c.above
		}
	}
	c.rank, c.above, c.below = len(c.waiters)+len(c.held), nil, nil
	if c.rank == 0 {
		delete(l.callers, c.caller)
	} else {
		for len(l.ranks) <= c.rank {
			l.ranks = append(l.ranks, nil)
		}
		if c.below = l.ranks[c.rank]; c.below != nil {
			c.below.above = c
		}
		l.ranks[c.rank] = c
	}
	for len(l.ranks) > 0 && l.ranks[len(l.ranks)-1] == nil {
		l.ranks = l.ranks[:len(l.ranks)-1]
	}
}
