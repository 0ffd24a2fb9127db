package telemetry

import (
	"context"
	"errors"
	"time"

	dto "github.com/prometheus/client_model/go"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"

	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// Pusher sends metrics to a collector, as a scrape would show them.
type Pusher struct {
	options PusherOptions
	// measured are the metrics of the GenAI semantic conventions.
	measured measurements
	to       *sender
}

// PusherOptions are the parts that a Pusher works with.
type PusherOptions struct {
	Settings Settings
	Version  string
	// Started is when counting began.
	Started time.Time
	// Gather returns the metrics, Interval how long to wait before the next export.
	// Both are called for each export.
	Gather   func() ([]*dto.MetricFamily, error)
	Interval func() time.Duration
	// Failed is called with the reason of an export that failed, which holds no
	// secret.
	Failed func(text string)
}

var errMetrics = errors.New("the collector could not be reached or refused the metrics")

// NewPusher returns a Pusher; Run starts it, and closes it at its end.
func NewPusher(options PusherOptions) (*Pusher, error) {
	metrics := signal{"METRICS", "/v1/metrics", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"}
	to, err := metrics.sender(options.Settings)
	return &Pusher{options: options, to: to}, err
}

// Note measures calls for the metrics of the GenAI semantic conventions. It retains nothing of
// the batch.
func (p *Pusher) Note(batch []calls.Record) { p.measured.note(batch) }

// Close closes the connection of a Pusher without a Run.
func (p *Pusher) Close() { p.to.close() }

// Run sends metrics until ctx ends, and then once more.
func (p *Pusher) Run(ctx context.Context) {
	for waiting.Pause(ctx, p.options.Interval()) == nil {
		p.push(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	p.push(last)
	p.to.close()
}

func (p *Pusher) push(ctx context.Context) {
	families, _ := p.options.Gather() // the gathered part is sent; Gather reports the rest itself
	if len(families) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	now := time.Now()
	err := p.to.export(ctx, &collectorpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			text("service.name", p.options.Settings.ServiceName), text("service.version", p.options.Version),
		}},
		ScopeMetrics: []*metricspb.ScopeMetrics{{
			Scope:   &commonpb.InstrumentationScope{Name: scope, Version: p.options.Version},
			Metrics: pointsOf(families, p.options.Started, now),
		}, {
			Scope:     &commonpb.InstrumentationScope{Name: scope, Version: p.options.Version},
			Metrics:   p.measured.metrics(p.options.Started, now),
			SchemaUrl: schemaURL,
		}},
	}}}, errMetrics)
	if err != nil {
		p.options.Failed(err.Error())
	}
}
