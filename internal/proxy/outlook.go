package proxy

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/queue"
	"github.com/patchbay-ai/patchbay/internal/routing"
)

// expect adds to an outlook how long the wait takes where the queue does not know yet: by how
// long calls took so far, and how many run at a time.
func expect(pool *routing.Pool, o queue.Outlook) queue.Outlook {
	if o.Wait > 0 || o.Position == 0 {
		return o
	}
	var turns float64 // a second
	for _, i := range pool.Eligible {
		if mean := i.MeanTime(); mean > 0 {
			turns += float64(i.Slots()) / mean.Seconds()
		}
	}
	if turns > 0 {
		o.Wait = time.Duration(float64(o.Position) / turns * float64(time.Second))
	}
	return o
}
