package quota

import (
	"log/slog"
	"sync/atomic"
)

// condition is the health of one part of the ledger. It is told about every
// success and failure, and logs only the changes.
type condition struct {
	log  *slog.Logger
	name string // of the part, as people call it
	code string // of the failure, for status

	failure  atomic.Pointer[string]
	failures atomic.Int64
}

func (c *condition) note(err error) { c.noteAs(c.code, err) }

func (c *condition) noteAs(code string, err error) {
	if err == nil {
		if c.failure.Load() != nil && c.failure.Swap(nil) != nil {
			c.log.Info("quota: " + c.name + " is back")
		}
		return
	}
	c.failures.Add(1)
	reason := code + ": " + err.Error()
	if c.failure.Swap(&reason) == nil {
		c.log.Warn("quota: "+c.name+" failed", "error", err)
	}
}

// reason returns why the part is not well, and nothing if it is.
func (c *condition) reason() string {
	if reason := c.failure.Load(); reason != nil {
		return *reason
	}
	return ""
}
