package telemetry

import (
	"context"
	"errors"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

var errTraces = errors.New("the collector could not be reached or refused the traces")

// Exporter sends traces to a collector.
type Exporter struct {
	to       *sender
	settings Settings
	version  string
	captured func(*calls.Record) *calls.Captured
}

// Open returns an exporter to the collector of the settings. The exporter asks for the captured parts
// of a call only if the settings say that content is sent.
func Open(settings Settings, version string, captured func(*calls.Record) *calls.Captured) (*Exporter, error) {
	traces := signal{"TRACES", "/v1/traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"}
	to, err := traces.sender(settings)
	return &Exporter{to, settings, version, captured}, err
}

// Export sends the traces of a batch of calls. A batch that failed is sent as a whole once more;
// spans that had arrived have the same ids again. The pipeline decides about it.
func (e *Exporter) Export(ctx context.Context, batch []calls.Record) error {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	for spans := range e.portions(batch) {
		request := &collectorpb.ExportTraceServiceRequest{ResourceSpans: []*tracepb.ResourceSpans{spans}}
		if err := e.to.export(ctx, request, errTraces); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the connection to the collector.
func (e *Exporter) Close() { e.to.close() }
