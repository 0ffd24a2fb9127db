package telemetry

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

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
	client, err := newTraces(settings)
	if err != nil {
		return nil, err
	}
	e := &Exporter{settings: settings, version: version, captured: captured, client: client}
	if err := e.client.Start(ctx); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return e, nil
}

// newTraces leaves retries to the pipeline, which knows when to stop.
func newTraces(s Settings) (otlptrace.Client, error) {
	const signal = "TRACES"
	if s.Protocol == GRPC {
		options := []otlptracegrpc.Option{
			otlptracegrpc.WithTimeout(exportTime), otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{}),
		}
		if u, err := url.Parse(cmp.Or(s.Endpoint, variable(signal, "ENDPOINT"))); err == nil {
			options = append(options, otlptracegrpc.WithDialOption(dialing(u)))
		}
		if s.Endpoint != "" {
			options = append(options, otlptracegrpc.WithEndpointURL(s.Endpoint))
		}
		if len(s.Headers) > 0 {
			options = append(options, otlptracegrpc.WithHeaders(s.Headers))
		}
		return otlptracegrpc.NewClient(options...), nil
	}
	client, err := newClient(signal)
	if err != nil {
		return nil, err
	}
	options := []otlptracehttp.Option{
		otlptracehttp.WithTimeout(exportTime), otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}),
		otlptracehttp.WithHTTPClient(&client.Client),
	}
	if s.Endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(tracesURL(s.Endpoint)))
	}
	if len(s.Headers) > 0 {
		options = append(options, otlptracehttp.WithHeaders(s.Headers))
	}
	return otlptracehttp.NewClient(options...), nil
}

// newClient returns the client of a collector over HTTP, with the certificates that the environment
// names.
func newClient(signal string) (*outgoing.Client, error) {
	trust, err := outgoing.Trust(variable(signal, "CERTIFICATE"))
	if own := variable(signal, "CLIENT_CERTIFICATE"); own != "" && err == nil {
		trust.Certificates = make([]tls.Certificate, 1)
		trust.Certificates[0], err = tls.LoadX509KeyPair(own, variable(signal, "CLIENT_KEY"))
	}
	if err != nil {
		return nil, fmt.Errorf("telemetry: certificates of the environment: %w", err)
	}
	return outgoing.New(outgoing.Options{Timeout: exportTime, TLS: trust, Idle: 1}), nil
}

// variable returns a variable of the environment, of a signal or of all.
func variable(signal, name string) string {
	const prefix = "OTEL_EXPORTER_OTLP_"
	return cmp.Or(os.Getenv(prefix+signal+"_"+name), os.Getenv(prefix+name))
}

// dialing lets gRPC dial as other calls do. It leaves the proxies of the environment and sockets to gRPC.
func dialing(to *url.URL) grpc.DialOption {
	proxy, _ := outgoing.Proxy(&url.URL{Scheme: "https", Host: to.Host})
	if proxy != nil || to.Scheme == "unix" {
		return grpc.EmptyDialOption{}
	}
	return grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return outgoing.Dialer().DialContext(ctx, "tcp", address)
	})
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
