package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/prices"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// Metric is a quantity with a history.
type Metric string

// The metrics.
const (
	Requests Metric = "requests"
	Latency  Metric = "latency"
	TTFT     Metric = "ttft"
	Tokens   Metric = "tokens"
	Overhead Metric = "overhead"
	Cost     Metric = "cost"
	// Whole is one value for all points of the range together.
	Whole Metric = "whole"
)

// Metrics returns every metric.
func Metrics() []Metric { return []Metric{Requests, Latency, TTFT, Tokens, Overhead, Cost, Whole} }

// ParseMetrics reads names with commas between them; all where there are none.
func ParseMetrics(names string) ([]Metric, error) {
	if names == "" {
		return Metrics(), nil
	}
	var list []Metric
	for name := range strings.SplitSeq(names, ",") {
		if !slices.Contains(Metrics(), Metric(name)) {
			return nil, fmt.Errorf("%q is none of %v", name, Metrics())
		}
		list = append(list, Metric(name))
	}
	return list, nil
}

// Grouping is the thing that each series describes.
type Grouping string

// The groupings.
const (
	Total      Grouping = "total"
	ByService  Grouping = "service"
	ByModel    Grouping = "model"
	ByInstance Grouping = "instance"
	ByTenant   Grouping = "tenant"
)

// Query asks for a part of the history.
type Query struct {
	Metrics []Metric
	By      Grouping
	Range   Range
	// Service, Model, Instance, Host and Tenant narrow the series; nil and empty mean all.
	Service  *schema.ServiceType
	Model    string // of instances
	Instance string
	Host     string // of instances
	Tenant   string
}

// History is a part of the history. Every list in it has as many points, one for
// each step, the oldest first.
type History struct {
	StartedAt   time.Time    `json:"startedAt" doc:"When counting began; there are no points before."`
	Range       Range        `json:"range"`
	StepSeconds int64        `json:"stepSeconds"`
	From        time.Time    `json:"from" doc:"When the first point begins; the next one begins a step later."`
	Points      int64        `json:"points"`
	Watched     []int64      `json:"watched"`
	Series      []TimeSeries `json:"series"`
	Omitted     int          `json:"omitted" doc:"Instances with requests for whose history there was no room."`
}

// Docs says more about some members than a tag has room for.
func (History) Docs() map[string]string {
	return map[string]string{
		"watched": "How many seconds of each point were counted, so that a rate is a count by them: fewer than " +
			"a step in the last point, which has not ended, and in the first one after a start.",
	}
}

// TimeSeries is the history of a service type, of a model, of an instance, of a tenant or of all.
type TimeSeries struct {
	Service    *schema.ServiceType `json:"service,omitzero"`
	Model      string              `json:"model,omitzero"`
	InstanceID string              `json:"instanceId,omitzero"`
	Tenant     string              `json:"tenant,omitzero"`
	Requests   *RequestSeries      `json:"requests,omitzero" doc:"Requests that ended; of an instance, calls."`
	Tokens     *TokenSeries        `json:"tokens,omitzero" doc:"Tokens that backends reported in each step."`
	Latency    *QuantileSeries     `json:"latency,omitzero"`
	TTFT       *QuantileSeries     `json:"ttft,omitzero" doc:"Time to the first token of streams, in milliseconds."`
	Overhead   *QuantileSeries     `json:"overhead,omitzero" doc:"Milliseconds in the gateway; of services and in all."`
	Cost       *Counts             `json:"cost,omitzero" doc:"Of ended requests, in millionths of the currency."`
	Whole      *Window             `json:"whole,omitzero" doc:"What all points come to."`
}

// Docs says more about some members than a tag has room for.
func (TimeSeries) Docs() map[string]string {
	return map[string]string{
		"latency": "How long whole requests took, in milliseconds, over the last 10 seconds, 30 seconds or 5 " +
			"minutes, by range.",
	}
}

// Counts are the counts of each step; null where nothing was watched.
type Counts []*int64

// RequestSeries counts requests by how they ended.
type RequestSeries struct {
	Answered    Counts `json:"answered"`
	Failed      Counts `json:"failed"`
	BreakerOpen Counts `json:"breakerOpen"`
	Limited     Counts `json:"limited"`
	Rejected    Counts `json:"rejected"`
}

// TokenSeries counts tokens.
type TokenSeries struct {
	Input  Counts `json:"input"`
	Output Counts `json:"output"`
}

// QuantileSeries are two quantiles; null where there were no requests.
type QuantileSeries struct {
	P50 []*float64 `json:"p50"`
	P95 []*float64 `json:"p95"`
}

// History answers a query.
func (s *Sampler) History(q Query) History {
	s.mu.RLock()
	defer s.mu.RUnlock()
	shape := shapes[q.Range]
	last := s.second / shape.step
	h := History{
		StartedAt: s.started.UTC(), Range: q.Range, StepSeconds: shape.step, Points: shape.points,
		From: time.Unix((last-shape.points+1)*shape.step, 0).UTC(), Watched: make([]int64, 0, shape.points),
		Series: []TimeSeries{},
	}
	for slot := last - shape.points + 1; slot <= last; slot++ {
		h.Watched = append(h.Watched, s.watched.seconds(q.Range, slot))
	}
	switch q.By {
	case ByService:
		for _, service := range schema.ServiceTypes() {
			if t := &s.services[service].track; t.points[0] != nil && q.wants(service, "") {
				h.Series = append(h.Series, s.render(q, t, TimeSeries{Service: &service}, false))
			}
		}
	case ByModel:
		h.Series, h.Omitted = s.byModel(q)
	case ByInstance:
		for key, own := range s.instances {
			if !q.wants(key.Service, key.ID) || q.Model != "" && q.Model != own.model ||
				q.Host != "" && q.Host != calls.HostOf(key.ID) {
				continue
			}
			if own.isOmitted() {
				h.Omitted++
			}
			if own.track == nil {
				continue
			}
			service := key.Service
			h.Series = append(h.Series, s.render(q, own.track,
				TimeSeries{Service: &service, Model: own.model, InstanceID: key.ID}, true))
		}
		slices.SortFunc(h.Series, func(a, b TimeSeries) int {
			return cmp.Or(cmp.Compare(*a.Service, *b.Service), cmp.Compare(a.InstanceID, b.InstanceID))
		})
	case ByTenant:
		for name, own := range s.tenants {
			if q.Tenant == "" || q.Tenant == name {
				h.Series = append(h.Series, s.render(q, own, TimeSeries{Tenant: name}, true))
			}
		}
		slices.SortFunc(h.Series, func(a, b TimeSeries) int { return cmp.Compare(a.Tenant, b.Tenant) })
	default:
		h.Series = append(h.Series, s.render(q, &s.total.track, TimeSeries{}, false))
	}
	return h
}

// isOmitted reports whether the instance had requests and there was no room for their history.
func (own *instanceSeries) isOmitted() bool {
	return own.track == nil && own.read.Outcomes.Total() > 0
}

// byModel returns the history of each model with instances that have one, and the number of
// omitted instances. A request counts once, however many of them were tried.
func (s *Sampler) byModel(q Query) (list []TimeSeries, omitted int) {
	q.Metrics = slices.DeleteFunc(slices.Clone(q.Metrics), func(m Metric) bool { return m == Overhead })
	parts := map[ModelKey]tracks{}
	for key, own := range s.instances {
		if !q.wants(key.Service, "") || q.Model != "" && q.Model != own.model {
			continue
		}
		if own.isOmitted() {
			omitted++
		}
		if own.track != nil {
			model := ModelKey{key.Service, own.model}
			parts[model] = append(parts[model], own.track)
		}
	}
	list = make([]TimeSeries, 0, len(parts))
	for key, of := range parts {
		service := key.Service
		list = append(list, s.render(q, of, TimeSeries{Service: &service, Model: key.Model}, false))
	}
	slices.SortFunc(list, func(a, b TimeSeries) int {
		return cmp.Or(cmp.Compare(*a.Service, *b.Service), cmp.Compare(a.Model, b.Model))
	})
	return list, omitted
}

func (q *Query) wants(service schema.ServiceType, instance string) bool {
	return (q.Service == nil || *q.Service == service) && (q.Instance == "" || instance == "" || q.Instance == instance)
}

// summed is the source that a history is rendered from.
type summed interface {
	sum(r Range, first, last int64) counts
}

// render shows the history of a track. The history of a part has no overhead.
func (s *Sampler) render(q Query, t summed, out TimeSeries, isPart bool) TimeSeries {
	shape := shapes[q.Range]
	last := s.second / shape.step
	for _, metric := range q.Metrics {
		switch metric {
		case Requests:
			out.Requests = new(RequestSeries)
		case Tokens:
			out.Tokens = new(TokenSeries)
		case Latency:
			out.Latency = newQuantiles(shape.points)
		case TTFT:
			out.TTFT = newQuantiles(shape.points)
		case Overhead:
			if !isPart {
				out.Overhead = newQuantiles(shape.points)
			}
		case Cost:
			out.Cost = new(Counts)
		case Whole:
			all := t.sum(q.Range, last-shape.points+1, last)
			if isPart {
				all.outcomes.Failed += all.failovers
			}
			whole := windowOf(&all)
			out.Whole = &whole
		}
	}
	for slot := last - shape.points + 1; slot <= last; slot++ {
		known := s.watched.seconds(q.Range, slot) > 0
		own := t.sum(q.Range, slot, slot)
		if isPart {
			own.outcomes.Failed += own.failovers
		}
		out.Requests.add(known, own.outcomes)
		out.Tokens.add(known, &own)
		out.Cost.add(known, prices.Amount(own.cost).Micros())
		if !known || out.Latency == nil && out.TTFT == nil && out.Overhead == nil {
			out.Latency.add(nil, nil)
			out.TTFT.add(nil, nil)
			out.Overhead.add(nil, nil)
			continue
		}
		window := own
		if shape.window > 1 {
			window = t.sum(q.Range, slot-shape.window+1, slot)
		}
		out.Latency.add(quantiles(&window.duration, (*metrics.Buckets).RequestQuantile))
		out.TTFT.add(quantiles(&window.firstToken, (*metrics.Buckets).RequestQuantile))
		out.Overhead.add(quantiles(&window.overhead, (*metrics.Buckets).OverheadQuantile))
	}
	return out
}

func (r *RequestSeries) add(known bool, o metrics.Outcomes) {
	if r == nil {
		return
	}
	r.Answered.add(known, o.Answered)
	r.Failed.add(known, o.Failed)
	r.BreakerOpen.add(known, o.BreakerOpen)
	r.Limited.add(known, o.Limited)
	r.Rejected.add(known, o.Rejected)
}

func (t *TokenSeries) add(known bool, c *counts) {
	if t != nil {
		t.Input.add(known, c.tokensIn)
		t.Output.add(known, c.tokensOut)
	}
}

func (c *Counts) add(known bool, n int64) {
	if c == nil {
		return
	}
	if !known {
		*c = append(*c, nil)
		return
	}
	*c = append(*c, &n)
}

func newQuantiles(points int64) *QuantileSeries {
	return &QuantileSeries{P50: make([]*float64, 0, points), P95: make([]*float64, 0, points)}
}

func (q *QuantileSeries) add(p50, p95 *float64) {
	if q != nil {
		q.P50, q.P95 = append(q.P50, p50), append(q.P95, p95)
	}
}

// quantiles returns two quantiles in milliseconds, nil where there are no
// requests.
func quantiles(b *metrics.Buckets, of func(*metrics.Buckets, float64) (time.Duration, bool)) (p50, p95 *float64) {
	return inMilliseconds(of(b, 0.5)), inMilliseconds(of(b, 0.95))
}

func inMilliseconds(d time.Duration, known bool) *float64 {
	if !known {
		return nil
	}
	ms := float64(d.Microseconds()) / 1000
	return &ms
}
