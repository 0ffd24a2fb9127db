package ratelimit_test

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// shareAfter is when the share of a gateway begins to grow after its last exchange.
const shareAfter = 1250 * time.Millisecond

// cutOff makes the store fail, and the gateway notice it.
func (g *lone) cutOff() {
	g.store.fail(errScripted)
	g.beat()
	if g.pool.Stats().Failure == nil {
		g.t.Fatal("the outage was not noticed")
	}
}

// TestShareOfABucket: a gateway of three that is cut off spends the permits that it has,
// and 1.25 s after the last exchange, which was not answered, a third of the rate, up to a third of the capacity.
func TestShareOfABucket(t *testing.T) {
	alone(t, 3, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(60, 6))
		g.store.grantOnce(5, tally.Grant{})
		g.mustTake(l, 1)
		pass(100 * time.Millisecond)
		g.cutOff()
		want := ratelimit.Decision{Limited: true, Allowed: true, Limit: 60, Remaining: 4, ResetAfter: shareAfter + 8*time.Second + 1}
		if d := l.Peek(time.Now()); d != want {
			t.Errorf("%+v, want %+v", d, want)
		}
		if n := g.burst(l); n != 4 {
			t.Errorf("%d in the beginning, want 4", n)
		}
		pass(100 * time.Millisecond)
		d := g.take(l, 1).Decision
		want = ratelimit.Decision{Limited: true, Limit: 60, ResetAfter: shareAfter - 100*time.Millisecond + 10*time.Second + 1,
			RetryAfter: shareAfter - 100*time.Millisecond + time.Second/2 + 1}
		if d != want {
			t.Errorf("%+v, want %+v", d, want)
		}
		if peeked := l.Peek(time.Now()); peeked != want {
			t.Errorf("%+v, want %+v", peeked, want)
		}
		pass(d.RetryAfter)
		if n := g.burst(l); n != 1 {
			t.Errorf("%d after the time to retry, want 1", n)
		}
		pass(10*time.Second + 1)
		if n := g.burst(l); n != 20 {
			t.Errorf("%d after 10 s at 2 a second, want 20", n)
		}
		pass(time.Hour)
		want = ratelimit.Decision{Limited: true, Allowed: true, Limit: 60, Remaining: 20}
		if d := l.Peek(time.Now()); d != want {
			t.Errorf("%+v of a full share, want %+v", d, want)
		}
		if n := g.burst(l); n != 20 {
			t.Errorf("%d after an hour, want a third of the capacity", n)
		}
		if n := g.pool.Stats().Divided; n < 45 {
			t.Errorf("%d requests are counted as decided without the store", n)
		}
	})
}

// TestShareTellsWhenToRetry: a request is allowed after exactly this time and not before,
// whatever it costs and however much others have cost beyond what they took.
func TestShareTellsWhenToRetry(t *testing.T) {
	for _, debt := range []int{0, 3, 30} {
		for _, cost := range []int{1, 7} {
			alone(t, 3, func(t *testing.T, g *lone) {
				l := ratelimit.NewLease(g.pool, "a", bucketOf(60, 6))
				g.kept(l, 0)
				l.Settle(debt, time.Now())
				g.cutOff()
				l.Settle(debt, time.Now())
				for n := range 3 {
					refused := g.take(l, cost)
					if n == 0 && refused.RetryAfter < time.Duration(debt)*time.Second {
						t.Errorf("debt 2×%d at 2 a second, cost %d: %v", debt, cost, refused.RetryAfter)
					}
					pass(refused.RetryAfter - time.Millisecond)
					if g.take(l, cost).Allowed {
						t.Errorf("debt %d, cost %d: allowed before %v", debt, cost, refused.RetryAfter)
					}
					pass(time.Millisecond)
					g.mustTake(l, cost)
				}
			})
		}
	}
}

// TestShareWithoutAnyContact begins empty, 1.25 s after the first request.
func TestShareWithoutAnyContact(t *testing.T) {
	alone(t, 3, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(60, 6))
		g.cutOff()
		pass(time.Hour)
		if d := g.take(l, 1); d.Allowed || d.RetryAfter != shareAfter+time.Second/2+1 {
			t.Errorf("%+v", d.Decision)
		}
		pass(shareAfter + 2*time.Second)
		if n := g.burst(l); n != 4 {
			t.Errorf("%d after two seconds at 2 a second, want 4", n)
		}
	})
}

// TestSmallestShareIsOnePermit, if there are more gateways than permits.
func TestSmallestShareIsOnePermit(t *testing.T) {
	alone(t, 8, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(4, 8))
		window := ratelimit.NewWindowLease(g.pool, "b", 4, time.Second)
		g.cutOff()
		g.take(l, 1)
		g.take(window, 1)
		pass(time.Hour)
		if n := g.burst(l); n != 1 {
			t.Errorf("%d of a bucket", n)
		}
		if n := g.burst(window); n != 1 {
			t.Errorf("%d of a window", n)
		}
		pass(time.Second + 1)
		if n := g.burst(l); n != 1 {
			t.Errorf("%d of a bucket, a second later", n)
		}
	})
}

// TestExpiredPermitsAreNotPartOfTheShare: the store has given them to others.
func TestExpiredPermitsAreNotPartOfTheShare(t *testing.T) {
	for wait, want := range map[time.Duration]int{1200*time.Millisecond - 1: 10, 1200 * time.Millisecond: 0} {
		alone(t, 3, func(t *testing.T, g *lone) {
			l := ratelimit.NewLease(g.pool, "a", bucketOf(600, 6))
			g.store.grantOnce(30, tally.Grant{})
			g.mustTake(l, 10)
			pass(900 * time.Millisecond)
			g.mustTake(l, 10) // so that the rest does not go back
			pass(200 * time.Millisecond)
			g.cutOff()
			pass(wait - 1100*time.Millisecond)
			if n := g.burst(l); n != want {
				t.Errorf("%v after the last contact %d can be spent, want %d", wait, n, want)
			}
		})
	}
}

// TestShareIsGivenBackWhenTheStoreAnswers: at most as much as a lease is kept, and what
// is missing is charged.
func TestShareIsGivenBackWhenTheStoreAnswers(t *testing.T) {
	for _, c := range []struct {
		after       time.Duration // since the share began to grow
		more        int
		accountable int64 // permits that are returned or still here
	}{
		{0, 0, 0},
		{time.Second / 4, 0, 0}, // half a permit
		{2 * time.Second, 0, 4},
		{5 * time.Second, 0, 10},
		{10 * time.Second, 0, 10},
		{2 * time.Second, 7, -3},
	} {
		alone(t, 3, func(t *testing.T, g *lone) {
			l := ratelimit.NewLease(g.pool, "a", bucketOf(60, 6))
			g.kept(l, 0)
			g.cutOff()
			l.Settle(1, time.Now()) // begins the share
			l.Settle(-1, time.Now())
			pass(shareAfter + c.after)
			l.Settle(c.more, time.Now())
			g.store.fail(nil)
			g.store.grant(tally.Grant{})
			if a := g.report(); a.Returned+a.Outstanding != c.accountable {
				t.Errorf("%v: %+v, want %d in sum", c.after, a, c.accountable)
			}
			if f := g.pool.Stats().Failure; f != nil {
				t.Errorf("%+v", f)
			}
		})
	}
}

// TestSlowExchangeDoesNotLetTheShareGrowTwice: what a gateway was due until the store
// answered is not due again if the store fails at once.
func TestSlowExchangeDoesNotLetTheShareGrowTwice(t *testing.T) {
	alone(t, 3, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(60, 6))
		g.kept(l, 0)
		g.cutOff()
		pass(shareAfter)
		g.take(l, 1)
		began, taken := time.Now(), 0
		g.store.grant(tally.Grant{})
		g.store.script(func() {
			g.store.err = nil
			g.store.during = func() {
				pass(4 * time.Second)
				taken += g.burst(l)
			}
		})
		g.beat()
		g.cutOff()
		taken += g.burst(l)
		pass(time.Second)
		taken += g.burst(l)
		if most := int(time.Since(began).Seconds() * 2); taken > most || taken == 0 {
			t.Errorf("%d were let in within %v at 2 a second", taken, time.Since(began))
		}
	})
}

// TestReturnDuringAnOutageGoesToTheShare.
func TestReturnDuringAnOutageGoesToTheShare(t *testing.T) {
	alone(t, 3, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(60, 6))
		g.kept(l, 3)
		g.cutOff()
		r := g.mustTake(l, 2).receipt
		if n := l.Peek(time.Now()).Remaining; n != 1 {
			t.Errorf("%d remain, want 1", n)
		}
		r.Return(time.Now())
		if n := g.burst(l); n != 3 {
			t.Errorf("%d, want 3", n)
		}
	})
}

// TestShareOfAWindow: until the others keep its share, a gateway that is cut off has the
// permits that it has. Then it may have used as much as it had used at that time, because
// the others may have used all the rest, and one window later its third of the limit.
func TestShareOfAWindow(t *testing.T) {
	alone(t, 3, func(t *testing.T, g *lone) {
		l := ratelimit.NewWindowLease(g.pool, "a", 60, time.Minute)
		g.store.grantOnce(10, tally.Grant{})
		g.mustTake(l, 6)
		start := time.Now()
		g.cutOff()
		if d := l.Peek(time.Now()); d.Remaining != 4 || d.RetryAfter != 0 || d.ResetAfter != time.Minute {
			t.Errorf("%+v", d)
		}
		if n := g.burst(l); n != 4 {
			t.Errorf("%d in the beginning, want 4", n)
		}
		if d := g.take(l, 1); d.Allowed || d.Remaining != 0 || d.RetryAfter != shareAfter {
			t.Errorf("%+v", d.Decision)
		}
		pass(shareAfter)
		if d := g.take(l, 1); d.Allowed || d.RetryAfter != time.Minute-shareAfter {
			t.Errorf("%+v", d.Decision)
		}
		pass(time.Minute - shareAfter - 1)
		if n := g.burst(l); n != 0 {
			t.Errorf("%d before the first are forgotten", n)
		}
		pass(1)
		if n := g.burst(l); n != 10 {
			t.Errorf("%d, want the 10 that it had used when it was cut off", n)
		}
		pass(time.Until(start.Add(shareAfter + time.Minute)))
		if n := g.burst(l); n != 10 {
			t.Errorf("%d, want what is left of a third of the limit", n)
		}
		pass(time.Minute)
		if n := g.burst(l); n != 20 {
			t.Errorf("%d, want a third of the limit", n)
		}
	})
}

// TestShareOfAWindowThatWasNotUsed is nothing for the length of the window.
func TestShareOfAWindowThatWasNotUsed(t *testing.T) {
	alone(t, 3, func(t *testing.T, g *lone) {
		l := ratelimit.NewWindowLease(g.pool, "a", 60, time.Minute)
		g.cutOff()
		g.take(l, 1)
		pass(shareAfter + time.Second)
		d := g.take(l, 1)
		if d.Allowed || d.RetryAfter != 59*time.Second {
			t.Errorf("%+v", d.Decision)
		}
		pass(d.RetryAfter - 1)
		if n := g.burst(l); n != 0 {
			t.Errorf("%d before the time to retry", n)
		}
		pass(1)
		if n := g.burst(l); n != 20 {
			t.Errorf("%d at the time to retry, want 20", n)
		}
	})
}

// TestShareOfAWindowOfWhichMoreWasUsed: a gateway that has used more than its share waits
// until it is below.
func TestShareOfAWindowOfWhichMoreWasUsed(t *testing.T) {
	alone(t, 3, func(t *testing.T, g *lone) {
		l := ratelimit.NewWindowLease(g.pool, "a", 60, time.Minute)
		l.Settle(15, time.Now())
		pass(10 * time.Second)
		g.beat()
		l.Settle(15, time.Now())
		g.cutOff()
		pass(shareAfter)
		d := g.take(l, 1)
		if d.Allowed || d.Remaining != 0 || d.RetryAfter != 50*time.Second-shareAfter {
			t.Errorf("%+v", d.Decision)
		}
		pass(d.RetryAfter)
		if n := g.burst(l); n != 5 {
			t.Errorf("%d at the time to retry, want 20 without the 15", n)
		}
	})
}

// TestShareOfAWindowLeavesOutWhatTheOthersMayHaveForgotten: the store counts in steps of
// a 64th of the window, so that which requests it still knew is not known exactly.
func TestShareOfAWindowLeavesOutWhatTheOthersMayHaveForgotten(t *testing.T) {
	const window = 64 * time.Second
	last := window - shareAfter - time.Second // contact when a request is a step from being forgotten
	for contact, want := range map[time.Duration]int{last - 1: 5, last: 0} {
		alone(t, 3, func(t *testing.T, g *lone) {
			l := ratelimit.NewWindowLease(g.pool, "a", 60, window)
			l.Settle(5, time.Now())
			start := time.Now()
			pass(contact)
			g.report()
			g.cutOff()
			g.take(l, 1)
			pass(shareAfter)
			if n := g.burst(l); n != 0 {
				t.Errorf("%d while all that it may use is used", n)
			}
			pass(time.Until(start.Add(window)))
			if n := g.burst(l); n != want {
				t.Errorf("last contact after %v: %d, want %d", contact, n, want)
			}
		})
	}
}

// TestCostThatIsKnownDuringAnOutage counts: in a bucket it is missing from the share, in
// a window also from what the gateway may use later, and the store hears of it.
func TestCostThatIsKnownDuringAnOutage(t *testing.T) {
	alone(t, 3, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(60, 6))
		g.kept(l, 4)
		g.cutOff()
		l.Settle(3, time.Now())
		if n := g.burst(l); n != 1 {
			t.Errorf("%d of a bucket, want 1", n)
		}
		g.store.fail(nil)
		if a := g.report(); a.Spent != 0 || a.Own != 0 {
			t.Errorf("%+v", a)
		}
	})
	alone(t, 3, func(t *testing.T, g *lone) {
		l := ratelimit.NewWindowLease(g.pool, "a", 60, time.Minute)
		g.kept(l, 4)
		g.cutOff()
		l.Settle(3, time.Now())
		if n := g.burst(l); n != 1 {
			t.Errorf("%d of a window, want 1", n)
		}
		pass(10 * time.Second)
		l.Settle(-2, time.Now())
		g.store.fail(nil)
		if a := g.report(); a.Spent != 3+1-2 || a.Own != 1+3+1-2 {
			t.Errorf("%+v", a)
		}
	})
}
