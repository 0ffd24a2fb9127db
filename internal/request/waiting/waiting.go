// Package waiting is how requests wait for something that others do: for a change, or for work
// that is done once for all of them. It has the one rule for a client that leaves: the others do
// not notice, anything given to the client at the same moment is given back, and work that
// nobody waits for is cancelled.
//
// It also has the two ways to wait for a time: Pause and Every.
//
// Package queue builds turns on it, package residency the loading of models, and package flight
// calls that equal requests share.
package waiting

import (
	"context"
	"time"
)

// Signal lets goroutines look again when something has changed. The lock that guards the change
// guards the Signal. The zero value is ready.
type Signal struct{ changed chan struct{} }

// Changed returns a channel that the next Tell closes.
func (s *Signal) Changed() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// Tell says that something has changed.
func (s *Signal) Tell() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// Party is the requests that wait for the same work. A lock of its owner guards all of it but
// Await.
type Party struct {
	// Size is how many wait.
	Size int
	// Cancel cancels the work, and may be nil. The party ends when its owner says so.
	Cancel context.CancelCauseFunc
	ended  chan struct{} // nil while nobody has joined
	err    error         // how the work ended
}

// Join adds one who waits. Await follows, and Leave where that fails.
func (p *Party) Join() {
	p.Size++
	if p.ended == nil {
		p.ended = make(chan struct{})
	}
}

// End says that the work has ended, well or with an error. It is called once.
func (p *Party) End(err error) {
	p.err = err
	close(p.ended)
}

// Await waits until the work has ended, and returns how. Where the context ends before, it
// returns the cause of that, and late where the time is over.
func (p *Party) Await(ctx context.Context, over <-chan time.Time, late error) error {
	select {
	case <-p.ended:
		return p.err
	case <-over:
		return late
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Leave says that a waiter does not wait any more, after its Await returned an error. The
// last waiter cancels the work, unless that goes on for later ones. Leave returns true where
// the work has ended well at the same moment: then the leaving waiter gives its result back.
func (p *Party) Leave(why error, goesOn bool) (isServed bool) {
	select {
	case <-p.ended:
		return p.err == nil
	default:
	}
	if p.Size--; p.Size == 0 && !goesOn && p.Cancel != nil {
		p.Cancel(why)
	}
	return false
}
