package metrics

import (
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

// Buckets are the counts of a histogram, the last one without an upper bound.
type Buckets [maxBuckets + 1]uint64

// InstanceTotals are the counts of an instance since it was added.
type InstanceTotals struct {
	Outcomes             Outcomes
	TokensIn, TokensOut  int64
	Failovers            int64
	Cost                 int64 // in 10^-12 of the currency's unit
	Duration, FirstToken Buckets
}

// ServiceTotals are the counts of a service type since the start, without those
// of its instances.
type ServiceTotals struct {
	// None are the requests that no instance answered.
	None InstanceTotals
	// Limited and Rejected are the requests that no backend saw; see Outcomes.
	Limited, Rejected int64
	Overhead          Buckets
}

// Totals returns the counts as they are now.
func (i *Instance) Totals() InstanceTotals {
	t := InstanceTotals{TokensIn: i.tokensIn.Value(), TokensOut: i.tokensOut.Value(), Failovers: i.Failovers.Value(),
		Cost: i.cost.Value()}
	// The counts of cancelled requests are incremented after those of requests, so
	// they are read first: that keeps the differences from falling below 0.
	left := i.cancelled[schema.ResultFailed].Value() + i.cancelled[schema.ResultTimedOut].Value()
	t.Outcomes = Outcomes{
		Answered:    i.Requests(schema.ResultSuccess) + left,
		Failed:      i.Requests(schema.ResultFailed) + i.Requests(schema.ResultTimedOut) - left,
		BreakerOpen: i.Requests(schema.ResultBreakerOpen),
	}
	i.duration.read(&t.Duration)
	i.firstToken.read(&t.FirstToken)
	return t
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
	s.overhead.read(&t.Overhead)
	return t
}

func (h *Histogram) read(to *Buckets) {
	for i := range h.counts {
		to[i] = h.counts[i].Load()
	}
}

// Request counts the duration of a request, or its time to the first token.
func (b *Buckets) Request(d time.Duration) { b[bucketOf(requestBounds, d)]++ }

// RequestQuantile returns the length of time that a part q of the requests in the
// buckets of a duration or of a time to the first token did not exceed. It is
// interpolated within a bucket, and false where there are no requests.
func (b *Buckets) RequestQuantile(q float64) (time.Duration, bool) {
	return b.quantile(q, requestBounds)
}

// OverheadQuantile is RequestQuantile for the buckets of the gateway's own time.
func (b *Buckets) OverheadQuantile(q float64) (time.Duration, bool) {
	return b.quantile(q, overheadBounds)
}

func (b *Buckets) quantile(q float64, bounds []time.Duration) (time.Duration, bool) {
	var count uint64
	for _, n := range b {
		count += n
	}
	if count == 0 {
		return 0, false
	}
	rank := q * float64(count)
	below := time.Duration(0)
	for i, n := range b {
		if i == len(bounds) {
			break // beyond the last bound nothing is known but that it is longer
		}
		if n > 0 && rank <= float64(n) {
			return below + time.Duration(rank/float64(n)*float64(bounds[i]-below)), true
		}
		rank -= float64(n)
		below = bounds[i]
	}
	return below, true
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

// Add adds other counts.
func (b *Buckets) Add(other *Buckets) {
	for i, n := range other {
		b[i] += n
	}
}

// Sub returns how much more the counts are than they were.
func (b *Buckets) Sub(before *Buckets) Buckets {
	var d Buckets
	for i := range b {
		d[i] = b[i] - before[i]
	}
	return d
}
