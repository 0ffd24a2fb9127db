package metrics

import (
	"cmp"
	"strings"
	"time"

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

// merged brings together the instances that have the same label. Two paths of one server
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
		if n, there := index[k]; there {
			all[n].add(i)
			continue
		}
		index[k] = len(all)
		all = append(all, mergedInstance{i, []*Instance{i.Series}})
	}
	return all
}

// mergedInstance is all instances with one label, as a scrape shows them.
type mergedInstance struct {
	InstanceView
	series []*Instance
}

// instanceCounts are the counts of instances.
type instanceCounts struct {
	Totals
	requests          [statusCount]int64
	cancelled, mended int64
}

// count adds up the counts.
func (m *mergedInstance) count() (sum instanceCounts) {
	for _, i := range m.series {
		for n := range i.requests {
			sum.requests[n] += i.requests[n].Value()
		}
		sum.Totals.Add(i.Totals())
		sum.cancelled += i.cancelledRequests()
		sum.mended += i.Mended.Value()
	}
	return sum
}

// read adds up a histogram of each.
func (m *mergedInstance) read(bounds []time.Duration, scale time.Duration, of func(*Instance) *Histogram) reading {
	all := make([]*Histogram, len(m.series))
	for n, i := range m.series {
		all[n] = of(i)
	}
	return read(bounds, scale, all...)
}

func (m *mergedInstance) add(i InstanceView) {
	m.series = append(m.series, i.Series)
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
