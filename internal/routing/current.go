package routing

import (
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/tally"
)

// Current is the table in force. Requests load it once; one writer stores it.
type Current struct {
	table     atomic.Pointer[Table]
	observers atomic.Pointer[[]func(*Table)]
	// shared is where the limits are that this gateway shares with others; nil means
	// that it shares none.
	shared *tally.Pool
}

// Share makes rate limits whose settings say so common to all gateways of a pool. It
// is called before the first table is stored.
func (c *Current) Share(pool *tally.Pool) { c.shared = pool }

// Load returns the table in force.
func (c *Current) Load() *Table { return c.table.Load() }

// Store puts a table into force for the requests that come from now on.
func (c *Current) Store(t *Table) {
	before := c.table.Load()
	t.shareLimits(c.shared)
	c.table.Store(t)
	t.activate(time.Now())
	before.withdrawLimits(t)
	if observers := c.observers.Load(); observers != nil {
		for _, observe := range *observers {
			observe(t)
		}
	}
}

// Observe makes f be called with every table that comes into force from now on.
// It runs in the writer's goroutine and must not wait. Observe must not be called
// concurrently.
func (c *Current) Observe(f func(*Table)) {
	var all []func(*Table)
	if before := c.observers.Load(); before != nil {
		all = append(all, *before...)
	}
	all = append(all, f)
	c.observers.Store(&all)
}
