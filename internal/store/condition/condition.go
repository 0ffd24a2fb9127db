// Package condition remembers whether something that the gateway depends on, such
// as a database or a file, is available, and if not, why and since when.
package condition

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Condition is told about every success and failure of one dependency. The zero
// Condition has not failed.
type Condition struct {
	failure  atomic.Pointer[Failure]
	failures atomic.Int64
}

// Failure is the reason and the beginning of a failure that has not ended.
type Failure struct {
	Reason string // the text of Said
	Said   say.Sentence
	Since  time.Time
}

// Fail notes a failure, and reports whether it is the first one since the last success.
func (c *Condition) Fail(said say.Sentence) (first bool) {
	c.failures.Add(1)
	next := &Failure{Reason: said.String(), Said: said, Since: time.Now()}
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

// Note notes the result of a use, and logs the first failure and the first success after one. All stores
// that gateways share report their outages by it.
func (c *Condition) Note(log *slog.Logger, err error, failed, recovered string, attrs ...any) {
	switch {
	case err == nil:
		if c.Recover() {
			log.Info(recovered, attrs...)
		}
	case c.Fail(say.From(err)):
		log.Warn(failed, append(attrs, "error", err)...)
	}
}

// Failure returns the present failure; nil means that there is none.
func (c *Condition) Failure() *Failure { return c.failure.Load() }

// Failures returns how many failures there were.
func (c *Condition) Failures() int64 { return c.failures.Load() }
