package metrics

import (
	"cmp"
	"math"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// State takes the living state of the gateway at one moment, as far as a scrape shows it.
type State struct {
	Instances []InstanceView
	to        *gathered
}

// Value adds a series to the family with a name, the name in a scrape with the default
// prefix. The labels are the values of the family's labels, in their order; the last ones
// may be left out.
func (s *State) Value(family string, v float64, labels ...string) { s.to.value(family, v, labels...) }

// Count is Value for a number of things.
func (s *State) Count(family string, n int64, labels ...string) {
	s.Value(family, float64(n), labels...)
}

// Flag is Value for something that is so, 1, or is not, 0.
func (s *State) Flag(family string, is bool, labels ...string) {
	s.Value(family, boolValue(is), labels...)
}

// Store adds the two families of something that may fail, which have this beginning.
func (s *State) Store(name string, isHealthy bool, failures int64, labels ...string) {
	s.Flag(name+"_healthy", isHealthy, labels...)
	s.Count(name+"_failures_total", failures, labels...)
}

// InstanceView is the state of a configured instance.
type InstanceView struct {
	Service schema.ServiceType
	// Label names the instance without scheme, path and credentials.
	Label    string
	Series   *Instance
	InFlight int64
	// Breaker is 0 for closed, 1 for open, 2 for half open.
	Breaker int
	Weight  float64
	Tier    int
	Healthy bool
	// Slots is how many requests it gets at a time where that is learned, otherwise 0.
	Slots int
	// Engine is the fleet's knowledge of it; nil where its strategy needs none.
	Engine *EngineView
}

// EngineView is the fleet's knowledge of an instance.
type EngineView struct {
	// Queue is how many seconds of prefill a new request would find there.
	Queue float64
	// Waiting and Decoding are calls before and after their first token, Others the calls
	// of other gateways before it.
	Waiting, Decoding, Others int
	// Cached is how many bytes of prompts it is believed to have cached.
	Cached int64
	// Calls counts the recently answered ones, and HitRate is the share of their prompts'
	// tokens that came from its cache.
	Calls   int
	HitRate float64
	// Saved is the share of the work on prompts that caches saved.
	Saved float64
	// PerToken and PerOutput are the seconds for a token of a prompt and of an answer.
	PerToken, PerOutput float64
}

// merged adds up the instances that have the same label. Two paths of one server
// have different identifiers, but labels do not show paths.
func merged(instances []InstanceView) []mergedInstance {
	type key struct {
		service schema.ServiceType
		label   string
	}
	index := make(map[key]int, len(instances))
	all := make([]mergedInstance, 0, len(instances))
	for _, i := range instances {
		i.Label = strings.ToValidUTF8(i.Label, "\uFFFD") // before they are compared
		k := key{i.Service, i.Label}
		n, there := index[k]
		if !there {
			index[k] = len(all)
			all = append(all, newMerged(i))
			continue
		}
		all[n].add(i)
	}
	return all
}

// mergedInstance holds the values of all instances with one label, as a scrape shows them.
type mergedInstance struct {
	InstanceView
	requests                     [statusCount]int64
	cancelled, failovers, mended int64
	tokensIn, tokensOut          int64
	tokensCached                 int64
	cost                         int64
	duration, firstToken         HistogramSnapshot
	perToken                     HistogramSnapshot
	estimate                     HistogramSnapshot
}

func newMerged(i InstanceView) mergedInstance {
	m := mergedInstance{InstanceView: i}
	m.duration, m.firstToken, m.perToken, m.estimate = i.Series.snapshots()
	m.addCounts(i.Series)
	return m
}

// snapshots returns the histograms as a scrape shows them.
func (i *Instance) snapshots() (duration, firstToken, perToken, estimate HistogramSnapshot) {
	duration = i.duration.Snapshot(requestBounds)
	for n := range i.exemplars {
		duration.exemplars[n] = i.exemplars[n].Load()
	}
	return duration, i.firstToken.Snapshot(requestBounds), i.perToken.Snapshot(tokenBounds),
		i.estimate.snapshot(ratioBounds, ratioScale)
}

func (m *mergedInstance) addCounts(s *Instance) {
	for n := range s.requests {
		m.requests[n] += s.requests[n].Value()
	}
	m.cancelled += s.cancelledRequests()
	m.failovers += s.Failovers.Value()
	m.mended += s.Mended.Value()
	m.tokensIn += s.tokensIn.Value()
	m.tokensOut += s.tokensOut.Value()
	m.tokensCached += s.tokensCached.Value()
	m.cost += min(s.cost.Value(), math.MaxInt64-m.cost)
}

func (m *mergedInstance) add(i InstanceView) {
	m.addCounts(i.Series)
	duration, firstToken, perToken, estimate := i.Series.snapshots()
	m.duration.merge(&duration)
	m.firstToken.merge(&firstToken)
	m.perToken.merge(&perToken)
	m.estimate.merge(&estimate)
	m.Slots += i.Slots
	m.InFlight += i.InFlight
	m.Weight += i.Weight
	m.Tier = min(m.Tier, i.Tier)
	m.Healthy = m.Healthy || i.Healthy
	m.Engine = m.Engine.with(i.Engine)
	if i.Breaker == 1 || m.Breaker == 0 { // an open one says most
		m.Breaker = i.Breaker
	}
}

// with merges the knowledge of two instances. Either may be nil.
func (e *EngineView) with(other *EngineView) *EngineView {
	if e == nil || other == nil {
		return cmp.Or(e, other)
	}
	sum := EngineView{
		Queue: max(e.Queue, other.Queue), PerToken: max(e.PerToken, other.PerToken),
		PerOutput: max(e.PerOutput, other.PerOutput),
		Waiting:   e.Waiting + other.Waiting, Decoding: e.Decoding + other.Decoding, Others: e.Others + other.Others,
		Cached: e.Cached + other.Cached, Calls: e.Calls + other.Calls,
	}
	if sum.Calls > 0 {
		sum.HitRate = (e.HitRate*float64(e.Calls) + other.HitRate*float64(other.Calls)) / float64(sum.Calls)
		sum.Saved = (e.Saved*float64(e.Calls) + other.Saved*float64(other.Calls)) / float64(sum.Calls)
	}
	return &sum
}
