package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/prices"
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
	PerToken Metric = "perToken"
	Tokens   Metric = "tokens"
	Overhead Metric = "overhead"
	Cost     Metric = "cost"
	// Whole is one value for all points of the range together.
	Whole Metric = "whole"
)

// Metrics returns every metric.
func Metrics() []Metric {
	return []Metric{Requests, Latency, TTFT, PerToken, Tokens, Overhead, Cost, Whole}
}

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
	ByHost     Grouping = "host"
	ByTenant   Grouping = "tenant"
)

// Groupings returns the name of every grouping.
func Groupings() []string {
	return []string{string(Total), string(ByService), string(ByModel), string(ByInstance), string(ByHost),
		string(ByTenant)}
}

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
	StartedAt   time.Time    `json:"startedAt" doc:"When the history begins; there are no points before."`
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

// TimeSeries is the history of a service type, of a model, of an instance, of a host, of a tenant
// or of all.
type TimeSeries struct {
	Service    *schema.ServiceType `json:"service,omitzero"`
	Model      string              `json:"model,omitzero"`
	InstanceID string              `json:"instanceId,omitzero"`
	Host       string              `json:"host,omitzero"`
	Tenant     string              `json:"tenant,omitzero"`
	Requests   *RequestSeries      `json:"requests,omitzero" doc:"Requests that ended; of an instance, calls."`
	Tokens     *TokenSeries        `json:"tokens,omitzero" doc:"Tokens that backends reported in each step."`
	Latency    *QuantileSeries     `json:"latency,omitzero"`
	TTFT       *QuantileSeries     `json:"ttft,omitzero" doc:"Time to the first token of streams, in milliseconds."`
	PerToken   *QuantileSeries     `json:"perToken,omitzero" doc:"Milliseconds per output token after the first."`
	Overhead   *QuantileSeries     `json:"overhead,omitzero" doc:"Milliseconds in the gateway; of services and in all."`
	Cost       *Counts             `json:"cost,omitzero" doc:"Of ended requests, in millionths of the currency."`
	Whole      *Window             `json:"whole,omitzero" doc:"What all points come to."`
}

// Docs says more about some members than a tag has room for.
func (TimeSeries) Docs() map[string]string {
	return map[string]string{
		"latency": "How long whole requests took, in milliseconds, over the last 10 seconds, 30 seconds or 5 " +
			"minutes, by range. Of instances and hosts: how long calls took. Null where requests of more than " +
			"one service type ended, as for ttft, perToken and overhead.",
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

// QuantileSeries are three quantiles; null where there were no requests.
type QuantileSeries struct {
	P50   []*float64 `json:"p50"`
	P95   []*float64 `json:"p95"`
	P99   []*float64 `json:"p99"`
	Count []int64    `json:"count" doc:"How many requests were measured."`
}

// History answers a query. Of a time before the history begins it has nothing.
func (s *Sampler) History(q Query) History {
	begun := s.started
	if q.Range != FiveMinutes {
		begun = s.archive.begun(begun)
	}
	s = s.of(q.Range)
	s.mu.RLock()
	defer s.mu.RUnlock()
	shape := shapes[q.Range]
	last := s.latest() / shape.step
	h := History{
		StartedAt: begun.UTC(), Range: q.Range, StepSeconds: shape.step, Points: shape.points,
		From: time.Unix((last-shape.points+1)*shape.step, 0).UTC(), Watched: make([]int64, 0, shape.points),
		Series: []TimeSeries{},
	}
	for slot := last - shape.points + 1; slot <= last; slot++ {
		h.Watched = append(h.Watched, s.watched.seconds(q.Range, slot))
	}
	switch q.By {
	case ByService:
		for _, service := range schema.ServiceTypes() {
			if t := s.services[service].track; t != nil && q.wants(service, "") {
				h.Series = append(h.Series, s.render(q, t, TimeSeries{Service: &service}))
			}
		}
	case ByModel:
		h.Series, h.Omitted = s.byModel(q)
	case ByInstance, ByHost:
		h.Series, h.Omitted = s.byInstance(q)
	case ByTenant:
		h.Series = s.byTenant(q)
	default:
		h.Series = append(h.Series, s.render(q, s.total(), TimeSeries{}))
	}
	slices.SortFunc(h.Series, func(a, b TimeSeries) int {
		return cmp.Or(cmp.Compare(a.service(), b.service()), cmp.Compare(a.InstanceID, b.InstanceID),
			cmp.Compare(a.Model, b.Model), cmp.Compare(a.Host+a.Tenant, b.Host+b.Tenant))
	})
	return h
}

func (t *TimeSeries) service() schema.ServiceType {
	if t.Service == nil {
		return 0
	}
	return *t.Service
}

// byModel returns the history of each model, and how many models have none though they had
// requests. A request counts once, however many instances were tried.
func (s *Sampler) byModel(q Query) (list []TimeSeries, omitted int) {
	list = []TimeSeries{}
	for key, own := range s.models {
		if !q.wants(key.Service, "") || q.Model != "" && q.Model != key.Model {
			continue
		}
		if own.isOmitted() {
			omitted++
		}
		if own.track != nil {
			list = append(list, s.render(q, own.track, TimeSeries{Service: &key.Service, Model: key.Model}))
		}
	}
	return list, omitted
}

// byInstance returns the history of each instance, or of each host and service type, and how
// many instances have none though they had calls.
func (s *Sampler) byInstance(q Query) (list []TimeSeries, omitted int) {
	list = []TimeSeries{}
	hosts := map[HostKey]tracks{}
	for key, own := range s.instances {
		host := HostKey{key.Service, calls.HostOf(key.ID)}
		if !q.wants(key.Service, key.ID) || q.Model != "" && q.Model != own.model ||
			q.Host != "" && q.Host != host.Host {
			continue
		}
		if own.isOmitted() {
			omitted++
		}
		switch {
		case own.track == nil:
		case q.By == ByHost:
			hosts[host] = append(hosts[host], own.track)
		default:
			list = append(list, s.render(q, own.track,
				TimeSeries{Service: &key.Service, Model: own.model, InstanceID: key.ID}))
		}
	}
	for key, of := range hosts {
		list = append(list, s.render(q, of, TimeSeries{Service: &key.Service, Host: key.Host}))
	}
	return list, omitted
}

// byTenant returns the history of each tenant and service type.
func (s *Sampler) byTenant(q Query) []TimeSeries {
	list := []TimeSeries{}
	for key, own := range s.tenants {
		if (q.Tenant == "" || q.Tenant == key.tenant) && q.wants(key.service, "") {
			list = append(list, s.render(q, own, TimeSeries{Service: &key.service, Tenant: key.tenant}))
		}
	}
	return list
}

func (q *Query) wants(service schema.ServiceType, instance string) bool {
	return (q.Service == nil || *q.Service == service) && (q.Instance == "" || instance == "" || q.Instance == instance)
}

// summed is the source that a history is rendered from.
type summed interface {
	sum(r Range, first, last int64) metrics.Totals
	times(r Range, first, last int64, to *times)
}

// render shows the history of a track. Only service types and the total have overhead.
func (s *Sampler) render(q Query, t summed, out TimeSeries) TimeSeries {
	shape := shapes[q.Range]
	last := s.latest() / shape.step
	var to times
	shown := [timeCount]*QuantileSeries{}
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
		case PerToken:
			out.PerToken = newQuantiles(shape.points)
		case Overhead:
			if out.Model+out.InstanceID+out.Host+out.Tenant == "" {
				out.Overhead = newQuantiles(shape.points)
			}
		case Cost:
			out.Cost = new(Counts)
		case Whole:
			whole := windowOf(t, q.Range, last-shape.points+1, last, &to)
			out.Whole = &whole
		}
	}
	shown[duration], shown[firstToken], shown[perToken] = out.Latency, out.TTFT, out.PerToken
	shown[overhead] = out.Overhead
	for slot := last - shape.points + 1; slot <= last; slot++ {
		known := s.watched.seconds(q.Range, slot) > 0
		own := t.sum(q.Range, slot, slot)
		out.Requests.add(known, own.Outcomes)
		out.Tokens.add(known, &own)
		out.Cost.add(known, prices.Amount(own.Cost).Micros())
		if shown == ([timeCount]*QuantileSeries{}) {
			continue
		}
		if to = (times{}); known {
			t.times(q.Range, slot-shape.window+1, slot, &to)
		}
		for kind, series := range shown {
			series.add(quantilesOf(&to[kind]))
		}
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

func (t *TokenSeries) add(known bool, c *metrics.Totals) {
	if t != nil {
		t.Input.add(known, c.TokensIn)
		t.Output.add(known, c.TokensOut)
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
	return &QuantileSeries{make([]*float64, 0, points), make([]*float64, 0, points), make([]*float64, 0, points),
		make([]int64, 0, points)}
}

func (s *QuantileSeries) add(q *Quantiles) {
	switch {
	case s == nil:
	case q == nil:
		s.P50, s.P95, s.P99, s.Count = append(s.P50, nil), append(s.P95, nil), append(s.P99, nil), append(s.Count, 0)
	default:
		s.P50, s.P95, s.P99 = append(s.P50, &q.P50), append(s.P95, &q.P95), append(s.P99, &q.P99)
		s.Count = append(s.Count, q.Count)
	}
}
