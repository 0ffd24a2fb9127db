package web

import (
	"context"
	"strings"
	"sync/atomic"
)

// inFlight counts the requests that a shutdown waits for.
type inFlight struct {
	count    atomic.Int64
	draining atomic.Bool
	idle     chan struct{} // gets a token when the last one ends during a drain
}

func newInFlight() *inFlight { return &inFlight{idle: make(chan struct{}, 1)} }

// counts reports whether a request is worth waiting for: probes of a gateway
// that drains are not, or it would never end.
func counts(path string) bool { return !strings.HasPrefix(path, "/actuator") }

func (f *inFlight) enter() { f.count.Add(1) }

func (f *inFlight) leave() {
	if f.count.Add(-1) == 0 && f.draining.Load() {
		select {
		case f.idle <- struct{}{}:
		default:
		}
	}
}

// Drain waits until no request is running, or until the context ends.
func (s *Shell) Drain(ctx context.Context) error {
	s.running.draining.Store(true)
	for s.running.count.Load() > 0 {
		select {
		case <-s.running.idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
