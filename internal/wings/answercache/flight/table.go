// Package flight lets equal requests that are in flight at the same time share one call of
// a backend. The first one makes the call; requests that come while it lasts follow it, and
// get its answer from the beginning, each at its own pace. The call belongs to all of them:
// it goes on while one of them is there, and ends with the last.
package flight

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/wings/answercache"
)

// Limits bound the part of an answer that is remembered for followers.
type Limits struct {
	// Answer is how much of one answer is remembered. Nobody joins an answer that became
	// larger, and a follower that is further behind does not get the rest.
	Answer int
	// All is how much of all answers together is remembered.
	All int64
}

// Table is the calls that others may follow.
type Table struct {
	limits atomic.Pointer[Limits]
	held   atomic.Int64 // bytes of the answers that are remembered
	// following counts the followers of all flights.
	following atomic.Int64

	mu      sync.Mutex // locked before the mutex of a flight
	flights map[answercache.Key]*Flight
}

// NewTable returns an empty table.
func NewTable(limits Limits) *Table {
	t := &Table{flights: map[answercache.Key]*Flight{}}
	t.Set(limits)
	return t
}

// Set changes the limits, for flights that begin from now on.
func (t *Table) Set(limits Limits) { t.limits.Store(&limits) }

// Status counts the flights and their requests.
type Status struct {
	Flights   int   // calls that others may follow
	Followers int   // requests that follow one
	Held      int64 // bytes of answers that are remembered
}

// Status returns the present counts.
func (t *Table) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return Status{Flights: len(t.flights), Followers: int(t.following.Load()), Held: t.held.Load()}
}

// Board returns the flight for a key, and reports whether the request is its first. The
// first must call Lead; all others must call Follow. The context and the class are those of
// the request. A request that is too urgent to join a flight begins one that later requests
// join in its place.
func (t *Table) Board(ctx context.Context, key answercache.Key, class schema.Class) (f *Flight, isFirst bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f = t.flights[key]; f != nil && f.join(class) {
		return f, false
	}
	f = &Flight{table: t, key: key, class: class, limits: *t.limits.Load(), aboard: waiting.Party{Size: 1}, window: -1,
		contentAt: -1, completeAt: -1}
	f.moved.L = &f.mu
	f.ctx, f.aboard.Cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	f.forget = context.AfterFunc(ctx, func() { f.firstEnds(context.Cause(ctx)) })
	t.flights[key] = f
	return f, true
}

// remove makes nobody find a flight any more.
func (t *Table) remove(f *Flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flights[f.key] == f {
		delete(t.flights, f.key)
	}
}
