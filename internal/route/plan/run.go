// Package plan decides which calls answer a request: which instance gets which part of it,
// when each call starts, and which of them win. Run carries out the calls that are under way
// at the same time.
//
// A plan is one of four. An ordinary request is one call, and the next one starts after a
// failure. A hedged request has a second call that starts after a time, and the first answer
// wins. A request that is split has one call for each piece, and all must win. An answer that
// broke off is resumed by a call that starts after the break and is appended to it.
package plan

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/see/logs"
)

// Wins says which calls make up the answer.
type Wins uint8

const (
	// First takes the call that answers first. The others are given up.
	First Wins = iota
	// All takes every call. If one fails, the others are given up.
	All
)

// GivenUp is the cause that ends the context of a call when it is given up. Its text is for
// people.
type GivenUp say.Code

func (g GivenUp) Error() string { return say.Text(say.Code(g)) }

// Branch is one of the calls that are under way at the same time. A call that is made again at
// another instance after a failure belongs to the same branch.
type Branch struct {
	// After is the time after which the call starts; 0 starts it at once.
	After time.Duration
	// Due decides whether a later call starts when its time has come. A time above 0 asks for
	// another decision after it. Due must not wait.
	Due func() (starts bool, again time.Duration)
	// Make makes the call, and reports whether it was answered.
	Make func(ctx context.Context) bool

	// Answered is set when Run has returned.
	Answered bool

	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	isEnded bool
}

// IsGivenUp reports whether the call had no answer when another branch decided.
func (b *Branch) IsGivenUp() bool { return !b.Answered && WhyGivenUp(b.ctx) != "" }

// WhyGivenUp returns why a call with this context is given up, empty if it is not.
func WhyGivenUp(ctx context.Context) (why GivenUp) {
	errors.As(context.Cause(ctx), &why)
	return why
}

// Context returns the context of the call.
func (b *Branch) Context() context.Context { return b.ctx }

// Close ends the context of the call. Every branch is closed after its answer was read.
func (b *Branch) Close() { b.cancel(nil) }

// group is the branches of one Run.
type group struct {
	wins     Wins
	why      GivenUp
	branches []*Branch
	running  sync.WaitGroup

	mu sync.Mutex
	// isOver says that no other call starts, and isDecided that the others are given up.
	isOver, isDecided bool
	panicked          *logs.Panic
}

// Run makes the calls of all branches, the first one on this goroutine, and returns when
// none is under way. Later calls start only while the first one is under way. As soon as one
// call decides, the others are given up for the reason that is given. A panic of any branch
// is raised when all have ended.
func Run(ctx context.Context, wins Wins, why GivenUp, branches ...*Branch) {
	g := &group{wins: wins, why: why, branches: branches}
	for _, b := range branches {
		b.ctx, b.cancel = context.WithCancelCause(ctx)
	}
	for _, b := range branches[1:] {
		g.start(b)
	}
	g.call(branches[0])
	g.mu.Lock()
	g.isOver = true
	g.mu.Unlock()
	for _, b := range branches {
		if b.timer != nil {
			b.timer.Stop()
		}
	}
	g.running.Wait()
	g.panicked.Raise()
}

// start starts a call on a goroutine of its own, now or later.
func (g *group) start(b *Branch) {
	if b.After == 0 {
		g.running.Go(func() { g.call(b) })
		return
	}
	g.mu.Lock() // the timer may fire before it is set
	defer g.mu.Unlock()
	b.timer = time.AfterFunc(b.After, func() {
		if g.isDue(b) {
			defer g.running.Done()
			g.call(b)
		}
	})
}

// isDue reports whether a later call starts now. If it does, Run waits for it.
func (g *group) isDue(b *Branch) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOver {
		return false
	}
	starts, again := b.Due()
	switch {
	case starts:
		g.running.Add(1)
	case again > 0:
		b.timer.Reset(again)
	}
	return starts
}

// call makes the call of a branch. The first one that decides gives up all others.
func (g *group) call(b *Branch) {
	defer func() {
		panicked := logs.Caught(recover())
		g.mu.Lock()
		defer g.mu.Unlock()
		b.isEnded = true
		if g.panicked == nil {
			g.panicked = panicked // Run raises it on the goroutine of the request
		}
		if g.isDecided || panicked == nil && b.Answered != (g.wins == First) {
			return
		}
		g.isOver, g.isDecided = true, true
		for _, other := range g.branches {
			if !other.isEnded {
				other.cancel(g.why)
			}
		}
	}()
	b.Answered = b.Make(b.ctx)
}
