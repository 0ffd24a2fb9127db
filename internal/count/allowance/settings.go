// Package allowance decides how much a key or a tenant may use: requests and tokens a
// minute, and requests at a time. An Account is the limited party, and a Use is the
// part that one request took of it.
package allowance

import (
	"cmp"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Limits bound the use of one key, or of all keys of one tenant together. 0 sets no
// limit of its own and leaves it to wider settings. Unlimited sets none, whatever the
// wider settings say.
type Limits struct {
	RequestsPerMinute  int64 `json:"requestsPerMinute,omitzero" minimum:"-1" maximum:"1000000000000"`
	TokensPerMinute    int64 `json:"tokensPerMinute,omitzero" minimum:"-1" maximum:"1000000000000"`
	ConcurrentRequests int64 `json:"concurrentRequests,omitzero" minimum:"-1" maximum:"1000000000000"`
}

// Unlimited is the value of a limit that does not exist even where wider settings have
// one.
const Unlimited = -1

// maxLimit leaves room to add limits up.
const maxLimit = 1_000_000_000_000

// Or returns the limits, with the wider settings where l says nothing.
func (l Limits) Or(wider Limits) Limits {
	return Limits{
		cmp.Or(l.RequestsPerMinute, wider.RequestsPerMinute),
		cmp.Or(l.TokensPerMinute, wider.TokensPerMinute),
		cmp.Or(l.ConcurrentRequests, wider.ConcurrentRequests),
	}
}

// Check reports every limit that has a value it may not have.
func (l Limits) Check(report say.Report) {
	for _, limit := range [...]struct {
		name  string
		value int64
	}{
		{"requestsPerMinute", l.RequestsPerMinute},
		{"tokensPerMinute", l.TokensPerMinute},
		{"concurrentRequests", l.ConcurrentRequests},
	} {
		if limit.value < Unlimited || limit.value > maxLimit {
			report(limit.name, say.New("field.limit", "most", "1000000000000"))
		}
	}
}
