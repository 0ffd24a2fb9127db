// Package allowance decides how much a key or a tenant may use: requests and tokens a
// minute, and requests at a time. An Account is the limited party, and a Use is the
// part that one request took of it.
package allowance

import (
	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Limits bound the use of one key, or of all keys of one tenant together. 0 sets no
// limit of its own and leaves it to wider settings. Unlimited sets none, whatever the
// wider settings say.
type Limits struct {
	RequestsPerMinute  int64 `json:"requestsPerMinute" flag:"requests-per-minute" minimum:"-1" maximum:"1000000000000"`
	TokensPerMinute    int64 `json:"tokensPerMinute" flag:"tokens-per-minute" minimum:"-1" maximum:"1000000000000"`
	ConcurrentRequests int64 `json:"concurrentRequests" flag:"concurrent-requests" minimum:"-1" maximum:"1000000000000"`
}

// Docs describe the limits for the API and the program's verbs.
func (Limits) Docs() map[string]string {
	return map[string]string{ //nolint:gosec // tokens of text are no credentials
		"requestsPerMinute":  "Requests in any sixty seconds; 0 is as security.defaults says, -1 no limit.",
		"tokensPerMinute":    "Tokens in any sixty seconds.",
		"concurrentRequests": "Requests at the same time.",
	}
}

// Unlimited is the value of a limit that does not exist even where wider settings have
// one.
const Unlimited = -1

// maxLimit leaves room to add limits up.
const maxLimit = 1_000_000_000_000

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
