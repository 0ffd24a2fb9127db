package telemetry

import (
	"slices"
	"sync"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// instrument is a histogram of the GenAI semantic conventions.
type instrument uint8

// The instruments.
const (
	operationDuration instrument = iota
	requestDuration
	timeToFirstToken
	timePerOutputToken
	tokenUsage

	instrumentCount = int(tokenUsage) + 1
)

// instruments describes them, with the bounds that the conventions recommend.
var instruments = [instrumentCount]struct {
	name, unit, about string
	bounds            []float64
}{
	operationDuration: {
		"gen_ai.client.operation.duration", "s", "Time that one call of a backend took.",
		[]float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92},
	},
	requestDuration: {
		"gen_ai.server.request.duration", "s", "Time from the arrival of a request to the end of its answer.",
		[]float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92},
	},
	timeToFirstToken: {
		"gen_ai.server.time_to_first_token", "s",
		"Time from the arrival of a request to the first content of its streamed answer.",
		[]float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10},
	},
	timePerOutputToken: {
		"gen_ai.server.time_per_output_token", "s", "Time per output token of a streamed answer after the first one.",
		[]float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5},
	},
	tokenUsage: {
		"gen_ai.client.token.usage", "{token}", "Tokens of a request as the backend reported them.",
		[]float64{1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864},
	},
}

// maxSeries bounds the attributes that are counted apart. They are names of the
// configuration and codes of errors: only a configuration of thousands of models reaches
// it.
const maxSeries = 10_000

// labels are the attributes of a measurement. Users, sessions and conversations are none: there
// is no bound for how many of them there are.
type labels struct {
	of                                               instrument
	operation, provider, asked, served, host, failed string
	port                                             int64
	tokens                                           string
}

// distribution counts measurements between the bounds of an instrument.
type distribution struct {
	counts []uint64
	count  uint64
	sum    float64
}

// measurements are the metrics of the GenAI semantic conventions, made of the records of calls.
type measurements struct {
	mu     sync.Mutex
	series map[labels]*distribution
}

// note measures calls.
func (m *measurements) note(batch []calls.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range batch {
		m.noteCall(&batch[i])
	}
}

func (m *measurements) noteCall(c *calls.Record) {
	if !c.Routed || c.Model == "" {
		return // it was refused, and nobody generated anything
	}
	who := labels{operation: operationOf(c), provider: providerOf(c), asked: c.Model, failed: c.Code}
	if c.Attempts > 0 {
		who.host, who.port = addressOf(c.Try().Instance)
		who.served = c.Model
	}
	m.add(requestDuration, who, c.Ended.Seconds())
	for _, try := range c.Described() {
		call := who
		call.provider, call.failed = try.Provider, try.Code
		call.host, call.port = addressOf(try.Instance)
		m.add(operationDuration, call, max(try.Ended-try.Began, 0).Seconds())
	}
	if c.Code != "" {
		return
	}
	if c.Streamed && c.FirstToken > 0 {
		m.add(timeToFirstToken, who, c.FirstToken.Seconds())
	}
	if c.PerToken > 0 {
		m.add(timePerOutputToken, who, c.PerToken.Seconds())
	}
	if c.Usage.Known && c.Attempts > 0 {
		for kind, n := range map[string]int64{"input": c.Usage.Prompt, "output": c.Usage.Completion} {
			who.tokens = kind
			m.add(tokenUsage, who, float64(n))
		}
	}
}

func (m *measurements) add(of instrument, who labels, value float64) {
	who.of = of
	bounds := instruments[of].bounds
	d := m.series[who]
	if d == nil {
		if len(m.series) >= maxSeries {
			return
		}
		if m.series == nil {
			m.series = map[labels]*distribution{}
		}
		d = &distribution{counts: make([]uint64, len(bounds)+1)}
		m.series[who] = d
	}
	at, _ := slices.BinarySearch(bounds, value) // a bound belongs to the bucket below it
	d.counts[at]++
	d.count++
	d.sum += value
}

// metrics returns everything that was measured since the start.
func (m *measurements) metrics(start, now time.Time) (list []*metricspb.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var points [instrumentCount][]*metricspb.HistogramDataPoint
	for who, d := range m.series {
		sum := d.sum
		points[who.of] = append(points[who.of], &metricspb.HistogramDataPoint{
			Attributes: who.attributes(), StartTimeUnixNano: uint64(start.UnixNano()),
			TimeUnixNano: uint64(now.UnixNano()),
			Count:        d.count, Sum: &sum, BucketCounts: slices.Clone(d.counts),
			ExplicitBounds: instruments[who.of].bounds,
		})
	}
	for n, of := range instruments {
		if len(points[n]) > 0 {
			list = append(list, &metricspb.Metric{
				Name: of.name, Unit: of.unit, Description: of.about,
				Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{
					AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
					DataPoints:             points[n],
				}},
			})
		}
	}
	return list
}

func (l *labels) attributes() (list []*commonpb.KeyValue) {
	for _, a := range [...]struct{ key, value string }{
		{"gen_ai.operation.name", l.operation}, {"gen_ai.provider.name", l.provider}, {"gen_ai.request.model", l.asked},
		{"gen_ai.response.model", l.served}, {"gen_ai.token.type", l.tokens}, {"server.address", l.host},
		{"error.type", l.failed},
	} {
		if a.value != "" {
			list = append(list, text(a.key, a.value))
		}
	}
	if l.host != "" {
		list = append(list, whole("server.port", l.port))
	}
	return list
}
