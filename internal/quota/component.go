package quota

import (
	"log/slog"

	"github.com/patchbay-ai/patchbay/internal/condition"
)

// component is a part of the ledger that can fail. It logs when its condition
// changes, and only then.
type component struct {
	condition.Condition

	log  *slog.Logger
	name string // for the log
	code string // of a failure, for Status
}

func (p *component) setError(err error) { p.setErrorCode(p.code, err) }

func (p *component) setErrorCode(code string, err error) {
	if err == nil {
		if p.Recover() {
			p.log.Info("quota: " + p.name + " is back")
		}
		return
	}
	if p.Fail(code + ": " + err.Error()) {
		p.log.Warn("quota: "+p.name+" failed", "error", err)
	}
}

// reason returns why the component has failed, or "" if it has not.
func (p *component) reason() string {
	if failure := p.Failure(); failure != nil {
		return failure.Reason
	}
	return ""
}
