package ratelimit_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// TestPoolWithoutLimitsLeavesTheStoreAlone: there is nothing to share.
func TestPoolWithoutLimitsLeavesTheStoreAlone(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		stop := g.run()
		g.beat()
		pass(time.Minute)
		stop()
		if g.store.told().opens != 0 || g.store.told().exchanges != 0 || g.store.told().closes != 0 {
			t.Errorf("%d opened, %d exchanges, %d closed", g.store.told().opens, g.store.told().exchanges, g.store.told().closes)
		}
	})
}

// TestStoreHearsOfTheGatewayTwiceASecond, so that it does not count as cut off, even if
// nobody asks, and four times while the gateway has permits.
func TestStoreHearsOfTheGatewayTwiceASecond(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
		defer g.run()()
		pass(10*time.Second + time.Millisecond)
		if n := g.store.count(); n != 20 || g.store.told().opens != 1 {
			t.Errorf("%d exchanges in 10 s, by %d connections", n, g.store.told().opens)
		}
		if n := g.pool.Stats().Exchanges; n != 20 {
			t.Errorf("%d exchanges are counted", n)
		}
		receipt := g.mustTake(l, 1).receipt
		receipt.Hold()
		before := g.store.count()
		pass(10 * time.Second)
		if n := g.store.count() - before; n != 40 {
			t.Errorf("%d exchanges in 10 s with permits", n)
		}
	})
}

// TestPoolWhoseLimitsAreGoneLeaves, and comes back with the next one.
func TestPoolWhoseLimitsAreGoneLeaves(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		defer g.run()()
		l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
		l.Take(1, time.Now())
		l.Remove()
		pass(time.Second)
		if g.store.told().leaves != 1 || g.store.told().closes != 1 {
			t.Errorf("left %d times, closed %d times", g.store.told().leaves, g.store.told().closes)
		}
		if len(g.store.told().asks) != 1 || g.store.told().asks[0].Returned != 4 || g.store.told().asks[0].Outstanding != 0 || g.store.told().asks[0].Want != 0 {
			t.Errorf("%+v", g.store.told().asks)
		}
		before := g.store.count()
		pass(time.Second)
		if n := g.store.count(); n != before {
			t.Errorf("%d exchanges after it left", n-before)
		}
		ratelimit.NewLease(g.pool, "b", bucketOf(100, 10))
		pass(time.Second)
		if n := g.store.count(); g.store.told().opens != 2 || n == before {
			t.Errorf("%d connections, %d exchanges after it came back", g.store.told().opens, n-before)
		}
	})
}

// TestGatewayThatStopsGivesEverythingBack, and says so if the store hears it.
func TestGatewayThatStopsGivesEverythingBack(t *testing.T) {
	for _, c := range []struct {
		name              string
		before, after     error // of the store, when the gateway stops
		exchanges, leaves int
	}{
		{"in order", nil, nil, 1, 1},
		{"store fails", nil, errScripted, 1, 0},
		{"store away", errScripted, errScripted, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone(t, 1, func(t *testing.T, g *lone) {
				l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
				g.mustTake(l, 1)
				if c.before != nil {
					g.cutOff()
				}
				stop := g.run()
				synctest.Wait()
				g.store.fail(c.after)
				before := g.store.count()
				stop()
				if n := g.store.count() - before; n != c.exchanges || g.store.told().leaves != c.leaves || g.store.told().closes != 1 {
					t.Errorf("%d exchanges, left %d times, closed %d times", n, g.store.told().leaves, g.store.told().closes)
				}
				if a := g.store.told().asks[0]; c.exchanges > 0 && (a.Returned != 4 || a.Outstanding != 0 || a.Want != 0) {
					t.Errorf("%+v", a)
				}
				if f := g.pool.Stats().Failure; (f != nil) != (c.before != nil) {
					t.Errorf("%+v", f)
				}
			})
		})
	}
}

// TestStoreThatIsAwayIsProbedWithTheBeats, not by requests.
func TestStoreThatIsAwayIsProbedWithTheBeats(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
		defer g.run()()
		g.store.fail(errScripted)
		for range 20 {
			l.Take(1, time.Now()) // the first one finds out that the store fails
			pass(10 * time.Millisecond)
		}
		if n := g.store.count(); n != 1 || g.store.told().pings != 0 {
			t.Errorf("%d exchanges, %d probes in 0.2 s", n, g.store.told().pings)
		}
		pass(time.Second)
		if n := g.store.count(); n != 1 || g.store.told().pings != 4 {
			t.Errorf("%d exchanges, %d probes in 1.2 s", n, g.store.told().pings)
		}
		if s := g.pool.Stats(); s.Failure == nil || s.Failures != 5 || s.Divided != 20 {
			t.Errorf("%+v", s)
		}
		g.store.fail(nil)
		pass(250 * time.Millisecond)
		if s := g.pool.Stats(); s.Failure != nil || g.store.count() != 2 {
			t.Errorf("%+v after %d exchanges", s, g.store.count())
		}
	})
}

// TestOutageIsLoggedOnce, and its end.
func TestOutageIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := &scripted{presence: tally.Presence{Members: 3}}
		pool := tally.NewPool(tally.Options{
			Open:    func(context.Context) (tally.Store, error) { return store, nil },
			Timeout: storeTimeout, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		ratelimit.NewLease(pool, "a", bucketOf(100, 10))
		pool.Begin(t.Context())
		log.Reset() // it says how many gateways there are
		for _, err := range []error{nil, errScripted, errScripted, nil, nil} {
			store.fail(err)
			pool.Begin(t.Context())
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], "cannot be reached") || !strings.Contains(lines[0], "gateways=3") || !strings.Contains(lines[1], "exact again") {
			t.Errorf("%s", log.String())
		}
	})
}

// TestStoreThatCannotBeOpened: requests are decided by the share, and the store is tried
// again with the next beat.
func TestStoreThatCannotBeOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, opens := &scripted{}, 0
		pool := tally.NewPool(tally.Options{
			Open: func(ctx context.Context) (tally.Store, error) {
				if opens++; opens == 1 {
					<-ctx.Done() // within a second
					return nil, ctx.Err()
				}
				return store, nil
			},
			Timeout: storeTimeout, Log: slog.New(slog.DiscardHandler),
		})
		l := ratelimit.NewLease(pool, "a", bucketOf(100, 10))
		began := time.Now()
		pool.Begin(t.Context())
		if took := time.Since(began); took != time.Second || pool.Stats().Failure == nil {
			t.Errorf("%v, %+v", took, pool.Stats())
		}
		if d, _ := l.Take(1, time.Now()); d.Allowed || d.RetryAfter == 0 {
			t.Errorf("%+v", d)
		}
		pool.Begin(t.Context())
		if s := pool.Stats(); s.Failure != nil || opens != 2 || store.told().exchanges != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestStoppingIsNoFailure: an exchange that ends because the gateway stops says nothing
// about the store.
func TestStoppingIsNoFailure(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
		ctx, cancel := context.WithCancel(t.Context())
		g.ctx = ctx
		g.store.script(func() {
			g.store.err = errScripted
			g.store.during = cancel
		})
		g.beat()
		if s := g.pool.Stats(); s.Failure != nil || s.Failures != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestGatewaysThatAreKnown: those that the store knows or that are known in another way,
// whichever are more, and at least this one.
func TestGatewaysThatAreKnown(t *testing.T) {
	for _, c := range []struct{ store, elsewhere, want int }{{0, 0, 1}, {3, 0, 3}, {3, 5, 5}, {5, 3, 5}, {1, 1, 1}} {
		alone(t, c.elsewhere, func(t *testing.T, g *lone) {
			g.store.presence = tally.Presence{Members: c.store}
			ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
			g.beat()
			if n := g.pool.Stats().Gateways; n != c.want {
				t.Errorf("%d gateways, want %d of %+v", n, c.want, c)
			}
		})
	}
}

// TestRequestsDoNotWaitLongerThanTheTimeout, also if nobody exchanges.
func TestRequestsDoNotWaitLongerThanTheTimeout(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
		began := time.Now()
		d, _ := l.Take(1, began)
		if took := time.Since(began); d.Allowed || took != storeTimeout+time.Millisecond {
			t.Errorf("%+v after %v", d, took)
		}
	})
}
