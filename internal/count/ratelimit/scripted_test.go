package ratelimit_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// scripted is a central store that answers as a test says, and remembers what it was
// told. The zero value grants everything that is wanted.
type scripted struct {
	mu       sync.Mutex
	answer   func(tally.Ask) tally.Grant // nil grants what is wanted
	during   func()                      // happens while an exchange is under way
	err      error                       // of every call
	presence tally.Presence

	heard heard
}

// heard is what a store was told and asked.
type heard struct {
	asks                    []tally.Ask // of the last exchange
	members                 int         // that it was told of
	opens, exchanges, pings int
	leaves, closes          int
	returned, granted       int64 // in all exchanges
}

var errScripted = errors.New("the store fails")

func (s *scripted) Exchange(_ context.Context, members int, asks []tally.Ask) (tally.Presence, []tally.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard.exchanges++
	s.heard.asks, s.heard.members = slices.Clone(asks), members
	if during := s.during; during != nil {
		s.during = nil
		during()
	}
	if s.err != nil {
		return tally.Presence{}, nil, s.err
	}
	var grants []tally.Grant
	for _, a := range asks {
		g := tally.Grant{Permits: a.Want, Left: float64(a.Capacity)}
		if s.answer != nil {
			g = s.answer(a)
		}
		if g.Capacity == 0 {
			g.Capacity, g.Rate = float64(a.Capacity), float64(a.Rate)
		}
		if g.Epoch == "" {
			g.Epoch = "life"
		}
		s.heard.returned += a.Returned
		s.heard.granted += g.Permits
		grants = append(grants, g)
	}
	return s.presence, grants, nil
}

func (s *scripted) Tell(context.Context, []tally.Sheet, bool) ([]map[string]string, error) {
	return nil, nil
}

func (s *scripted) IsSpread() bool { return false }

func (s *scripted) Ping(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard.pings++
	return s.err
}

func (s *scripted) Leave(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard.leaves++
	return s.err
}

func (s *scripted) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard.closes++
}

// script changes what the store does.
func (s *scripted) script(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// grant makes the store grant the same with each exchange.
func (s *scripted) grant(g tally.Grant) {
	s.script(func() { s.answer = func(tally.Ask) tally.Grant { return g } })
}

// grantOnce makes the store grant some permits with the next exchange and none later.
func (s *scripted) grantOnce(permits int64, g tally.Grant) {
	s.script(func() {
		s.answer = func(tally.Ask) tally.Grant {
			g.Permits, permits = permits, 0
			return g
		}
	})
}

// fail makes the store fail or answer again.
func (s *scripted) fail(err error) { s.script(func() { s.err = err }) }

// told returns what the store was told so far.
func (s *scripted) told() heard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard
}

// count returns how many exchanges there were.
func (s *scripted) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard.exchanges
}

// lone is a gateway with a scripted store, in a bubble of synctest. Nothing is exchanged
// unless the test says so with beat, or lets the pool run.
type lone struct {
	t     *testing.T
	store *scripted
	pool  *tally.Pool
	ctx   context.Context
}

// alone runs a test with a gateway that knows of some others.
func alone(t *testing.T, gateways int, test func(t *testing.T, g *lone)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &lone{t: t, store: &scripted{}, ctx: t.Context()}
		g.pool = tally.NewPool(tally.Options{
			Open: func(context.Context) (tally.Store, error) {
				g.store.script(func() { g.store.heard.opens++ })
				return g.store, nil
			},
			Timeout: storeTimeout, Log: slog.New(slog.DiscardHandler),
			Members: func() int { return gateways },
		})
		test(t, g)
	})
}

// beat makes one exchange of everything that there is to report, and returns what the
// store was asked.
func (g *lone) beat() []tally.Ask {
	g.pool.Begin(g.ctx)
	return g.store.told().asks
}

// report is beat where one limit has something to report, or has it if the store loses its
// data.
func (g *lone) report() tally.Ask {
	g.t.Helper()
	asks := g.beat()
	for lives := 0; len(asks) == 0 && lives < 3; lives++ {
		g.store.script(func() { g.store.presence.Epoch += "'" })
		asks = g.beat()
	}
	if len(asks) != 1 {
		g.t.Fatalf("%d limits were reported, want 1", len(asks))
	}
	return asks[0]
}

// run lets the pool run until the returned function is called.
func (g *lone) run() (stop func()) {
	ctx, cancel := context.WithCancel(g.ctx)
	done := make(chan struct{})
	go func() {
		g.pool.Run(ctx)
		close(done)
	}()
	return func() {
		cancel()
		<-done
	}
}

// took is the outcome of a request.
type took struct {
	ratelimit.Decision
	receipt  ratelimit.Receipt
	hasAsked bool // the store was asked for it
}

// take takes permits, and exchanges if the request waits for that.
func (g *lone) take(l *ratelimit.Lease, n int) took {
	answer := make(chan took, 1)
	go func() {
		d, receipt := l.Take(n, time.Now())
		answer <- took{Decision: d, receipt: receipt}
	}()
	synctest.Wait()
	select {
	case done := <-answer:
		return done
	default:
		g.beat()
		done := <-answer
		done.hasAsked = true
		return done
	}
}

// mustTake is take for a request that has to be allowed.
func (g *lone) mustTake(l *ratelimit.Lease, n int) took {
	g.t.Helper()
	done := g.take(l, n)
	if !done.Allowed {
		g.t.Fatalf("a request for %d was refused: %+v", n, done.Decision)
	}
	return done
}

// kept leaves a lease with so many permits after a request that took one, of which the
// store has heard.
func (g *lone) kept(l *ratelimit.Lease, permits int64) {
	g.t.Helper()
	g.store.grantOnce(permits+1, tally.Grant{})
	g.mustTake(l, 1)
	g.report()
}

// burst takes one by one what can be taken without asking, in any test fewer than 100.
func (g *lone) burst(l *ratelimit.Lease) (n int) {
	for n < 100 && l.Peek(time.Now()).Allowed {
		d, _ := l.Take(1, time.Now())
		if !d.Allowed {
			return n
		}
		n++
	}
	return n
}

// pass lets time pass, and waits until everybody who woke meanwhile waits again.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func bucketOf(capacity, rate int) ratelimit.Settings {
	return sharedLimit(ratelimit.TokenBucket, capacity, rate)
}

func warmUpOf(capacity, rate int) ratelimit.Settings {
	s := sharedLimit(ratelimit.WarmUp, capacity, rate)
	s.WarmUpPeriod = schema.Duration(20 * time.Second)
	return s
}
