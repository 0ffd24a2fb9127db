package ratelimit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// TestFirstAskDescribesTheLimit: the store learns all that it must know of a limit, and
// is asked for what requests of this kind would need in a second.
func TestFirstAskDescribesTheLimit(t *testing.T) {
	for _, c := range []struct {
		name     string
		gateways int
		lease    func(p *tally.Pool) *ratelimit.Lease
		want     tally.Ask
	}{
		{"bucket", 1, func(p *tally.Pool) *ratelimit.Lease { return ratelimit.NewLease(p, "a", bucketOf(100, 10)) },
			tally.Ask{Name: "a", Capacity: 100, Rate: 10, Number: 1, Want: 5, Need: 1}},
		{"window", 1, func(p *tally.Pool) *ratelimit.Lease {
			return ratelimit.NewLease(p, "a", sharedLimit(ratelimit.SlidingWindow, 100, 10))
		}, tally.Ask{Name: "a", Capacity: 100, Rate: 10, Number: 1, Want: 5, Need: 1, Window: 10 * time.Second}},
		{"short window", 1, func(p *tally.Pool) *ratelimit.Lease {
			return ratelimit.NewLease(p, "a", sharedLimit(ratelimit.SlidingWindow, 10, 100))
		}, tally.Ask{Name: "a", Capacity: 10, Rate: 100, Number: 1, Want: 5, Need: 1, Window: time.Second}},
		{"window of a given length", 1, func(p *tally.Pool) *ratelimit.Lease { return ratelimit.NewWindowLease(p, "b", 1000, time.Minute) },
			tally.Ask{Name: "b", Capacity: 1000, Rate: 1, Number: 1, Want: 5, Need: 1, Window: time.Minute}},
		{"warm-up", 1, func(p *tally.Pool) *ratelimit.Lease { return ratelimit.NewLease(p, "a", warmUpOf(60, 10)) },
			tally.Ask{Name: "a", Capacity: 60, Rate: 10, Number: 1, Want: 5, Need: 1, WarmUp: 20 * time.Second}},
		{"cold warm-up of a small capacity", 1, func(p *tally.Pool) *ratelimit.Lease { return ratelimit.NewLease(p, "a", warmUpOf(12, 10)) },
			tally.Ask{Name: "a", Capacity: 12, Rate: 10, Number: 1, Want: 2, Need: 1, WarmUp: 20 * time.Second}},
		{"a small part of many gateways", 4, func(p *tally.Pool) *ratelimit.Lease { return ratelimit.NewLease(p, "a", bucketOf(16, 10)) },
			tally.Ask{Name: "a", Capacity: 16, Rate: 10, Number: 1, Want: 2, Need: 1}},
		{"one of more gateways than permits", 40, func(p *tally.Pool) *ratelimit.Lease { return ratelimit.NewLease(p, "a", bucketOf(16, 10)) },
			tally.Ask{Name: "a", Capacity: 16, Rate: 10, Number: 1, Want: 1, Need: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone(t, c.gateways, func(t *testing.T, g *lone) {
				l := c.lease(g.pool)
				if done := g.mustTake(l, 1); !done.hasAsked {
					t.Error("the store was not asked")
				}
				if diff := cmp.Diff([]tally.Ask{c.want}, g.store.told().asks); diff != "" {
					t.Error(diff)
				}
				if g.store.told().members != c.gateways {
					t.Errorf("the store was told of %d gateways", g.store.told().members)
				}
			})
		})
	}
}

// TestWantFollowsWhatRequestsCost: a request that costs more makes the gateway take more
// in advance, up to half of the capacity, or what it needs itself.
func TestWantFollowsWhatRequestsCost(t *testing.T) {
	for cost, want := range map[int]int64{1: 5, 3: 15, 9: 45, 10: 50, 11: 50, 50: 50, 60: 60} {
		alone(t, 1, func(t *testing.T, g *lone) {
			g.mustTake(ratelimit.NewLease(g.pool, "a", bucketOf(100, 10)), cost)
			if got := g.store.told().asks[0].Want; got != want {
				t.Errorf("a request that costs %d made the gateway want %d, not %d", cost, got, want)
			}
		})
	}
}

// TestRequestThatNeedsMoreThanIsHereWantsTheRest: permits that are here count for it.
func TestRequestThatNeedsMoreThanIsHereWantsTheRest(t *testing.T) {
	alone(t, 5, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(20, 10)) // 2 in advance
		g.store.grantOnce(4, tally.Grant{})
		g.mustTake(l, 1)
		g.store.grant(tally.Grant{Permits: 2})
		g.mustTake(l, 5)
		if a := g.store.told().asks[0]; a.Want != 2 || a.Outstanding != 3 || a.Returned != 0 {
			t.Errorf("%+v", a)
		}
	})
}

// TestHalfOfTheLeaseIsSpentBeforeMoreIsTaken: requests ask in advance only when less than
// half of what the gateway wants to have is left.
func TestHalfOfTheLeaseIsSpentBeforeMoreIsTaken(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		defer g.run()()
		l := ratelimit.NewLease(g.pool, "a", bucketOf(20, 10)) // 10 in advance
		l.Take(10, time.Now())
		synctest.Wait()
		before := g.store.count()
		for n := range 5 {
			l.Take(1, time.Now())
			synctest.Wait()
			if g.store.count() != before {
				t.Fatalf("asked with %d of 10 left", 9-n)
			}
		}
		l.Take(1, time.Now())
		synctest.Wait()
		if g.store.count() != before+1 {
			t.Errorf("%d exchanges with 4 of 10 left, want 1", g.store.count()-before)
		}
	})
}

// TestNothingIsAskedWhileTheStoreHasNothing: neither by requests that find a permit here
// nor by those that find none, which are refused at once.
func TestNothingIsAskedWhileTheStoreHasNothing(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		defer g.run()()
		l := ratelimit.NewLease(g.pool, "a", bucketOf(20, 1000))
		g.store.grantOnce(3, tally.Grant{Retry: 40 * time.Millisecond})
		l.Take(1, time.Now()) // 3 of 5 are granted
		before := g.store.count()
		for _, want := range []bool{true, true, false, false} {
			if d, _ := l.Take(1, time.Now()); d.Allowed != want {
				t.Errorf("allowed %v, want %v", d.Allowed, want)
			}
		}
		synctest.Wait()
		pass(40*time.Millisecond - 1)
		if d, _ := l.Take(1, time.Now()); d.Allowed || g.store.count() != before {
			t.Errorf("%+v after %d exchanges before the time that the store told", d, g.store.count()-before)
		}
		pass(1)
		if l.Take(1, time.Now()); g.store.count() != before+1 {
			t.Errorf("%d exchanges after the time that the store told, want 1", g.store.count()-before)
		}
	})
}

// TestAllThatWasWantedIsNoDenial: a store that granted all of it may have more.
func TestAllThatWasWantedIsNoDenial(t *testing.T) {
	alone(t, 1, func(_ *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(20, 10))
		g.store.script(func() {
			g.store.answer = func(a tally.Ask) tally.Grant {
				return tally.Grant{Permits: a.Want, Retry: time.Hour}
			}
		})
		g.mustTake(l, 5)
		if done := g.mustTake(l, 12); !done.hasAsked {
			g.t.Error("the store was not asked")
		}
	})
}

// TestPermitsExpire: a permit may be spent for 1.2 s after it was asked for, because the
// store gives it to others after 1.5 s.
func TestPermitsExpire(t *testing.T) {
	for wait, hasAsked := range map[time.Duration]bool{0: false, 1190*time.Millisecond - 1: false, 1190 * time.Millisecond: true} {
		alone(t, 1, func(t *testing.T, g *lone) {
			l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
			g.store.script(func() { g.store.during = func() { pass(10 * time.Millisecond) } })
			g.mustTake(l, 1)
			pass(wait)
			if done := g.mustTake(l, 1); done.hasAsked != hasAsked {
				t.Errorf("%v after the answer the store was asked: %v", wait, done.hasAsked)
			}
			if a := g.store.told().asks[0]; hasAsked && (a.Returned != 0 || a.Outstanding != 0) {
				t.Errorf("permits that the store has taken away are reported: %+v", a)
			}
		})
	}
}

// TestPermitsThatAreNotNeededGoBack: what is more than twice of what is wanted in
// advance, and everything once no request came for a second.
func TestPermitsThatAreNotNeededGoBack(t *testing.T) {
	for _, c := range []struct {
		kept                  int64 // permits that are left after the only request
		after                 time.Duration
		returned, outstanding int64
	}{
		{2, time.Second - 1, 0, 2}, // one request a second: 1 in advance
		{3, time.Second - 1, 2, 1},
		{7, time.Second - 1, 6, 1},
		{7, time.Second, 7, 0},
		{1, time.Second, 1, 0},
		{0, time.Second, 0, 0},
	} {
		alone(t, 1, func(t *testing.T, g *lone) {
			l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
			g.store.grantOnce(c.kept+1, tally.Grant{})
			g.mustTake(l, 1)
			pass(c.after)
			if a := g.report(); a.Returned != c.returned || a.Outstanding != c.outstanding || a.Want != 0 && c.kept > 0 {
				t.Errorf("%d permits, %v after the last request: %+v", c.kept, c.after, a)
			}
		})
	}
}

// TestRemovedLimitGivesBackItsPermits, and is not one of the shared limits any more.
func TestRemovedLimitGivesBackItsPermits(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		ratelimit.NewLease(g.pool, "other", bucketOf(100, 10))
		l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
		g.mustTake(l, 1) // of 5
		if n := g.pool.Stats().Limits; n != 2 {
			t.Errorf("%d limits", n)
		}
		l.Remove()
		l.Remove()
		if n := g.pool.Stats().Limits; n != 1 {
			t.Errorf("%d limits after one was removed", n)
		}
		if a := g.report(); a.Returned != 4 || a.Outstanding != 0 || a.Want != 0 {
			t.Errorf("%+v", a)
		}
		if asks := g.beat(); len(asks) != 0 {
			t.Errorf("a limit without anything to report was reported: %+v", asks)
		}
	})
}

// TestNewSettingsEndADenial: more may be allowed by them. The same settings change nothing.
func TestNewSettingsEndADenial(t *testing.T) {
	for rate, hasAsked := range map[int]bool{10: false, 20: true} {
		alone(t, 1, func(t *testing.T, g *lone) {
			l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
			g.store.grant(tally.Grant{Retry: time.Second})
			g.take(l, 1)
			l.Update(bucketOf(100, rate))
			if done := g.take(l, 1); done.Allowed || done.hasAsked != hasAsked {
				t.Errorf("rate %d: %+v", rate, done)
			}
		})
	}
}

// TestStoreThatLostItsDataTakesThePermits: they were taken from a level that nobody
// remembers.
func TestStoreThatLostItsDataTakesThePermits(t *testing.T) {
	for epoch, outstanding := range map[string]int64{"life": 7 + 2, "next life": 2} {
		alone(t, 1, func(t *testing.T, g *lone) {
			l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
			g.store.grant(tally.Grant{Permits: 8, Granted: 10})
			g.mustTake(l, 1)
			g.store.grant(tally.Grant{Epoch: epoch, Permits: 2, Granted: 12})
			if a := g.report(); a.Epoch != "life" || a.Granted != 10 || a.Number != 2 || a.Outstanding != 7 {
				t.Errorf("%+v", a)
			}
			g.store.grant(tally.Grant{Epoch: epoch})
			if a := g.report(); a.Outstanding != outstanding || a.Epoch != epoch || a.Granted != 12 {
				t.Errorf("%+v in %q", a, epoch)
			}
		})
	}
}

// TestRefusedRequestsLearnWhenToComeBack: when the store expects to have a permit, and at
// least the time between two asks. The denial itself is believed for 0.1 s at most.
func TestRefusedRequestsLearnWhenToComeBack(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		settings        ratelimit.Settings
		retry, told     time.Duration
		believed, reset time.Duration
	}{
		{bucketOf(10, 100), 0, 12500 * time.Microsecond, 12500 * time.Microsecond, 100 * ms}, // an eighth of 0.1 s
		{bucketOf(10, 100), 30 * ms, 30 * ms, 30 * ms, 100 * ms},
		{bucketOf(10, 100), 5 * time.Second, 5 * time.Second, 100 * ms, 100 * ms},
		{bucketOf(10, 1), 0, 100 * ms, 100 * ms, 10 * time.Second},
		{bucketOf(1, 1000), 0, ms, ms, ms},
		{sharedLimit(ratelimit.SlidingWindow, 10, 100), 0, 20 * ms, 20 * ms, time.Second}, // a fiftieth of a second
		{sharedLimit(ratelimit.SlidingWindow, 30, 10), 0, 60 * ms, 60 * ms, 3 * time.Second},
		{sharedLimit(ratelimit.SlidingWindow, 600, 10), 0, 100 * ms, 100 * ms, time.Minute},
	} {
		alone(t, 1, func(t *testing.T, g *lone) {
			l := ratelimit.NewLease(g.pool, "a", c.settings)
			g.store.grant(tally.Grant{Retry: c.retry})
			d := g.take(l, 1).Decision
			want := ratelimit.Decision{Limited: true, Limit: c.settings.Capacity, ResetAfter: c.reset, RetryAfter: c.told}
			if d != want {
				t.Errorf("%+v, want %+v", d, want)
			}
			if peeked := l.Peek(time.Now()); peeked != want {
				t.Errorf("%+v, want %+v", peeked, want)
			}
			pass(c.believed - 1)
			if g.take(l, 1).hasAsked {
				t.Errorf("%v, %v: the store was asked too early", c.settings.Algorithm, c.retry)
			}
			pass(1)
			if !g.take(l, 1).hasAsked {
				t.Errorf("%v, %v: the store was not asked", c.settings.Algorithm, c.retry)
			}
		})
	}
}

// TestDecisionsTellWhatIsLeft: what the store had, what flowed in since, and the permits
// that are here, but no more than the capacity.
func TestDecisionsTellWhatIsLeft(t *testing.T) {
	window := sharedLimit(ratelimit.SlidingWindow, 100, 10)
	for _, c := range []struct {
		settings  ratelimit.Settings
		left      float64
		after     time.Duration
		remaining int
		reset     time.Duration
	}{
		{bucketOf(100, 10), 40, 0, 44, 5600 * time.Millisecond},
		{bucketOf(100, 10), 40, 2 * time.Second, 64, 3600 * time.Millisecond},
		{bucketOf(100, 10), 40, time.Minute, 100, 0},
		{bucketOf(100, 10), -3, 0, 4, 9600 * time.Millisecond},
		{window, 40, 0, 44, 10 * time.Second},
		{window, 40, 2 * time.Second, 44, 10 * time.Second},
	} {
		alone(t, 1, func(t *testing.T, g *lone) {
			l := ratelimit.NewLease(g.pool, "a", c.settings)
			g.store.grant(tally.Grant{Permits: 5, Left: c.left})
			g.mustTake(l, 1)
			pass(c.after)
			want := ratelimit.Decision{Limited: true, Allowed: true, Limit: 100, Remaining: c.remaining, ResetAfter: c.reset}
			if d := l.Peek(time.Now()); d != want {
				t.Errorf("%v, left %v, after %v: %+v, want %+v", c.settings.Algorithm, c.left, c.after, d, want)
			}
		})
	}
}

// TestPeekBeforeTheFirstContact: everything is there, of a warm-up what it begins with.
func TestPeekBeforeTheFirstContact(t *testing.T) {
	for _, c := range []struct {
		settings ratelimit.Settings
		want     ratelimit.Decision
	}{
		{bucketOf(100, 10), ratelimit.Decision{Limited: true, Allowed: true, Limit: 100, Remaining: 100}},
		{warmUpOf(60, 3), ratelimit.Decision{Limited: true, Allowed: true, Limit: 60, Remaining: 20, ResetAfter: 40 * time.Second}},
		{warmUpOf(2, 3), ratelimit.Decision{Limited: true, Allowed: true, Limit: 2, Remaining: 1, ResetAfter: time.Second}},
	} {
		alone(t, 1, func(t *testing.T, g *lone) {
			if d := ratelimit.NewLease(g.pool, "a", c.settings).Peek(time.Now()); d != c.want {
				t.Errorf("%+v, want %+v", d, c.want)
			}
		})
	}
}

// TestPeekForetellsADenial: a request would be refused only if there is no permit here
// and the store has said that it has none either.
func TestPeekForetellsADenial(t *testing.T) {
	for _, c := range []struct {
		kept    int64
		left    float64
		after   time.Duration
		allowed bool
	}{
		{0, 0, 0, false},
		{0, 0.9, 0, false},
		{0, 1, 0, true},
		{1, 0, 0, true},
		{0, 0, 50 * time.Millisecond, true},
	} {
		alone(t, 1, func(t *testing.T, g *lone) {
			l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 1000))
			g.store.grantOnce(c.kept+1, tally.Grant{Left: c.left, Retry: 50 * time.Millisecond})
			if !g.take(l, 1).Allowed {
				t.Fatal("refused")
			}
			pass(c.after)
			if d := l.Peek(time.Now()); d.Allowed != c.allowed || !c.allowed && d.Remaining != 0 {
				t.Errorf("%+v: %+v", c, d)
			}
		})
	}
}
