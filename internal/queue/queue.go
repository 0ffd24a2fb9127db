// Package queue lets requests wait for a place at a backend, and sees to it
// that one busy caller does not push the others out.
package queue

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Settings say how many requests may wait and for how long.
type Settings struct {
	// Size is how many requests of a model may wait; 0 means none.
	Size    int             `json:"size"`
	Timeout schema.Duration `json:"timeout"`
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

// Why a wait ended without a turn.
var (
	ErrFull    = errors.New("too many requests are waiting")
	ErrTimeout = errors.New("no place became free in time")
)

// Queue is the requests that wait for the same pool. Turns go round between the
// callers; within one caller first come is first served.
type Queue struct {
	mu      sync.Mutex
	waiting int
	callers map[string]*line
	// next is the caller whose turn it is; the lines of all callers that wait
	// form a ring.
	next *line
}

// line is what one caller has waiting.
type line struct {
	caller     string
	waiters    []*waiter
	prev, next *line
}

type waiter struct{ turn chan struct{} }

// New returns an empty queue.
func New() *Queue { return &Queue{callers: map[string]*line{}} }

// Len returns how many requests wait.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting
}

// lookAgain is how often those who wait look for what nobody wakes them for: an
// instance that is healthy again, a pause that is over.
const lookAgain = 200 * time.Millisecond

// Wait waits for a turn. It returns nil when it came, and the reason when it
// did not: ErrFull, ErrTimeout, or the end of the context. A request that had
// its turn and did not get a place after all waits again in front.
//
// Due tells whether somebody should have a turn now. It is asked as soon as the
// request is in the queue, because a place that became free just before that
// woke nobody, and every now and then while it waits.
func (q *Queue) Wait(ctx context.Context, caller string, s Settings, deadline time.Time, again bool, due func() bool) error {
	w := &waiter{turn: make(chan struct{}, 1)}
	if !q.enter(w, caller, s.Size, again) {
		return ErrFull
	}
	err := q.await(ctx, w, deadline, due)
	if err != nil && !q.leave(w, caller) {
		// The turn came at the same moment; it must not be lost.
		q.Wake()
	}
	return err
}

func (q *Queue) await(ctx context.Context, w *waiter, deadline time.Time, due func() bool) error {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for {
		if due() {
			q.Wake() // perhaps another one, whose turn it is
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

// Wake gives the next request its turn: a place has become free. Whoever has a
// turn and does not use it, or sees that there is room for more, wakes the next.
func (q *Queue) Wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next == nil {
		return
	}
	l := q.next
	w := l.waiters[0]
	q.drop(l, 0)
	if q.next == l {
		q.next = l.next
	}
	w.turn <- struct{}{}
}

func (q *Queue) enter(w *waiter, caller string, size int, again bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting >= size && !again {
		return false
	}
	l := q.callers[caller]
	if l == nil {
		l = &line{caller: caller}
		q.callers[caller] = l
		q.join(l)
	}
	if again {
		l.waiters = append([]*waiter{w}, l.waiters...)
		q.unlink(l)
		q.join(l)
		q.next = l // it is still this caller's turn
	} else {
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

// drop removes a waiter from its line, and an empty line from the ring.
func (q *Queue) drop(l *line, i int) {
	l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
	q.waiting--
	if len(l.waiters) > 0 {
		return
	}
	delete(q.callers, l.caller)
	q.unlink(l)
}

// unlink takes a line out of the ring.
func (q *Queue) unlink(l *line) {
	if l.next == l {
		q.next = nil
		return
	}
	l.prev.next, l.next.prev = l.next, l.prev
	if q.next == l {
		q.next = l.next
	}
}

// join puts a line at the end of the ring, where its turn comes last.
func (q *Queue) join(l *line) {
	if q.next == nil {
		l.prev, l.next = l, l
		q.next = l
		return
	}
	l.prev, l.next = q.next.prev, q.next
	l.prev.next, l.next.prev = l, l
}
