// Package queue lets requests wait for a slot of an instance. Requests of a more urgent
// class go first, and within a class callers have their turns in rotation: one busy caller
// does not block the others. In a full queue the caller with the most places makes room for
// one with fewer.
package queue

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
)

// Settings say how many requests may wait and for how long.
type Settings struct {
	// Size is how many requests of a model may wait, not counting less urgent classes;
	// 0 means none.
	Size    int             `json:"size" minimum:"0" maximum:"1000000"`
	Timeout schema.Duration `json:"timeout" minimum:"1"`
}

// DefaultSettings returns the settings where nothing is configured: nobody waits.
func DefaultSettings() Settings { return Settings{Timeout: schema.Duration(30 * time.Second)} }

// Check reports every field that has a value it may not have.
func (s Settings) Check(report say.Report) {
	const most = 1_000_000
	if s.Size < 0 || s.Size > most {
		report("size", say.New("field.range", "least", "0", "most", "1000000"))
	}
	if s.Timeout <= 0 {
		report("timeout", say.New("field.longer"))
	}
}

// The reasons why a wait ended without a turn.
var (
	ErrFull    = errors.New("too many requests are waiting")
	ErrTimeout = errors.New("no place became free in time")
)

// Queue holds the requests that wait for the same pool. Each class has a lane, where turns
// go round between the callers; within one caller, and within a round of the callers, the
// request with the nearest target is first, and else first come is first served. Requests of
// the class Spare have their turns only while no others wait, and count for nobody else.
type Queue struct {
	mu         sync.Mutex
	lanes      [schema.ClassCount]lane
	waiting    int    // in all lanes but Spare
	held       int    // requests that wait for something else than a slot, but those of Spare
	turns      int    // given to others than Spare and not ended
	spareTurns int    // given to Spare and not ended
	lastNumber uint64 // how many ever came
	pace       pace   // of the turns of all classes but Spare
	// Spare is how many wait in the lane of that class. The queue counts them.
	Spare atomic.Int64
}

// waiter is a request that waits for its turn: a party of one.
type waiter struct {
	waiting.Party
	number  uint64    // earlier ones have lower numbers
	isKept  bool      // the turn is one that the class has although others wait
	due     time.Time // when it should have its turn, by its target or half of its time; zero is never
	isAimed bool      // it has a target
}

// Standing is the class and the position of a request, which it keeps when it waits again
// after a turn. A new request has only a class.
type Standing struct {
	Class schema.Class
	// Target is when the request wants its first token; zero where it does not say.
	Target time.Time
	number uint64
	due    time.Time
	// isKept says that the turn was one that the class has although others wait.
	isKept bool
	// left is the outlook of a request when its time was over.
	left Outlook
}

// Left returns the outlook of a request when its time was over.
func (s *Standing) Left() Outlook { return s.left }

// Anew forgets the position.
func (s *Standing) Anew() { *s = Standing{Class: s.Class, Target: s.Target} }

// dueBy returns when a request should have its turn that can wait until a deadline. One without a
// target comes before those with a later one once half of its time is over: targets must not
// make others wait in vain.
func (s *Standing) dueBy(deadline time.Time) time.Time {
	if !s.Target.IsZero() || deadline.IsZero() {
		return s.Target
	}
	now := time.Now()
	return now.Add(deadline.Sub(now) / 2)
}

func (s *Standing) class() schema.Class { return s.Class.Or(schema.Normal) }

// New returns an empty queue.
func New() *Queue { return new(Queue) }

// Len returns how many requests wait, including the ones that are held. Requests of the
// class Spare do not count.
func (q *Queue) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting + q.held
}

// Before returns how many requests count against the size of the queue for a new one of
// a class: the requests of its class and of more urgent ones.
func (q *Queue) Before(class schema.Class) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.before(class.Or(schema.Normal))
}

func (q *Queue) before(class schema.Class) int {
	n := 0
	for c := int(class); c < len(q.lanes); c++ {
		n += q.lanes[c].waiting + q.lanes[c].held
	}
	return n
}

// Quiet reports whether no request waits or has a turn. A new request may take a
// slot without waiting then. Requests of the class Spare do not count.
func (q *Queue) Quiet() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting+q.turns == 0
}

// Unwanted reports whether nobody waits for anything. Spare may have a slot then.
func (q *Queue) Unwanted() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.unwanted()
}

func (q *Queue) unwanted() bool { return q.waiting+q.held+q.turns == 0 }

// recheckEvery is how often waiting requests check for changes that wake nobody: an
// instance is healthy again, the pause of a breaker is over.
const recheckEvery = 200 * time.Millisecond

// Wait waits for a turn. It returns nil when it came, and the reason when it did not:
// ErrFull, also where the request gave way, ErrTimeout, or the end of the context. A
// request ends its turn with Done or, if it did not get a place after all, waits again with
// the same standing: in front. A deadline that is zero never comes, and no size bounds
// requests of the class Spare.
//
// Due reports whether somebody should have a turn now. It is asked as soon as the request
// is in the queue, because a place that became free just before that woke nobody, and every
// now and then while it waits.
func (q *Queue) Wait(
	ctx context.Context, caller string, standing *Standing, s Settings, deadline time.Time, due func() bool,
) error {
	if standing.number == 0 {
		standing.due = standing.dueBy(deadline)
	}
	w := &waiter{number: standing.number, due: standing.due, isAimed: !standing.Target.IsZero()}
	if !q.enter(w, caller, standing, s.Size) {
		return ErrFull
	}
	standing.number, standing.isKept = w.number, false
	err := errPanicked
	defer func() {
		if err != nil && q.leave(w, caller, standing) {
			q.Done(standing, func() bool { return true }) // the turn came at the same moment; it must not be lost
		}
	}()
	err = q.await(ctx, w, deadline, due)
	standing.isKept = err == nil && w.isKept
	return err
}

// errPanicked ends a wait when due panicked.
var errPanicked = errors.New("panicked")

// errLook ends one look at the queue.
var errLook = errors.New("look again")

// await waits for a turn.
func (q *Queue) await(ctx context.Context, w *waiter, deadline time.Time, due func() bool) error {
	look := time.NewTimer(recheckEvery)
	defer look.Stop()
	for {
		if due() {
			q.wakeIfIdle()
		}
		if !deadline.IsZero() {
			look.Reset(min(recheckEvery, time.Until(deadline)))
		}
		err := w.Await(ctx, look.C, errLook)
		switch {
		case !errors.Is(err, errLook):
			return err
		case !deadline.IsZero() && !time.Now().Before(deadline):
			return ErrTimeout
		}
		look.Reset(recheckEvery)
	}
}

// Done ends the turn of a request, and gives the next one its turn if due returns true.
func (q *Queue) Done(standing *Standing, due func() bool) {
	q.mu.Lock()
	class := standing.class()
	q.endTurn(class)
	if class != schema.Spare {
		now := time.Now()
		q.pace.turn(now, q.waiting > 0)
		q.lanes[class].pace.turn(now, q.lanes[class].waiting > 0)
	}
	q.mu.Unlock()
	// due is called after the turn ended, because wakeIfIdle does nothing during a turn.
	if due() {
		q.wakeIfIdle()
	}
}

func (q *Queue) endTurn(class schema.Class) {
	if class == schema.Spare {
		q.spareTurns--
	} else {
		q.turns--
	}
}

// Wake gives the next request its turn: a place has become free.
func (q *Queue) Wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wake()
}

// wakeIfIdle is Wake for callers that only saw a free slot. The slot may be the
// cause of the current turn; Done checks again.
func (q *Queue) wakeIfIdle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakeIdle()
}

func (q *Queue) wakeIdle() {
	if q.turns == 0 && (q.waiting > 0 || q.spareTurns == 0) {
		q.wake()
	}
}

func (q *Queue) wake() {
	class, isKept := q.next()
	if class == schema.NoClass {
		return
	}
	w := q.lanes[class].first()
	q.count(class, -1)
	if class == schema.Spare {
		q.spareTurns++
	} else {
		q.turns++
	}
	w.isKept = isKept
	w.End(nil)
}

// count adds to the number of waiting requests in a lane.
func (q *Queue) count(class schema.Class, n int) {
	if class == schema.Spare {
		q.Spare.Add(int64(n))
	} else {
		q.waiting += n
	}
}

// enter puts a waiter into the queue of its caller; false means that there are too
// many already. A waiter with a number had a turn, which ends here.
func (q *Queue) enter(w *waiter, caller string, standing *Standing, size int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	class := standing.class()
	again := w.number > 0
	if class != schema.Spare && !again && !q.makePlace(caller, class, size) {
		return false
	}
	w.Join()
	l := &q.lanes[class]
	if again {
		q.endTurn(class)
		l.addFirst(w, caller)
		if standing.isKept {
			l.passed += passes // that turn was in vain
		}
	} else {
		q.lastNumber++
		w.number = q.lastNumber
		l.add(w, caller)
	}
	q.count(class, 1)
	return true
}

// leave takes a waiter out, and reports whether it had its turn already.
func (q *Queue) leave(w *waiter, caller string, standing *Standing) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.Leave(nil, true) {
		return true
	}
	class := standing.class()
	at := q.lanes[class].find(w, caller)
	if at < 0 {
		return false // it gave way
	}
	standing.left = q.outlook(caller, class, at, time.Now())
	q.lanes[class].drop(q.lanes[class].callers[caller], at)
	q.count(class, -1)
	return false
}
