package live

import (
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

// Window holds the counts of a span of time that ends now.
type Window struct {
	Requests  int64      `json:"requests"`
	Errors    int64      `json:"errors" doc:"Failed, or turned away by open circuit breakers."`
	TokensIn  int64      `json:"tokensIn"`
	TokensOut int64      `json:"tokensOut"`
	Latency   *Quantiles `json:"latency,omitzero" doc:"Milliseconds of whole requests."`
	TTFT      *Quantiles `json:"ttft,omitzero" doc:"Milliseconds to the first token of streams."`
	Overhead  *Quantiles `json:"overhead,omitzero" doc:"Milliseconds in the gateway; not of models and instances."`
}

// Quantiles are two quantiles in milliseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// ModelKey names a model of a service type.
type ModelKey struct {
	Service schema.ServiceType
	Model   string
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
	all := Activities{Models: map[ModelKey]Activity{}, Instances: make(map[InstanceKey]Activity, len(s.instances))}
	all.Total = s.activity(&s.total)
	for service := range s.services {
		all.Services[service] = s.activity(&s.services[service])
	}
	type windows struct{ sum, second, minute counts }
	models := map[ModelKey]*windows{}
	for key, own := range s.instances {
		w := windows{
			sum:    difference(&own.read, new(metrics.InstanceTotals)),
			second: own.track.sum(FiveMinutes, s.second, s.second),
			minute: own.track.sum(FiveMinutes, s.second-minute+1, s.second),
		}
		model := models[ModelKey{key.Service, own.model}]
		if model == nil {
			model = new(windows)
			models[ModelKey{key.Service, own.model}] = model
		}
		model.sum.add(&w.sum)
		model.second.add(&w.second)
		model.minute.add(&w.minute)
		for _, c := range []*counts{&w.sum, &w.second, &w.minute} {
			c.outcomes.Failed += c.failovers // of an instance, calls count
		}
		all.Instances[key] = activityOf(&w.sum, &w.second, &w.minute)
	}
	for key, w := range models {
		all.Models[key] = activityOf(&w.sum, &w.second, &w.minute)
	}
	return all
}

func (s *Sampler) activity(of *series) Activity {
	second, last := of.track.sum(FiveMinutes, s.second, s.second),
		of.track.sum(FiveMinutes, s.second-minute+1, s.second)
	return activityOf(&of.sum, &second, &last)
}

func activityOf(sum, second, last *counts) Activity {
	return Activity{Requests: sum.outcomes, TokensIn: sum.tokensIn, TokensOut: sum.tokensOut,
		LastSecond: windowOf(second), LastMinute: windowOf(last)}
}

func windowOf(c *counts) Window {
	return Window{
		Requests: c.outcomes.Total(), Errors: c.outcomes.Failed + c.outcomes.BreakerOpen, TokensIn: c.tokensIn,
		TokensOut: c.tokensOut,
		Latency:   quantilesOf(&c.duration, (*metrics.Buckets).RequestQuantile),
		TTFT:      quantilesOf(&c.firstToken, (*metrics.Buckets).RequestQuantile),
		Overhead:  quantilesOf(&c.overhead, (*metrics.Buckets).OverheadQuantile),
	}
}

// quantilesOf returns two quantiles in milliseconds, nil where there are no requests.
func quantilesOf(b *metrics.Buckets, of func(*metrics.Buckets, float64) (time.Duration, bool)) *Quantiles {
	p50, p95 := quantiles(b, of)
	if p50 == nil {
		return nil
	}
	return &Quantiles{*p50, *p95}
}

// Usage is the use of an instance in a range.
type Usage struct {
	Calls, Errors int64
	Latency       *Quantiles
}

// Usage returns how much each instance was used in a range.
func (s *Sampler) Usage(r Range) map[InstanceKey]Usage {
	s.mu.RLock()
	defer s.mu.RUnlock()
	used := make(map[InstanceKey]Usage, len(s.instances))
	last := s.second / shapes[r].step
	for key, own := range s.instances {
		c := own.track.sum(r, last-shapes[r].points+1, last)
		c.outcomes.Failed += c.failovers
		used[key] = Usage{Calls: c.outcomes.Total(), Errors: c.outcomes.Failed,
			Latency: quantilesOf(&c.duration, (*metrics.Buckets).RequestQuantile)}
	}
	return used
}

// StartedAt returns when counting began.
func (s *Sampler) StartedAt() time.Time { return s.started.UTC() }
