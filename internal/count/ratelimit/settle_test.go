package ratelimit_test

import (
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// TestCostIsCorrected: what a request costs beyond what it took comes from the permits
// here, and what they do not cover from the store; what it did not cost can be used again.
func TestCostIsCorrected(t *testing.T) {
	for _, c := range []struct {
		more                              int
		bucketReturned, bucketOutstanding int64
		windowSpent, windowOutstanding    int64
	}{
		{3, 0, 2, 3, 2},
		{5, 0, 0, 5, 0},
		{8, -3, 0, 8, 0},
		{-1, 0, 6, -1, 5},
	} {
		alone(t, 1, func(t *testing.T, g *lone) {
			l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
			g.kept(l, 5)
			l.Settle(c.more, time.Now())
			if a := g.report(); a.Returned != c.bucketReturned || a.Outstanding != c.bucketOutstanding || a.Spent != 0 {
				t.Errorf("bucket, %d more: %+v", c.more, a)
			}
		})
		alone(t, 1, func(t *testing.T, g *lone) {
			l := ratelimit.NewWindowLease(g.pool, "a", 100, time.Minute)
			g.kept(l, 5)
			l.Settle(c.more, time.Now())
			a := g.report()
			if a.Returned != 0 || a.Outstanding != c.windowOutstanding || a.Spent != c.windowSpent || a.Own != 1+c.windowSpent {
				t.Errorf("window, %d more: %+v", c.more, a)
			}
			if a = g.report(); a.Spent != 0 || a.Own != 1+c.windowSpent {
				t.Errorf("window, %d more: reported twice: %+v", c.more, a)
			}
		})
	}
}

// TestRequestsThatCostWhatTheyTookReportNothing, so that limits which nobody uses take no
// part in exchanges.
func TestRequestsThatCostWhatTheyTookReportNothing(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
		g.kept(l, 0)
		l.Settle(0, time.Now())
		if asks := g.beat(); len(asks) != 0 {
			t.Errorf("%+v", asks)
		}
		if d := l.Peek(time.Now()); d.Limit != 100 {
			t.Errorf("%+v", d)
		}
		if asks := g.beat(); len(asks) != 0 {
			t.Errorf("a look at the limit was reported: %+v", asks)
		}
	})
}

// TestDebtIsChargedOnce, also if permits arrive while it is made.
func TestDebtIsChargedOnce(t *testing.T) {
	for _, permits := range []int64{0, 2, 3, 5} {
		alone(t, 1, func(t *testing.T, g *lone) {
			l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
			g.store.grantOnce(1, tally.Grant{})
			g.mustTake(l, 1)
			g.store.grantOnce(permits, tally.Grant{})
			g.store.script(func() { g.store.during = func() { l.Settle(3, time.Now()) } })
			l.Settle(1, time.Now())
			g.report()
			pass(time.Second) // idle: everything goes back
			for range 4 {
				g.beat()
			}
			if used := g.store.told().granted - g.store.told().returned; used != 1+1+3 {
				t.Errorf("with %d permits that arrive, the store counts %d as used of 5", permits, used)
			}
			if len(g.store.told().asks) != 0 {
				t.Errorf("it is still reported: %+v", g.store.told().asks)
			}
		})
	}
}

// TestEverySettlementIsReported, whatever the exchange does at the same time.
func TestEverySettlementIsReported(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
		g.store.grantOnce(1, tally.Grant{})
		g.mustTake(l, 1)
		const settlements = 3000
		for range settlements {
			var wg sync.WaitGroup
			wg.Go(func() { l.Settle(1, time.Now()) })
			g.beat()
			wg.Wait()
		}
		g.beat()
		if used := g.store.told().granted - g.store.told().returned; used != 1+settlements {
			t.Errorf("the store counts %d as used, want %d", used, 1+settlements)
		}
	})
}

// TestWhatHappensDuringAnExchangeIsReportedWithTheNext: it is in no answer yet.
func TestWhatHappensDuringAnExchangeIsReportedWithTheNext(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewWindowLease(g.pool, "a", 100, time.Minute)
		g.kept(l, 1)
		g.store.script(func() { g.store.during = func() { l.Settle(-1, time.Now()) } })
		if a := g.report(); a.Spent != 0 || a.Own != 1 {
			t.Errorf("%+v", a)
		}
		if a := g.report(); a.Spent != -1 || a.Own != 0 {
			t.Errorf("%+v", a)
		}
		if a := g.report(); a.Spent != 0 || a.Own != 0 || a.Outstanding != 1 {
			t.Errorf("a permit is left, but reported was %+v", a)
		}
	})
}

// TestUnansweredReports: what was spent is reported again, because it may not have been
// heard; what was taken back is not, because it may have been.
func TestUnansweredReports(t *testing.T) {
	for more, again := range map[int]int64{3: 3, -1: 0} {
		alone(t, 1, func(t *testing.T, g *lone) {
			l := ratelimit.NewWindowLease(g.pool, "a", 100, time.Minute)
			g.kept(l, 9)
			l.Settle(more, time.Now())
			g.store.fail(errScripted)
			if a := g.report(); a.Spent != int64(more) {
				t.Errorf("%+v", a)
			}
			g.store.fail(nil)
			if a := g.report(); a.Spent != again {
				t.Errorf("%d is reported after %d was not answered", a.Spent, more)
			}
		})
	}
}

// TestOldestIsForgottenFirst: requests that cost less than they took make room for the
// oldest, so that no window ever holds more than the limit.
func TestOldestIsForgottenFirst(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewWindowLease(g.pool, "a", 100, time.Minute)
		own := func(want int64) {
			t.Helper()
			if a := g.report(); a.Own != want {
				t.Errorf("%d were used in the last minute, want %d", a.Own, want)
			}
		}
		l.Settle(2, time.Now())
		pass(10 * time.Second)
		l.Settle(3, time.Now())
		l.Settle(-3, time.Now())
		own(2)
		pass(50 * time.Second)
		own(2) // those of the beginning are gone already
		pass(10*time.Second - 1)
		own(2)
		pass(1)
		own(0)
		l.Settle(1, time.Now())
		l.Settle(-4, time.Now()) // more than there is
		own(0)
	})
}

// TestResizedWindowKeepsWhatWasUsed, and a limit that becomes a bucket forgets it.
func TestResizedWindowKeepsWhatWasUsed(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewWindowLease(g.pool, "a", 100, time.Minute)
		g.kept(l, 0)
		l.Resize(200)
		if a := g.report(); a.Own != 1 || a.Capacity != 200 || a.Window != time.Minute {
			t.Errorf("%+v", a)
		}
	})
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", sharedLimit(ratelimit.SlidingWindow, 100, 10))
		g.store.grantOnce(1, tally.Grant{})
		g.mustTake(l, 1)
		l.Update(bucketOf(100, 10))
		if a := g.report(); a.Own != 0 || a.Spent != 0 || a.Window != 0 {
			t.Errorf("%+v", a)
		}
		if asks := g.beat(); len(asks) != 0 {
			t.Errorf("a bucket that is not used is reported: %+v", asks)
		}
	})
}
