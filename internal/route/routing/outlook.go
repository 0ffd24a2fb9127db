package routing

import (
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/queue"
)

// Outlook returns the outlook for a request of a caller that came to the queue now.
func (p *Pool) Outlook(caller string, class schema.Class) queue.Outlook {
	return p.Expect(p.Queue.Outlook(caller, class))
}

// Expect adds the expected wait to an outlook where the queue does not know it yet. It uses
// the mean time of calls, and how many run at a time.
func (p *Pool) Expect(o queue.Outlook) queue.Outlook {
	if o.Wait > 0 || o.Position == 0 {
		return o
	}
	var turns float64 // a second
	for _, i := range p.Eligible {
		if mean := i.MeanTime(); mean > 0 {
			turns += float64(i.Slots()) / mean.Seconds()
		}
	}
	if turns > 0 {
		o.Wait = time.Duration(float64(o.Position) / turns * float64(time.Second))
	}
	return o
}
