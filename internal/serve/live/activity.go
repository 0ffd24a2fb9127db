package live

import (
	"math"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// Activity holds the counts of one thing: since the start, and lately.
type Activity struct {
	Requests   metrics.Outcomes `json:"requests" doc:"Since the start; of an instance its calls since it was added."`
	TokensIn   int64            `json:"tokensIn" doc:"Since the start."`
	TokensOut  int64            `json:"tokensOut" doc:"Since the start."`
	LastSecond Window           `json:"lastSecond"`
	LastMinute Window           `json:"lastMinute"`
}

// Window holds the counts and figures of a span of time that ends now.
type Window struct {
	Requests  int64 `json:"requests"`
	Answered  int64 `json:"answered"`
	Errors    int64 `json:"errors" doc:"Failed, or turned away by open circuit breakers."`
	TokensIn  int64 `json:"tokensIn"`
	TokensOut int64 `json:"tokensOut"`
	// TokensCached is the part of TokensIn that came from caches of prompts.
	TokensCached int64 `json:"tokensCached" doc:"Those of tokensIn that came from caches of prompts."`
	Figures
}

// Figures say how fast something was. A figure that nothing is known about is left out.
type Figures struct {
	Latency         *Quantiles `json:"latency,omitzero"`
	TTFT            *Quantiles `json:"ttft,omitzero" doc:"Milliseconds to the first token of streams."`
	PerToken        *Quantiles `json:"perToken,omitzero" doc:"Milliseconds per output token after the first."`
	TokensPerSecond *Quantiles `json:"tokensPerSecond,omitzero"`
	Overhead        *Quantiles `json:"overhead,omitzero" doc:"Milliseconds in the gateway; only of service types."`
}

// Docs says more about some members than a tag has room for.
func (Figures) Docs() map[string]string {
	return map[string]string{
		"latency": "Milliseconds of whole requests; of instances and hosts, of calls from when the instance was " +
			"picked. Figures are never of more than one service type: where several had requests, there are " +
			"none but by service type.",
		"tokensPerSecond": "Output tokens of a stream in a second, after the first: p50, p95 and p99 are what that " +
			"part of the streams reached or exceeded.",
	}
}

// Quantiles are three quantiles, each within 2.5 % of the true one, and how many requests are
// behind them.
type Quantiles struct {
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Count int64   `json:"count" doc:"How many requests were measured."`
}

// ModelKey names a model of a service type.
type ModelKey struct {
	Service schema.ServiceType
	Model   string
}

// HostKey names a host of backends of a service type.
type HostKey struct {
	Service schema.ServiceType
	Host    string
}

// Activities are the counts of everything.
type Activities struct {
	Total     Activity
	Services  [schema.ServiceTypeCount]Activity
	Models    map[ModelKey]Activity
	Instances map[InstanceKey]Activity
}

const minute = 60

// Activities returns the counts up to the last sample.
func (s *Sampler) Activities() Activities {
	s.mu.RLock()
	defer s.mu.RUnlock()
	all := Activities{Models: make(map[ModelKey]Activity, len(s.models)),
		Instances: make(map[InstanceKey]Activity, len(s.instances))}
	var to times
	var sum metrics.Totals
	for service := range s.services {
		own := &s.services[service]
		all.Services[service] = s.activity(&own.sum, own.track, &to)
		sum.Add(own.sum)
	}
	all.Total = s.activity(&sum, s.total(), &to)
	for key, own := range s.models {
		all.Models[key] = s.activity(&own.sum, own.track, &to)
	}
	for key, own := range s.instances {
		all.Instances[key] = s.activity(&own.sum, own.track, &to)
	}
	return all
}

// total returns the history of all service types.
func (s *Sampler) total() services {
	var all services
	for service := range s.services {
		if t := s.services[service].track; t != nil {
			all = append(all, t)
		}
	}
	return all
}

func (s *Sampler) activity(sum *metrics.Totals, of summed, to *times) Activity {
	return Activity{Requests: sum.Outcomes, TokensIn: sum.TokensIn, TokensOut: sum.TokensOut,
		LastSecond: windowOf(of, FiveMinutes, s.second, s.second, to),
		LastMinute: windowOf(of, FiveMinutes, s.second-minute+1, s.second, to)}
}

// windowOf returns the counts and figures of slots of a range. It uses the memory of to.
func windowOf(of summed, r Range, first, last int64, to *times) Window {
	c := of.sum(r, first, last)
	w := Window{Requests: c.Outcomes.Total(), Answered: c.Outcomes.Answered,
		Errors: c.Outcomes.Failed + c.Outcomes.BreakerOpen, TokensIn: c.TokensIn, TokensOut: c.TokensOut,
		TokensCached: c.TokensCached}
	if w.Requests > 0 {
		*to = times{}
		of.times(r, first, last, to)
		w.Figures = figuresOf(to)
	}
	return w
}

func figuresOf(t *times) Figures {
	f := Figures{Latency: quantilesOf(&t[duration]), TTFT: quantilesOf(&t[firstToken]),
		PerToken: quantilesOf(&t[perToken]), Overhead: quantilesOf(&t[overhead])}
	if q := f.PerToken; q != nil && q.P50 > 0 {
		f.TokensPerSecond = &Quantiles{inASecond(q.P50), inASecond(q.P95), inASecond(q.P99), q.Count}
	}
	return f
}

// inASecond returns how often something happens in a second that takes some milliseconds, with
// three decimals.
func inASecond(ms float64) float64 { return math.Round(1e6/ms) / 1000 }

// quantilesOf returns quantiles in milliseconds, nil where there are no requests.
func quantilesOf(d *metrics.Distribution) *Quantiles {
	if d.Count() == 0 {
		return nil
	}
	return &Quantiles{milliseconds(d.Quantile(0.5)), milliseconds(d.Quantile(0.95)), milliseconds(d.Quantile(0.99)),
		d.Count()}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Usage is the use of an instance in a range.
type Usage struct {
	Calls, Errors int64
	Latency       *Quantiles
}

// Usage returns how much each instance was used in a range.
func (s *Sampler) Usage(r Range) map[InstanceKey]Usage {
	s = s.of(r)
	s.mu.RLock()
	defer s.mu.RUnlock()
	used := make(map[InstanceKey]Usage, len(s.instances))
	last := s.latest() / shapes[r].step
	var to times
	for key, own := range s.instances {
		w := windowOf(own.track, r, last-shapes[r].points+1, last, &to)
		used[key] = Usage{Calls: w.Requests, Errors: w.Errors, Latency: w.Latency}
	}
	return used
}

// StartedAt returns when counting began.
func (s *Sampler) StartedAt() time.Time { return s.started.UTC() }
