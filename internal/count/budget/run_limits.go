package budget

import (
	"cmp"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// RunLimits are the limits of one run of an agent. 0 sets no limit and leaves it to wider
// settings.
type RunLimits struct {
	Cost     prices.Amount `json:"cost,omitzero"`
	Tokens   int64         `json:"tokens,omitzero" minimum:"0" maximum:"1000000000000000"`
	Requests int64         `json:"requests,omitzero" minimum:"0" maximum:"1000000000000000"`
	// Time is counted from the first request of the run.
	Time        schema.Duration `json:"time,omitzero"`
	Concurrency int64           `json:"concurrency,omitzero" minimum:"0" maximum:"1000000"`
}

const (
	mostRunTime     = 366 * 24 * time.Hour
	mostConcurrency = 1_000_000
)

// Or returns the limits, with the wider settings where l says nothing.
func (l RunLimits) Or(wider RunLimits) RunLimits {
	return RunLimits{
		cmp.Or(l.Cost, wider.Cost), cmp.Or(l.Tokens, wider.Tokens), cmp.Or(l.Requests, wider.Requests),
		cmp.Or(l.Time, wider.Time), cmp.Or(l.Concurrency, wider.Concurrency),
	}
}

// Lesser returns the lesser of each limit, of those that both have.
func (l RunLimits) Lesser(other RunLimits) RunLimits {
	return RunLimits{
		lesser(l.Cost, other.Cost), lesser(l.Tokens, other.Tokens), lesser(l.Requests, other.Requests),
		lesser(l.Time, other.Time), lesser(l.Concurrency, other.Concurrency),
	}
}

// Amounts returns the limits of requests, tokens and money.
func (l RunLimits) Amounts() Amounts { return Amounts{l.Requests, l.Tokens, int64(l.Cost)} }

// Check reports every limit that has a value it may not have.
func (l RunLimits) Check(report say.Report) {
	for _, one := range [...]struct {
		path        string
		found, most int64
	}{
		{"tokens", l.Tokens, most}, {"requests", l.Requests, most}, {"concurrency", l.Concurrency, mostConcurrency},
	} {
		if one.found < 0 || one.found > one.most {
			report(one.path, say.New("field.between", "least", 0, "most", one.most, "found", one.found))
		}
	}
	if l.Time.Std() > mostRunTime {
		report("time", say.New("field.at_most", "most", schema.Duration(mostRunTime)))
	}
}
