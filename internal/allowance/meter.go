package allowance

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/ratelimit"
)

// Meter limits an amount in every minute. All methods may be called at the same time.
// A meter that several gateways share implements it like the local one.
type Meter interface {
	// SetLimit sets the amount; what was taken before stays taken.
	SetLimit(limit int64)
	// Take takes an amount if the limit leaves room for it. An amount above the whole
	// limit is taken when nothing else counts.
	Take(amount int64, now time.Time) State
	// Correct changes by a difference what was taken at a moment. It is never refused:
	// what was used was used.
	Correct(taken time.Time, difference int64, now time.Time)
	// Peek returns the state, with what Take of 1 would answer.
	Peek(now time.Time) State
}

// State is the state of a limit for a caller.
type State struct {
	Allowed          bool
	Limit, Remaining int64
	// ResetAfter is the time until nothing counts any more, and RetryAfter the time
	// until what was asked for would be allowed: 0 if it was.
	ResetAfter, RetryAfter time.Duration
}

// minute is what a meter counts over.
const minute = time.Minute

// localMeter is the meter of this process alone.
type localMeter struct{ *ratelimit.Window }

// NewMeter returns a meter of this process alone.
func NewMeter(_ string, now time.Time) Meter { return localMeter{ratelimit.NewWindow(minute, now)} }

func (m localMeter) SetLimit(limit int64) { m.Resize(limit) }

func (m localMeter) Take(amount int64, now time.Time) State {
	return stateOf(m.Window.Take(int(amount), now))
}

func (m localMeter) Peek(now time.Time) State { return stateOf(m.Window.Peek(now)) }

func (m localMeter) Correct(taken time.Time, difference int64, now time.Time) {
	m.Settle(taken, int(difference), now)
}
