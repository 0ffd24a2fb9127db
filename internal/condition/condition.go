// Package condition remembers whether something that the gateway depends on, such
// as a database or a file, is well, and why and since when it is not.
package condition

import (
	"sync/atomic"
	"time"
)

// Condition is told about every success and failure of one thing. The zero
// Condition is well.
type Condition struct {
	failure  atomic.Pointer[Failure]
	failures atomic.Int64
}

// Failure is why something is not well, and since when.
type Failure struct {
	Reason string
	Since  time.Time
}

// Fail notes a failure, and reports whether it is the first after all was well.
func (c *Condition) Fail(reason string) (first bool) {
	c.failures.Add(1)
	next := &Failure{Reason: reason, Since: time.Now()}
	for {
		before := c.failure.Load()
		if before != nil {
			next.Since = before.Since
		}
		if c.failure.CompareAndSwap(before, next) {
			return before == nil
		}
	}
}

// Recover notes a success, and reports whether it is the first after a failure.
func (c *Condition) Recover() (first bool) {
	return c.failure.Load() != nil && c.failure.Swap(nil) != nil
}

// Failure returns why it is not well; nil means that it is.
func (c *Condition) Failure() *Failure { return c.failure.Load() }

// Failures returns how many failures there were.
func (c *Condition) Failures() int64 { return c.failures.Load() }
