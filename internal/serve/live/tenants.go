package live

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

const (
	// maxTenants is how many tenants have a history, counted for each service type. One takes as
	// much memory as that of an instance.
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
		if t := s.tenant(tenantKey{c.Tenant, c.Service}, second); t != nil {
			counted := countsOf(c)
			t.add(second, &counted)
		}
	}
}

// tenantKey names a tenant that uses a service type.
type tenantKey struct {
	tenant  string
	service schema.ServiceType
}

// tenant returns the history of a tenant, nil where there is no room for it.
func (s *Sampler) tenant(key tenantKey, second int64) *track {
	if own := s.tenants[key]; own != nil {
		return own
	}
	if len(s.tenants) >= maxTenants {
		var idlest *tenantKey
		for other, t := range s.tenants {
			if idlest == nil || t.last < s.tenants[*idlest].last {
				idlest = &other
			}
		}
		if second-s.tenants[*idlest].last < idleAfter {
			return nil
		}
		delete(s.tenants, *idlest)
	}
	own := new(track)
	s.tenants[key] = own
	return own
}

// countsOf returns the counts that a request adds.
func countsOf(c *calls.Record) counts {
	own := counts{Totals: metrics.Totals{Outcomes: outcomeOf(c), Cost: int64(c.Cost), TokensIn: c.Usage.Prompt,
		TokensOut: c.Usage.Completion, TokensCached: c.Usage.Cached, Held: c.Held}}
	if c.Attempts > 0 {
		own.note(duration, metrics.BucketOf(c.Ended), 1)
	}
	if c.Streamed && c.FirstToken > 0 {
		own.note(firstToken, metrics.BucketOf(c.FirstToken), 1)
	}
	if c.Streamed && c.PerToken > 0 {
		own.note(perToken, metrics.BucketOf(c.PerToken), 1)
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
