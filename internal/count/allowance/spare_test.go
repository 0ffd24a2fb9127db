package allowance

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestRequestsThatHaveTimeLeaveHalfOfEachLimit(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		limits Limits
		tokens int64
		most   int64 // of such requests
		unit   Unit
	}{
		"requests":    {Limits{RequestsPerMinute: 30}, 10, 15, Requests},
		"tokens":      {Limits{TokensPerMinute: 1000}, 10, 50, Tokens},
		"at a time":   {Limits{ConcurrentRequests: 8}, 10, 4, Concurrency},
		"two":         {Limits{ConcurrentRequests: 2}, 10, 1, Concurrency},
		"one":         {Limits{ConcurrentRequests: 1}, 10, 1, Concurrency},
		"one request": {Limits{RequestsPerMinute: 1}, 10, 1, Requests},
		"large ones":  {Limits{TokensPerMinute: 1000}, 5000, 1, Tokens},
	} {
		t.Run(name, func(t *testing.T) {
			account := NewAccounts(nil).Open("key/k", c.limits, now)
			both := [2]*Account{account}
			var taken atomic.Int64
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					var use Use
					refused := use.TakeSpare(both, c.tokens, now)
					switch {
					case refused == nil:
						taken.Add(1)
					case refused.Unit != c.unit || refused.State.RetryAfter <= 0:
						t.Errorf("refused with %+v", refused)
					}
				})
			}
			all.Wait()
			if taken.Load() != c.most {
				t.Errorf("%d requests that have time were let in, want %d", taken.Load(), c.most)
			}
			var other Use
			if refused := other.Take(both, 10, now); (refused == nil) != (c.most > 1 || name == "two") {
				t.Errorf("another request: %+v", refused)
			}
		})
	}
}
