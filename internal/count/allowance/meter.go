package allowance

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
)

// meter limits an amount in every minute. All methods may be called at the same time. A
// meter of this gateway alone is a *ratelimit.Window.
type meter interface {
	// Resize sets the amount; permits taken before stay taken.
	Resize(limit int64)
	// Take takes an amount if the limit leaves room for it. An amount above the whole
	// limit is taken when nothing else counts.
	Take(amount int, now time.Time) ratelimit.Decision
	// Settle changes by a difference the amount taken at a moment. It is never refused:
	// the use has already happened.
	Settle(taken time.Time, difference int, now time.Time)
	// Peek returns the answer that Take of 1 would get.
	Peek(now time.Time) ratelimit.Decision
}

// sharedMeter is the part that this gateway has in a limit of several gateways.
type sharedMeter struct{ *ratelimit.Lease }

func (m sharedMeter) Take(amount int, now time.Time) ratelimit.Decision {
	needed := min(amount, m.Capacity())
	decision, _ := m.Lease.Take(needed, now)
	if decision.Allowed {
		m.Lease.Settle(amount-needed, now)
	}
	return decision
}

func (m sharedMeter) Settle(_ time.Time, difference int, now time.Time) {
	m.Lease.Settle(difference, now)
}

// newMeter returns a meter of a limit: of this gateway, or of all that share their limits.
func (a *Accounts) newMeter(name string, limit int64, now time.Time) meter {
	if a.shared != nil {
		return sharedMeter{ratelimit.NewWindowLease(a.shared, "allowance/"+name, limit, time.Minute)}
	}
	alone := ratelimit.NewWindow(time.Minute, now)
	alone.Resize(limit)
	return alone
}
