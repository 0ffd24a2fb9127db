package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// exportTime is how long one export may take.
const exportTime = 10 * time.Second

// The errors of exports. They are shown to operators, so they hold neither an
// address nor a credential.
var (
	errTimeout     = errors.New("the collector did not answer in time")
	errUnreachable = errors.New("the collector could not be reached or refused the traces")
)

// Exporter sends traces to a collector.
type Exporter struct {
	client   otlptrace.Client
	settings Settings
	version  string
	captured func(*calls.Record) *calls.Captured
}

// Open returns an exporter to the collector of the settings. The first export shows whether
// it can be reached. The exporter asks for the captured parts of a call only if the
// settings say that content is sent.
func Open(ctx context.Context, settings Settings, version string,
	captured func(*calls.Record) *calls.Captured) (*Exporter, error) {
	e := &Exporter{settings: settings, version: version, captured: captured, client: newClient(settings)}
	if err := e.client.Start(ctx); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return e, nil
}

// newClient leaves retries to the pipeline, which knows when to stop.
func newClient(s Settings) otlptrace.Client {
	if s.Protocol == GRPC {
		options := []otlptracegrpc.Option{
			otlptracegrpc.WithTimeout(exportTime), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}),
		}
		if s.Endpoint != "" {
			options = append(options, otlptracegrpc.WithEndpointURL(s.Endpoint))
		}
		if len(s.Headers) > 0 {
			options = append(options, otlptracegrpc.WithHeaders(s.Headers))
		}
		return otlptracegrpc.NewClient(options...)
	}
	options := []otlptracehttp.Option{
		otlptracehttp.WithTimeout(exportTime), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}),
		otlptracehttp.WithProxy(outgoing.Proxy),
	}
	if s.Endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(tracesURL(s.Endpoint)))
	}
	if len(s.Headers) > 0 {
		options = append(options, otlptracehttp.WithHeaders(s.Headers))
	}
	return otlptracehttp.NewClient(options...)
}

// tracesURL is the URL for traces of a collector with this base URL.
func tracesURL(endpoint string) string {
	const path = "/v1/traces"
	return strings.TrimSuffix(strings.TrimSuffix(endpoint, "/"), path) + path
}

// Export sends the traces of a batch of calls. A batch that failed is sent as a whole once more;
// spans that had arrived have the same ids again.
func (e *Exporter) Export(ctx context.Context, batch []calls.Record) error {
	ctx, cancel := context.WithTimeout(ctx, exportTime)
	defer cancel()
	for spans := range e.portions(batch) {
		err := e.client.UploadTraces(ctx, []*tracepb.ResourceSpans{spans})
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return errTimeout
		default:
			return errUnreachable
		}
	}
	return nil
}

// Close ends the connection to the collector.
func (e *Exporter) Close(ctx context.Context) error { return e.client.Stop(ctx) }
