package allowance

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/ratelimit"
)

// Meter limits an amount in every minute. All methods may be called at the same time. One
// of this gateway alone is a *ratelimit.Window.
type Meter interface {
	// Resize sets the amount; what was taken before stays taken.
	Resize(limit int64)
	// Take takes an amount if the limit leaves room for it. An amount above the whole
	// limit is taken when nothing else counts.
	Take(amount int, now time.Time) ratelimit.Decision
	// Settle changes by a difference what was taken at a moment. It is never refused:
	// what was used was used.
	Settle(taken time.Time, difference int, now time.Time)
	// Peek returns what Take of 1 would answer.
	Peek(now time.Time) ratelimit.Decision
}

// minute is what a meter counts over.
const minute = time.Minute

// NewMeter returns a meter of this process alone.
func NewMeter(_ string, now time.Time) Meter { return ratelimit.NewWindow(minute, now) }
