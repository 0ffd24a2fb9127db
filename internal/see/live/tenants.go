package live

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

const (
	// maxTenants is how many tenants have a history. One takes about 210 KiB from its first
	// request on.
	maxTenants = 100
	// lateRecord is how many seconds after the end of a request its record still counts in
	// the second of that end. A later one counts now: its step may be another's already.
	lateRecord = 60
)

// Note adds requests to the history of their tenants, which the counts do not tell apart.
// It is an Observer of a recorder: it sees only the calls that sampling leaves.
func (s *Sampler) Note(batch []calls.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range batch {
		c := &batch[i]
		if c.Tenant == "" {
			continue
		}
		second := c.Started.Add(c.Ended).Unix()
		if second < s.second-lateRecord {
			second = s.second
		}
		if t := s.tenant(c.Tenant, second); t != nil {
			counted := countsOf(c)
			t.add(second, &counted)
		}
	}
}

// tenant returns the history of a tenant, nil where there is no room for it.
func (s *Sampler) tenant(name string, second int64) *track {
	if own := s.tenants[name]; own != nil {
		return own
	}
	if len(s.tenants) >= maxTenants {
		idlest := ""
		for other, t := range s.tenants {
			if idlest == "" || t.last < s.tenants[idlest].last {
				idlest = other
			}
		}
		if second-s.tenants[idlest].last < idleAfter {
			return nil
		}
		delete(s.tenants, idlest)
	}
	own := new(track)
	s.tenants[name] = own
	return own
}

// countsOf returns the counts that a request adds.
func countsOf(c *calls.Record) counts {
	own := counts{sums: sums{outcomes: outcomeOf(c), cost: int64(c.Cost), tokensIn: c.Usage.Prompt,
		tokensOut: c.Usage.Completion}}
	if c.Attempts > 0 {
		own.duration.Request(c.Ended)
	}
	if c.Streamed && c.FirstToken > 0 {
		own.firstToken.Request(c.FirstToken)
	}
	return own
}

// outcomeOf returns how a request ended, as the counts have it.
func outcomeOf(c *calls.Record) metrics.Outcomes {
	switch c.Result {
	case schema.ResultSuccess:
		return metrics.Outcomes{Answered: 1}
	case schema.ResultFailed, schema.ResultTimedOut:
		if c.Gone { // nobody's fault
			return metrics.Outcomes{Answered: 1}
		}
		return metrics.Outcomes{Failed: 1}
	case schema.ResultBreakerOpen:
		return metrics.Outcomes{BreakerOpen: 1}
	case schema.ResultRateLimited, schema.ResultNoSlot, schema.ResultOverloaded:
		return metrics.Outcomes{Limited: 1}
	default:
		return metrics.Outcomes{Rejected: 1}
	}
}
