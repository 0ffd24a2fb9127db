package web

import (
	"context"
	"strings"
	"sync/atomic"
)

// inFlight counts the requests that a shutdown waits for: those that were there
// when it began, and those that came after.
type inFlight struct {
	early, late atomic.Int64
	draining    atomic.Bool
	idle        chan struct{} // gets a token when the last one ends during a drain
}

func newInFlight() *inFlight { return &inFlight{idle: make(chan struct{}, 1)} }

// counts reports whether a request is worth waiting for: probes of a gateway
// that drains are not, or it would never end.
func counts(path string) bool { return !strings.HasPrefix(path, "/actuator") }

// enter counts a request and returns the count in which it is.
func (f *inFlight) enter() *atomic.Int64 {
	f.early.Add(1)
	if !f.draining.Load() {
		return &f.early
	}
	f.late.Add(1)
	f.leave(&f.early)
	return &f.late
}

func (f *inFlight) leave(count *atomic.Int64) {
	if count.Add(-1) == 0 && f.draining.Load() {
		select {
		case f.idle <- struct{}{}:
		default:
		}
	}
}

// wait returns when a count is at zero, or the context ends.
func (f *inFlight) wait(ctx context.Context, count *atomic.Int64) error {
	for count.Load() > 0 {
		select {
		case <-f.idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Drain waits until no request is running, or until the context ends. Every
// reply tells the client from now on that its connection ends, so that it goes
// elsewhere. When the requests that ran at the beginning have ended, shut must
// close the listener: a gateway that still gets requests would never finish, and
// would cut off the last of them.
func (s *Shell) Drain(ctx context.Context, shut func()) error {
	s.running.draining.Store(true)
	if err := s.running.wait(ctx, &s.running.early); err != nil {
		return err
	}
	shut()
	return s.running.wait(ctx, &s.running.late)
}
