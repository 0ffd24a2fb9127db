package ratelimit_test

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// TestReceiptOfARequestThatTookNothing can be used like any other.
func TestReceiptOfARequestThatTookNothing(t *testing.T) {
	var r ratelimit.Receipt
	r.Hold()
	r.Use()
	r.Return(time.Now())
	if r != (ratelimit.Receipt{}) {
		t.Errorf("%+v", r)
	}
}

// TestWaitingRequestsKeepTheirPermits: the store counts a permit of a request that waits
// as taken and not as spent, for as long as it waits.
func TestWaitingRequestsKeepTheirPermits(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
		g.store.grantOnce(2, tally.Grant{})
		first := g.mustTake(l, 2).receipt
		first.Hold()
		first.Hold()
		for range 5 {
			if a := g.report(); a.Outstanding != 2 || a.Returned != 0 {
				t.Errorf("%+v while a request for 2 waits", a)
			}
			pass(time.Second)
		}
		first.Use()
		first.Use()
		if a := g.report(); a.Outstanding != 0 || a.Returned != 0 {
			t.Errorf("%+v after the wait", a)
		}
		if asks := g.beat(); len(asks) != 0 {
			t.Errorf("%+v", asks)
		}
		first.Return(time.Now()) // counted as spent meanwhile
		if asks := g.beat(); len(asks) != 0 {
			t.Errorf("what was spent is given back: %+v", asks)
		}
	})
}

// TestHoldIsReportedThoughNothingElseIs: a request that begins to wait after the store
// heard of the limit.
func TestHoldIsReportedThoughNothingElseIs(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
		g.store.grantOnce(1, tally.Grant{})
		r := g.mustTake(l, 1).receipt
		g.report()
		if asks := g.beat(); len(asks) != 0 {
			t.Fatalf("%+v", asks)
		}
		r.Hold()
		if a := g.report(); a.Outstanding != 1 {
			t.Errorf("%+v", a)
		}
	})
}

// TestWindowsForgetWaitingRequestsByWhenTheyCame.
func TestWindowsForgetWaitingRequestsByWhenTheyCame(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewWindowLease(g.pool, "a", 100, time.Minute)
		g.store.grantOnce(1, tally.Grant{})
		r := g.mustTake(l, 1).receipt
		r.Hold()
		if a := g.report(); a.Outstanding != 0 || a.Spent != 1 {
			t.Errorf("%+v", a)
		}
		r.Use()
		if a := g.report(); a.Outstanding != 0 || a.Spent != 0 || a.Own != 1 {
			t.Errorf("%+v", a)
		}
	})
}

// TestWhatIsReturnedCanBeTakenAgain, unless the store counts it as spent by now.
func TestWhatIsReturnedCanBeTakenAgain(t *testing.T) {
	for _, c := range []struct {
		name                string
		isWindow            bool
		isHeld, isReported  bool
		outstanding, answer int64
	}{
		{"bucket, at once", false, false, false, 5, 5},
		{"bucket, spent", false, false, true, 4, 4},
		{"bucket, held", false, true, true, 5, 5},
		{"window, at once", true, false, false, 5, 0},
		{"window, spent", true, false, true, 4, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			alone(t, 1, func(t *testing.T, g *lone) {
				l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
				if c.isWindow {
					l = ratelimit.NewWindowLease(g.pool, "a", 100, time.Minute)
				}
				g.store.grantOnce(5, tally.Grant{})
				r := g.mustTake(l, 1).receipt
				if c.isHeld {
					r.Hold()
				}
				if c.isReported {
					g.report()
				}
				r.Return(time.Now())
				r.Return(time.Now())
				a := g.report()
				if a.Outstanding != c.outstanding || a.Returned != 0 || a.Spent != 0 {
					t.Errorf("%+v", a)
				}
				if c.isWindow && a.Own != c.answer {
					t.Errorf("%d were used, want %d", a.Own, c.answer)
				}
			})
		})
	}
}

// TestLastPermitThatIsReturnedIsReported, though the limit had nothing to report.
func TestLastPermitThatIsReturnedIsReported(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(100, 10))
		g.store.grantOnce(1, tally.Grant{})
		r := g.mustTake(l, 1).receipt
		r.Hold()
		g.report()
		pass(10 * time.Millisecond)
		r.Return(time.Now())
		pass(time.Second)
		if a := g.report(); a.Returned != 1 || a.Outstanding != 0 {
			t.Errorf("%+v", a)
		}
	})
}
