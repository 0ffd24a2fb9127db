package metrics

import (
	"math"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Outcomes is how many requests ended in each of the ways that people tell apart.
type Outcomes struct {
	// Answered also counts the requests that ended because the client left: that is no
	// fault of the gateway or of a backend.
	Answered int64 `json:"answered"`
	// Failed counts errors and timeouts.
	Failed int64 `json:"failed"`
	// BreakerOpen counts requests that found every circuit breaker open.
	BreakerOpen int64 `json:"breakerOpen"`
	// Limited counts requests that a rate limit, a lack of slots or an overload
	// of the gateway turned away.
	Limited int64 `json:"limited"`
	// Rejected counts the other requests that no backend saw, such as invalid ones.
	Rejected int64 `json:"rejected"`
}

// Totals are the counts of an instance, or of anything else that has requests, in a span of time.
type Totals struct {
	Outcomes            Outcomes
	TokensIn, TokensOut int64
	TokensCached        int64 // the part of TokensIn that came from caches of prompts
	Failovers           int64
	Cost                int64 // in 10^-12 of the currency's unit
	Held                time.Duration
}

// Add adds other counts. Costs stay at the greatest number.
func (t *Totals) Add(other Totals) {
	t.Outcomes.Add(other.Outcomes)
	t.TokensIn += other.TokensIn
	t.TokensOut += other.TokensOut
	t.TokensCached += other.TokensCached
	t.Failovers += other.Failovers
	t.Cost += min(other.Cost, math.MaxInt64-t.Cost)
	t.Held += other.Held
}

// Sub returns how much more the counts are than they were.
func (t Totals) Sub(before Totals) Totals {
	return Totals{
		t.Outcomes.Sub(before.Outcomes), t.TokensIn - before.TokensIn, t.TokensOut - before.TokensOut,
		t.TokensCached - before.TokensCached, t.Failovers - before.Failovers, t.Cost - before.Cost,
		t.Held - before.Held,
	}
}

// ServiceTotals are the counts of a service type since the start, without those
// of its instances.
type ServiceTotals struct {
	// None are the requests that no instance answered.
	None Totals
	// Limited and Rejected are the requests that no backend saw; see Outcomes.
	Limited, Rejected int64
}

// Totals returns the counts since the instance was added.
func (i *Instance) Totals() Totals {
	t := Totals{TokensIn: i.tokensIn.Value(), TokensOut: i.tokensOut.Value(),
		TokensCached: i.tokensCached.Value(), Failovers: i.Failovers.Value(), Cost: i.cost.Value(),
		Held: time.Duration(i.held.Value())}
	// The counts of cancelled requests are incremented after those of requests, so
	// they are read first: that keeps the differences from falling below 0.
	left := i.cancelled[schema.ResultFailed].Value() + i.cancelled[schema.ResultTimedOut].Value()
	t.Outcomes = Outcomes{
		Answered:    i.Requests(schema.ResultSuccess) + left,
		Failed:      i.Requests(schema.ResultFailed) + i.Requests(schema.ResultTimedOut) - left,
		BreakerOpen: i.Requests(schema.ResultBreakerOpen),
	}
	return t
}

// Times are the histograms of an instance. Duration and FirstToken are those of whole requests,
// CallDuration and CallFirst begin when the instance was picked.
type Times struct{ Duration, FirstToken, CallDuration, CallFirst, PerToken *Histogram }

// Times returns the histograms.
func (i *Instance) Times() Times {
	return Times{&i.duration, &i.firstToken, &i.callDuration, &i.callFirst, &i.perToken}
}

// Totals returns the counts of a service type as they are now.
func (r *Registry) Totals(service schema.ServiceType) ServiceTotals {
	s := &r.services[service]
	t := ServiceTotals{None: s.none.Totals(), Limited: s.shed[ShedOverload].Value()}
	for result := range s.rejected {
		switch n := s.rejected[result].Value(); schema.Result(result) {
		case schema.ResultRateLimited, schema.ResultNoSlot:
			t.Limited += n
		default:
			t.Rejected += n
		}
	}
	return t
}

// Unanswered returns the series of the requests of a service type that no instance answered.
func (r *Registry) Unanswered(service schema.ServiceType) *Instance { return &r.services[service].none }

// Overhead returns the histogram of the time that the gateway itself took for requests of a
// service type.
func (r *Registry) Overhead(service schema.ServiceType) *Histogram {
	return &r.services[service].overhead
}

// Add adds other counts.
func (o *Outcomes) Add(other Outcomes) {
	o.Answered += other.Answered
	o.Failed += other.Failed
	o.BreakerOpen += other.BreakerOpen
	o.Limited += other.Limited
	o.Rejected += other.Rejected
}

// Sub returns how much more the counts are than they were.
func (o Outcomes) Sub(before Outcomes) Outcomes {
	return Outcomes{
		Answered: o.Answered - before.Answered, Failed: o.Failed - before.Failed,
		BreakerOpen: o.BreakerOpen - before.BreakerOpen,
		Limited:     o.Limited - before.Limited, Rejected: o.Rejected - before.Rejected,
	}
}

// Total returns the number of requests.
func (o Outcomes) Total() int64 {
	return o.Answered + o.Failed + o.BreakerOpen + o.Limited + o.Rejected
}
