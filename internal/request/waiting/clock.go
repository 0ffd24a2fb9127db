package waiting

import (
	"context"
	"sync/atomic"
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

// Patience bounds how long a start waits for stores that do not answer, all readers together. A store
// that answers slowly spends nothing of it. Its methods are safe for concurrent use.
type Patience struct {
	Total  time.Duration
	IsOver atomic.Bool  // the start is over, and waits have only their own bounds
	spent  atomic.Int64 // nanoseconds
}

// Wait calls read with a context that ends with the rest of the patience.
func (p *Patience) Wait(ctx context.Context, read func(ctx context.Context)) {
	if p.IsOver.Load() {
		read(ctx)
		return
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, p.Total-time.Duration(p.spent.Load()))
	defer cancel()
	read(bounded)
	if bounded.Err() != nil {
		p.spent.Add(int64(time.Since(began)))
	}
}
