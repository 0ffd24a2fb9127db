package gateway

import (
	"context"
	"sync/atomic"
	"time"
)

// startPatience is how long a start waits for stores that do not answer, all readers together. A
// store that answers slowly spends nothing of it. What they would have read is on the disk, or is
// read again later.
const startPatience = 3 * time.Second

// patience bounds the waits of a start. Its methods are safe for concurrent use.
type patience struct {
	total  time.Duration
	spent  atomic.Int64 // nanoseconds
	isOver atomic.Bool  // the start is over, and waits have only their own bounds
}

// wait calls read with a context that ends with the rest of the patience.
func (p *patience) wait(ctx context.Context, read func(ctx context.Context)) {
	if p.isOver.Load() {
		read(ctx)
		return
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, p.total-time.Duration(p.spent.Load()))
	defer cancel()
	read(bounded)
	if bounded.Err() != nil {
		p.spent.Add(int64(time.Since(began)))
	}
}
