package telemetry

import (
	"context"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/patchbay-ai/patchbay/internal/calls"
)

// Exporter sends traces to a collector.
type Exporter struct {
	collector *collector
	settings  Settings
	version   string
}

// Open returns an exporter to the collector of the settings. Whether it can be
// reached turns out with the first export.
func Open(settings Settings, version string) (*Exporter, error) {
	to, err := newCollector(settings, traceSignal)
	return &Exporter{to, settings, version}, err
}

// Export sends the traces of a batch of calls.
func (e *Exporter) Export(ctx context.Context, batch []calls.Call) error {
	export := &collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{e.spansOf(batch)}}
	return e.collector.export(ctx, export, new(collectorpb.ExportTraceServiceResponse))
}

// Close ends the connection to the collector.
func (e *Exporter) Close() { e.collector.close() }
