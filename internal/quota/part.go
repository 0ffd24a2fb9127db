package quota

import (
	"log/slog"

	"github.com/patchbay-ai/patchbay/internal/condition"
)

// part is a part of the ledger that can fail. It logs when its condition changes,
// and only then.
type part struct {
	condition.Condition

	log  *slog.Logger
	name string // as people call it
	code string // of the failure, for status
}

func (p *part) note(err error) { p.noteAs(p.code, err) }

func (p *part) noteAs(code string, err error) {
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

// reason returns why the part is not well, and nothing if it is.
func (p *part) reason() string {
	if failure := p.Failure(); failure != nil {
		return failure.Reason
	}
	return ""
}
