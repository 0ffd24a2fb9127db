package telemetry

import (
	"context"
	"time"

	dto "github.com/prometheus/client_model/go"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
)

// Pusher sends metrics to a collector, as a scrape would show them.
type Pusher struct {
	options   PusherOptions
	collector *collector
}

// PusherOptions are what a Pusher works with.
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

// NewPusher returns a Pusher; Run starts it, and closes it at its end.
func NewPusher(options PusherOptions) (*Pusher, error) {
	to, err := newCollector(options.Settings, metricSignal)
	return &Pusher{options, to}, err
}

// Close closes the connection of a Pusher whose Run is never called.
func (p *Pusher) Close() { p.collector.close() }

// Run sends metrics until ctx ends, and then once more.
func (p *Pusher) Run(ctx context.Context) {
	defer p.Close()
	timer := time.NewTimer(p.options.Interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			p.push(last)
			cancel()
			return
		case <-timer.C:
		}
		p.push(ctx)
		timer.Reset(p.options.Interval())
	}
}

func (p *Pusher) push(ctx context.Context) {
	families, _ := p.options.Gather() // what could be gathered is sent; Gather reports the rest itself
	if len(families) == 0 {
		return
	}
	err := p.collector.export(ctx, &collectorpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{
			text("service.name", p.options.Settings.ServiceName), text("service.version", p.options.Version),
		}},
		ScopeMetrics: []*metricspb.ScopeMetrics{{
			Scope:   &commonpb.InstrumentationScope{Name: scope, Version: p.options.Version},
			Metrics: pointsOf(families, p.options.Started, time.Now()),
		}},
	}}}, new(collectorpb.ExportMetricsServiceResponse))
	if err != nil {
		p.options.Failed(err.Error())
	}
}
