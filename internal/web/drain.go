package web

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
)

// ErrStopping is the cause with which the contexts of requests end that still run when
// the time for a shutdown is over.
var ErrStopping = errors.New("the gateway is shutting down")

// inFlight counts the requests that a shutdown waits for: those that began before the
// shutdown (early) and those that began after it (late).
type inFlight struct {
	early, late atomic.Int64
	draining    atomic.Bool
	shut        atomic.Bool   // the early ones have ended, and no connection is accepted
	idle        chan struct{} // is sent to when a count reaches zero during a drain
}

func newInFlight() *inFlight { return &inFlight{idle: make(chan struct{}, 1)} }

// isProbe reports whether requests to a path come from programs that watch the gateway
// and keep asking: a shutdown does not wait for them, and they are not worth a line in the
// log.
func isProbe(path string) bool { return strings.HasPrefix(path, "/actuator") }

// enter counts a request and returns the counter that it was added to, for leave.
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

// wait waits until a count is zero, or until the context ends.
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

// Drain waits until no request is running, or until the context ends. From now on every
// reply has "Connection: close", so that clients connect to another gateway. Drain
// calls shut, which must close the listener, when the requests that ran at the
// beginning have ended; without it new requests would keep the gateway from stopping.
// Connections of HTTP/2 are told to end from then on only (GOAWAY), because some clients
// give up every request on a connection that is told so.
func (s *Shell) Drain(ctx context.Context, shut func()) error {
	s.running.draining.Store(true)
	if err := s.running.wait(ctx, &s.running.early); err != nil {
		return err
	}
	s.running.shut.Store(true)
	shut()
	return s.running.wait(ctx, &s.running.late)
}
