package routing

import (
	"sync/atomic"
	"time"
)

// Current is the table in force. Requests load it once; one writer stores it.
type Current struct {
	table    atomic.Pointer[Table]
	observer atomic.Pointer[func(*Table)]
}

// Load returns the table in force.
func (c *Current) Load() *Table { return c.table.Load() }

// Store puts a table into force for the requests that come from now on.
func (c *Current) Store(t *Table) {
	c.table.Store(t)
	t.activate(time.Now())
	if observe := c.observer.Load(); observe != nil {
		(*observe)(t)
	}
}

// Observe makes f be called with every table that comes into force from now on.
// It runs in the writer's goroutine and must not wait.
func (c *Current) Observe(f func(*Table)) { c.observer.Store(&f) }
