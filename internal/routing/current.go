package routing

import (
	"sync/atomic"
	"time"
)

// Current is the table in force. Requests load it once; one writer stores it.
type Current struct{ table atomic.Pointer[Table] }

// Load returns the table in force.
func (c *Current) Load() *Table { return c.table.Load() }

// Store puts a table into force for the requests that come from now on.
func (c *Current) Store(t *Table) {
	c.table.Store(t)
	t.activate(time.Now())
}
