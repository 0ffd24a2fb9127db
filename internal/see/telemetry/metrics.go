package telemetry

import (
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// pointsOf converts gathered families to OTLP. Counts are cumulative since the
// start.
func pointsOf(families []*dto.MetricFamily, start, now time.Time) []*metricspb.Metric {
	c := converter{uint64(start.UnixNano()), uint64(now.UnixNano())}
	list := make([]*metricspb.Metric, 0, len(families))
	for _, f := range families {
		if m := c.metric(f); m != nil {
			list = append(list, m)
		}
	}
	return list
}

type converter struct{ start, now uint64 }

func (c converter) metric(f *dto.MetricFamily) *metricspb.Metric {
	m := &metricspb.Metric{Name: f.GetName(), Description: f.GetHelp()}
	switch f.GetType() {
	case dto.MetricType_COUNTER:
		m.Data = &metricspb.Metric_Sum{Sum: &metricspb.Sum{
			AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
			IsMonotonic:            true,
			DataPoints:             c.numbers(f, func(m *dto.Metric) float64 { return m.GetCounter().GetValue() }),
		}}
	case dto.MetricType_GAUGE:
		m.Data = &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{
			DataPoints: c.numbers(f, func(m *dto.Metric) float64 { return m.GetGauge().GetValue() }),
		}}
	case dto.MetricType_HISTOGRAM:
		m.Data = &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{
			AggregationTemporality: metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE,
			DataPoints:             c.histograms(f),
		}}
	case dto.MetricType_SUMMARY:
		m.Data = &metricspb.Metric_Summary{Summary: &metricspb.Summary{DataPoints: c.summaries(f)}}
	default:
		return nil
	}
	return m
}

func (c converter) numbers(f *dto.MetricFamily, value func(*dto.Metric) float64) []*metricspb.NumberDataPoint {
	points := make([]*metricspb.NumberDataPoint, 0, len(f.Metric))
	for _, m := range f.Metric {
		points = append(points, &metricspb.NumberDataPoint{
			Attributes: attributesOf(m), StartTimeUnixNano: c.start, TimeUnixNano: c.now,
			Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: value(m)},
		})
	}
	return points
}

// histograms converts cumulative buckets into the counts between the bounds, as OTLP wants
// them.
func (c converter) histograms(f *dto.MetricFamily) []*metricspb.HistogramDataPoint {
	points := make([]*metricspb.HistogramDataPoint, 0, len(f.Metric))
	for _, m := range f.Metric {
		h := m.GetHistogram()
		point := &metricspb.HistogramDataPoint{
			Attributes: attributesOf(m), StartTimeUnixNano: c.start, TimeUnixNano: c.now, Count: h.GetSampleCount(),
			Sum: h.SampleSum,
		}
		below := uint64(0)
		for _, bucket := range h.Bucket {
			if math.IsInf(bucket.GetUpperBound(), 1) {
				continue
			}
			point.ExplicitBounds = append(point.ExplicitBounds, bucket.GetUpperBound())
			point.BucketCounts = append(point.BucketCounts, bucket.GetCumulativeCount()-below)
			below = bucket.GetCumulativeCount()
		}
		point.BucketCounts = append(point.BucketCounts, h.GetSampleCount()-below)
		points = append(points, point)
	}
	return points
}

func (c converter) summaries(f *dto.MetricFamily) []*metricspb.SummaryDataPoint {
	points := make([]*metricspb.SummaryDataPoint, 0, len(f.Metric))
	for _, m := range f.Metric {
		s := m.GetSummary()
		point := &metricspb.SummaryDataPoint{
			Attributes: attributesOf(m), StartTimeUnixNano: c.start, TimeUnixNano: c.now, Count: s.GetSampleCount(),
			Sum: s.GetSampleSum(),
		}
		for _, q := range s.Quantile {
			point.QuantileValues = append(point.QuantileValues,
				&metricspb.SummaryDataPoint_ValueAtQuantile{Quantile: q.GetQuantile(), Value: q.GetValue()})
		}
		points = append(points, point)
	}
	return points
}

func attributesOf(m *dto.Metric) []*commonpb.KeyValue {
	attributes := make([]*commonpb.KeyValue, 0, len(m.Label))
	for _, label := range m.Label {
		attributes = append(attributes, text(label.GetName(), label.GetValue()))
	}
	return attributes
}
