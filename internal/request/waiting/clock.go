package waiting

import (
	"context"
	"time"
)

// Pause waits for some time, or until ctx ends and returns its cause.
func Pause(ctx context.Context, long time.Duration) error {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Every calls a function each time an interval is over, until ctx ends. A call that takes
// longer than the interval delays the next one.
func Every(ctx context.Context, interval time.Duration, round func(now time.Time)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			round(now)
		}
	}
}
