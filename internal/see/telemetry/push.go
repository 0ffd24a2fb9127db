package telemetry

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/patchbay-ai/patchbay/internal/request/outgoing"
	"github.com/patchbay-ai/patchbay/internal/request/waiting"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
)

// Pusher sends metrics to a collector, as a scrape would show them.
type Pusher struct {
	options PusherOptions
	// measured are the metrics of the GenAI semantic conventions.
	measured measurements
	send     func(context.Context, *collectorpb.ExportMetricsServiceRequest) error
	close    func()
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

// NewPusher returns a Pusher; Run starts it, and closes it at its end.
func NewPusher(options PusherOptions) (*Pusher, error) {
	p := &Pusher{options: options}
	const signal = "METRICS"
	endpoint := cmp.Or(options.Settings.Endpoint, variable(signal, "ENDPOINT"))
	if options.Settings.Protocol == HTTP {
		client, err := newClient(signal)
		if err != nil {
			return nil, err
		}
		p.overHTTP(client, cmp.Or(endpoint, "http://localhost:4318"))
		return p, nil
	}
	return p, p.overGRPC(cmp.Or(endpoint, "http://localhost:4317"))
}

func (p *Pusher) overHTTP(client *outgoing.Client, endpoint string) {
	const path = "/v1/metrics"
	to := strings.TrimSuffix(strings.TrimSuffix(endpoint, "/"), path) + path
	p.close = client.CloseIdleConnections
	p.send = func(ctx context.Context, export *collectorpb.ExportMetricsServiceRequest) error {
		body, err := proto.Marshal(export)
		if err != nil {
			return err
		}
		return client.Send(ctx, to, "application/x-protobuf", body, p.options.Settings.Headers)
	}
}

func (p *Pusher) overGRPC(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	secure := insecure.NewCredentials()
	if u.Scheme == "https" {
		secure = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	}
	conn, err := grpc.NewClient(u.Host, dialing(u), grpc.WithTransportCredentials(secure))
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	client := collectorpb.NewMetricsServiceClient(conn)
	p.close = func() { _ = conn.Close() } // nothing depends on it any more
	p.send = func(ctx context.Context, export *collectorpb.ExportMetricsServiceRequest) error {
		_, err := client.Export(metadata.NewOutgoingContext(ctx, metadata.New(p.options.Settings.Headers)), export)
		return err
	}
	return nil
}

// Note measures calls for the metrics of the GenAI semantic conventions. It retains nothing of
// the batch.
func (p *Pusher) Note(batch []calls.Record) { p.measured.note(batch) }

// Close closes the connection of a Pusher without a Run.
func (p *Pusher) Close() { p.close() }

// Run sends metrics until ctx ends, and then once more.
func (p *Pusher) Run(ctx context.Context) {
	for waiting.Pause(ctx, p.options.Interval()) == nil {
		p.push(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	p.push(last)
	p.close()
}

func (p *Pusher) push(ctx context.Context) {
	families, _ := p.options.Gather() // the gathered part is sent; Gather reports the rest itself
	if len(families) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, exportTime)
	defer cancel()
	now := time.Now()
	err := p.send(ctx, &collectorpb.ExportMetricsServiceRequest{ResourceMetrics: []*metricspb.ResourceMetrics{{
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
	}}})
	switch {
	case err == nil:
	case ctx.Err() != nil:
		p.options.Failed(errTimeout.Error())
	default:
		p.options.Failed("the collector could not be reached or refused the metrics")
	}
}
