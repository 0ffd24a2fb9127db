package quota

import (
	"log/slog"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/store/condition"
)

// component is a part of the ledger that can fail. It logs when its condition
// changes, and only then.
type component struct {
	condition.Condition

	log  *slog.Logger
	name string   // for the log
	code say.Code // of a failure, for Status
}

func (c *component) setError(err error) {
	if err == nil {
		if c.Recover() {
			c.log.Info("quota: " + c.name + " is back")
		}
		return
	}
	if c.Fail(say.New(c.code, "why", err.Error())) {
		c.log.Warn("quota: "+c.name+" failed", "error", err)
	}
}

// reason returns why the component has failed; it says nothing if it has not.
func (c *component) reason() say.Sentence {
	if failure := c.Failure(); failure != nil {
		return failure.Said
	}
	return say.Sentence{}
}
