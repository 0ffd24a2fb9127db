package access

import (
	"net/netip"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
)

// Attempts limits how often callers may present wrong credentials: an address, or a
// /64 network of IPv6 addresses, may present ten at once and then one a second. It
// remembers a bounded number of addresses. Requests with a valid credential are not
// limited.
type Attempts struct{ limiter *ratelimit.Limiter }

const (
	attemptsAtOnce   = 10
	attemptsASecond  = 1
	shortestWaitTime = time.Second
)

// NewAttempts returns an Attempts without any failures.
func NewAttempts(now time.Time) *Attempts {
	return &Attempts{ratelimit.New(ratelimit.Settings{
		Enabled: true, Algorithm: ratelimit.TokenBucket, Capacity: attemptsAtOnce, RefillRate: attemptsASecond,
		ClientIPEnable: true,
	}, now)}
}

// Wrong counts a wrong credential from an address. It returns how long the
// caller has to wait if there were too many, else 0. A nil Attempts counts
// nothing.
func (a *Attempts) Wrong(from netip.Addr, now time.Time) time.Duration {
	if a == nil {
		return 0
	}
	if d := a.limiter.Allow(from, now); !d.Allowed {
		return max(d.RetryAfter, shortestWaitTime)
	}
	return 0
}
