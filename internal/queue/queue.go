// Package queue lets requests wait for a slot of an instance, and gives callers
// their turns in rotation, so that one busy caller does not block the others.
package queue

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Settings say how many requests may wait and for how long.
type Settings struct {
	// Size is how many requests of a model may wait; 0 means none.
	Size    int             `json:"size" minimum:"0" maximum:"1000000"`
	Timeout schema.Duration `json:"timeout" minimum:"1"`
}

// DefaultSettings returns what holds where nothing is configured: nobody waits.
func DefaultSettings() Settings { return Settings{Timeout: schema.Duration(30 * time.Second)} }

// Check reports every field that has a value it may not have.
func (s Settings) Check(report func(path, message string)) {
	const most = 1_000_000
	if s.Size < 0 || s.Size > most {
		report("size", "must be between 0 and 1000000")
	}
	if s.Timeout <= 0 {
		report("timeout", "must be longer than 0")
	}
}

// The reasons for which a wait ended without a turn.
var (
	ErrFull    = errors.New("too many requests are waiting")
	ErrTimeout = errors.New("no place became free in time")
)

// Queue is the requests that wait for the same pool. Turns go round between the
// callers; within one caller first come is first served.
type Queue struct {
	mu         sync.Mutex
	waiting    int
	held       int    // requests that wait for something else than a slot
	turns      int    // given and not ended
	lastNumber uint64 // how many ever came
	callers    map[string]*callerQueue
	// next is the caller whose turn it is; the queues of all callers form a ring.
	next *callerQueue
}

// callerQueue is what one caller has waiting.
type callerQueue struct {
	caller     string
	waiters    []*waiter
	prev, next *callerQueue
}

type waiter struct {
	number uint64 // those who came earlier have lower ones
	turn   chan struct{}
}

// Standing is the position of a request that it keeps when it waits again after a
// turn. The zero value is that of a new request.
type Standing struct{ number uint64 }

// New returns an empty queue.
func New() *Queue { return &Queue{callers: map[string]*callerQueue{}} }

// Len returns how many requests wait, those that are held included.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting + q.held
}

// Hold counts a request that waits for something else than a slot, such as a model that is
// being loaded, and has no turn. It returns false if there are as many already as may wait.
// Unhold must follow.
func (q *Queue) Hold(size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting+q.held >= size {
		return false
	}
	q.held++
	return true
}

// Unhold ends what Hold began.
func (q *Queue) Unhold() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held--
}

// Quiet reports whether no request waits or has a turn. A new request may take a
// slot without waiting then.
func (q *Queue) Quiet() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting+q.turns == 0
}

// recheckEvery is how often waiting requests check for changes that wake nobody: an
// instance that is healthy again, a breaker whose pause is over.
const recheckEvery = 200 * time.Millisecond

// Wait waits for a turn. It returns nil when it came, and the reason when it
// did not: ErrFull, ErrTimeout, or the end of the context. Whoever had a turn
// ends it with Done, or, if it did not get a place after all, waits again with
// the same standing: in front.
//
// Due tells whether somebody should have a turn now. It is asked as soon as the
// request is in the queue, because a place that became free just before that
// woke nobody, and every now and then while it waits.
func (q *Queue) Wait(ctx context.Context, caller string, standing *Standing, s Settings, deadline time.Time, due func() bool) error {
	w := &waiter{number: standing.number, turn: make(chan struct{}, 1)}
	if !q.enter(w, caller, s.Size) {
		return ErrFull
	}
	standing.number = w.number
	err := errPanicked
	defer func() {
		if err != nil && !q.leave(w, caller) {
			q.Done(func() bool { return true }) // the turn came at the same moment; it must not be lost
		}
	}()
	err = q.await(ctx, w, deadline, due)
	return err
}

// errPanicked stands for the end of a wait in which due panicked.
var errPanicked = errors.New("panicked")

func (q *Queue) await(ctx context.Context, w *waiter, deadline time.Time, due func() bool) error {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	look := time.NewTicker(recheckEvery)
	defer look.Stop()
	for {
		if due() {
			q.wakeIfIdle()
		}
		select {
		case <-w.turn:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return ErrTimeout
		case <-look.C:
		}
	}
}

// Done ends a turn, and gives the next request its turn if due returns true.
func (q *Queue) Done(due func() bool) {
	q.mu.Lock()
	q.turns--
	q.mu.Unlock()
	// due is called after the turn ended, because wakeIfIdle does nothing during a turn.
	if due() {
		q.wakeIfIdle()
	}
}

// Wake gives the next request its turn: a place has become free.
func (q *Queue) Wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake()
}

// wakeIfIdle is Wake for callers that only saw a free slot. During a turn that slot
// may be the one for which the turn was given; Done checks again.
func (q *Queue) wakeIfIdle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.turns == 0 {
		q.wake()
	}
}

func (q *Queue) wake() {
	if q.next == nil {
		return
	}
	l := q.next
	w := l.waiters[0]
	q.drop(l, 0)
	if q.next == l {
		q.next = l.next
	}
	q.turns++
	w.turn <- struct{}{}
}

// enter puts a waiter into the queue of its caller; false means that there are too
// many already. A waiter with a number had a turn, which ends here.
func (q *Queue) enter(w *waiter, caller string, size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	again := w.number > 0
	if q.waiting+q.held >= size && !again {
		return false
	}
	l := q.callers[caller]
	if l == nil {
		l = &callerQueue{caller: caller}
		q.callers[caller] = l
		q.appendToRing(l)
	}
	if again {
		q.turns--
		at := slices.IndexFunc(l.waiters, func(other *waiter) bool { return other.number > w.number })
		if at < 0 {
			at = len(l.waiters)
		}
		l.waiters = slices.Insert(l.waiters, at, w)
		q.unlink(l)
		q.appendToRing(l)
		q.next = l // it is still this caller's turn
	} else {
		q.lastNumber++
		w.number = q.lastNumber
		l.waiters = append(l.waiters, w)
	}
	q.waiting++
	return true
}

// leave takes a waiter out; false means that it had its turn already.
func (q *Queue) leave(w *waiter, caller string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.callers[caller]
	if l == nil {
		return false
	}
	for i, other := range l.waiters {
		if other == w {
			q.drop(l, i)
			return true
		}
	}
	return false
}

// drop removes a waiter from its queue, and an empty queue from the ring.
func (q *Queue) drop(l *callerQueue, i int) {
	l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
	q.waiting--
	if len(l.waiters) > 0 {
		return
	}
	delete(q.callers, l.caller)
	q.unlink(l)
}

// unlink removes a caller's queue from the ring.
func (q *Queue) unlink(l *callerQueue) {
	if l.next == l {
		q.next = nil
		return
	}
	l.prev.next, l.next.prev = l.next, l.prev
	if q.next == l {
		q.next = l.next
	}
}

// appendToRing puts a caller's queue at the end of the ring.
func (q *Queue) appendToRing(l *callerQueue) {
	if q.next == nil {
		l.prev, l.next = l, l
		q.next = l
		return
	}
	l.prev, l.next = q.next.prev, q.next
	l.prev.next, l.next.prev = l, l
}
