package metrics

import (
	"cmp"
	"math"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// gathered collects series by family. It does not look for duplicates: hundreds
// of instances have thousands of series, and comparing them takes longer than
// writing them. So each series must be added once only.
type gathered struct {
	families []Family
	places   map[string]int // of the families, by name
	all      []*dto.MetricFamily
}

func newGathered(families []Family, places map[string]int) *gathered {
	s := &gathered{families: families, places: places, all: make([]*dto.MetricFamily, len(families))}
	for i, f := range families {
		s.all[i] = &dto.MetricFamily{Name: proto.String(f.Name), Help: proto.String(f.Help),
			Type: kindTypes[f.Kind].Enum()}
	}
	return s
}

var kindTypes = [...]dto.MetricType{
	KindCounter: dto.MetricType_COUNTER, KindGauge: dto.MetricType_GAUGE, KindHistogram: dto.MetricType_HISTOGRAM,
	KindSummary: dto.MetricType_SUMMARY,
}

// filled returns the families that have series.
func (s *gathered) filled() []*dto.MetricFamily {
	return slices.DeleteFunc(s.all, func(f *dto.MetricFamily) bool { return len(f.Metric) == 0 })
}

// add adds a series to the family with a name, which must be declared. The values
// belong to the family's labels, in their order; the last ones may be left out.
func (s *gathered) add(family string, m *dto.Metric, values []string) {
	place := s.places[family]
	labels := s.families[place].Labels
	pairs := make([]dto.LabelPair, len(values))
	m.Label = make([]*dto.LabelPair, len(values))
	for i := range values {
		values[i] = strings.ToValidUTF8(values[i], "\uFFFD")
		pairs[i].Name, pairs[i].Value = &labels[i], &values[i]
		m.Label[i] = &pairs[i]
	}
	sortLabels(m.Label)
	s.all[place].Metric = append(s.all[place].Metric, m)
}

func sortLabels(labels []*dto.LabelPair) {
	slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return cmp.Compare(*a.Name, *b.Name) })
}

// value adds a counter or a gauge.
func (s *gathered) value(family string, v float64, labels ...string) {
	if s.families[s.places[family]].Kind == KindCounter {
		s.add(family, &dto.Metric{Counter: &dto.Counter{Value: &v}}, labels)
		return
	}
	s.add(family, &dto.Metric{Gauge: &dto.Gauge{Value: &v}}, labels)
}

// timer adds a count and a sum.
func (s *gathered) timer(family string, count uint64, sum float64, labels ...string) {
	s.add(family, &dto.Metric{Summary: &dto.Summary{SampleCount: &count, SampleSum: &sum}}, labels)
}

// longest adds a histogram, and its longest length of time as a family of its own.
func (s *gathered) longest(family string, h reading, labels ...string) {
	s.histogram(family, &h, labels...)
	s.value(family+"_max", h.max.Seconds(), labels...)
}

// histogram adds a histogram with its exemplars.
func (s *gathered) histogram(family string, h *reading, labels ...string) {
	buckets := make([]dto.Bucket, len(h.bounds)+1)
	list := make([]*dto.Bucket, len(buckets))
	counts, bounds := make([]uint64, len(buckets)), make([]float64, len(buckets))
	var below uint64
	for i := range buckets {
		at := i
		bounds[i] = math.Inf(1)
		if i < len(h.bounds) {
			bounds[i] = h.bounds[i].Seconds()
		} else {
			at = maxBuckets
		}
		below += h.counts[at]
		counts[i] = below
		buckets[i].UpperBound, buckets[i].CumulativeCount = &bounds[i], &counts[i]
		if e := h.exemplars[at]; e != nil {
			buckets[i].Exemplar = exemplarOf(e)
		}
		list[i] = &buckets[i]
	}
	sum := h.sum.Seconds()
	s.add(family, &dto.Metric{Histogram: &dto.Histogram{SampleCount: &h.count, SampleSum: &sum, Bucket: list}}, labels)
}

func exemplarOf(e *exemplar) *dto.Exemplar {
	return &dto.Exemplar{
		Label: []*dto.LabelPair{{Name: proto.String("trace_id"), Value: proto.String(e.trace)}},
		Value: proto.Float64(e.took.Seconds()), Timestamp: timestamppb.New(e.at),
	}
}
