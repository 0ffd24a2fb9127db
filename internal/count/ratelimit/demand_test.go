package ratelimit_test

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
)

// TestDemandIsMeasuredOverFifthsOfASecond: what the gateway wants in advance follows the
// requests of the last fifth of a second or more, by halves.
func TestDemandIsMeasuredOverFifthsOfASecond(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(1000, 1))
		none := tally.Grant{}
		wants := func(when string, want int64) {
			t.Helper()
			if a := g.report(); a.Want != want {
				t.Errorf("%s: %+v, want %d", when, a, want)
			}
		}
		g.store.grantOnce(4, none)
		g.mustTake(l, 4)
		if a := g.store.told().asks[0]; a.Want != 20 {
			t.Errorf("%+v", a)
		}
		l.Settle(1, time.Now()) // so that there is something to report
		wants("at once", 20)
		pass(200*time.Millisecond - 1)
		l.Settle(1, time.Now())
		wants("before a fifth of a second", 20)
		pass(1)
		l.Settle(1, time.Now())
		wants("after a fifth of a second", 10) // 20 a second now and none before
		g.store.grantOnce(20, none)
		pass(400 * time.Millisecond)
		g.mustTake(l, 20)
		if a := g.store.told().asks[0]; a.Want != 30 { // 50 a second, and 10 before
			t.Errorf("20 in the last 0.4 s: %+v", a)
		}
	})
}

// TestWaitingDoesNotRaiseTheDemand: a request that waits for the store is one request,
// however often it looks.
func TestWaitingDoesNotRaiseTheDemand(t *testing.T) {
	alone(t, 1, func(t *testing.T, g *lone) {
		l := ratelimit.NewLease(g.pool, "a", bucketOf(1000, 1))
		g.mustTake(l, 2)
		if a := g.report(); a.Want != 2 || a.Outstanding != 8 {
			t.Errorf("%+v: want 10 in advance, as a second of requests at 2 in a fifth of it", a)
		}
	})
}
