package telemetry

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// exportTime is how long one export may take.
const exportTime = 10 * time.Second

// errTimeout is shown to operators, as are all errors of exports, so they hold neither an
// address nor a credential.
var errTimeout = errors.New("the collector did not answer in time")

// signal is what is exported: its name, its path over HTTP and its method over gRPC.
type signal struct{ name, path, method string }

var (
	traceSignal  = signal{"traces", "/v1/traces", tracepb.TraceService_Export_FullMethodName}
	metricSignal = signal{"metrics", "/v1/metrics", metricspb.MetricsService_Export_FullMethodName}
)

// variables begins the names of the variables of the environment that exporters of OTLP
// share.
const variables = "OTEL_EXPORTER_OTLP_"

// ownVariable returns a variable that is for this signal alone.
func (s signal) ownVariable(name string) string {
	return os.Getenv(variables + strings.ToUpper(s.name) + "_" + name)
}

// variable returns the variable of the signal, or else that of all signals.
func (s signal) variable(name string) string {
	return cmp.Or(s.ownVariable(name), os.Getenv(variables+name))
}

// address returns where the collector takes the signal over HTTP. A variable of the signal
// alone that has a path is the whole address, as OpenTelemetry says.
func (s signal) address(endpoint string) string {
	if own, err := url.Parse(s.ownVariable("ENDPOINT")); endpoint == "" && err == nil && strings.Trim(own.Path, "/") != "" {
		return own.String()
	}
	endpoint = cmp.Or(endpoint, s.variable("ENDPOINT"))
	endpoint = strings.TrimSuffix(cmp.Or(endpoint, "http://localhost:4318"), "/")
	return strings.TrimSuffix(endpoint, s.path) + s.path
}

// headers returns the headers of every export.
func (s signal) headers(settings Settings) map[string]string {
	if len(settings.Headers) > 0 {
		return settings.Headers
	}
	headers := map[string]string{}
	for pair := range strings.SplitSeq(s.variable("HEADERS"), ",") {
		name, value, given := strings.Cut(pair, "=")
		if text, err := url.PathUnescape(strings.TrimSpace(value)); given && err == nil {
			headers[strings.TrimSpace(name)] = text
		}
	}
	return headers
}

// trust returns which certificates of collectors are trusted.
func (s signal) trust() (*tls.Config, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := s.variable("CERTIFICATE"); file != "" {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("telemetry: %w", err)
		}
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("telemetry: %s has no certificate", file)
		}
	}
	return trust, nil
}

// collector takes exports of one signal. It leaves retries to its callers, which know
// when to stop.
type collector struct {
	takes string // the name of the signal
	send  func(ctx context.Context, export, reply proto.Message) error
	close func()
}

// newCollector returns the collector of the settings. Whether it can be reached turns out
// with the first export.
func newCollector(settings Settings, s signal) (*collector, error) {
	trust, err := s.trust()
	if err != nil {
		return nil, err
	}
	if settings.Protocol == HTTP {
		return overHTTP(s, settings, trust), nil
	}
	return overGRPC(s, settings, trust)
}

// export sends a message within exportTime.
func (c *collector) export(ctx context.Context, message, reply proto.Message) error {
	ctx, cancel := context.WithTimeout(ctx, exportTime)
	defer cancel()
	err := c.send(ctx, message, reply)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errTimeout
	}
	return fmt.Errorf("the collector could not be reached or refused the %s", c.takes)
}

func overHTTP(s signal, settings Settings, trust *tls.Config) *collector {
	to, headers := s.address(settings.Endpoint), s.headers(settings)
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, IdleConnTimeout: time.Minute, TLSClientConfig: trust, ForceAttemptHTTP2: true}
	client := &http.Client{Transport: transport, Timeout: exportTime}
	return &collector{takes: s.name, close: transport.CloseIdleConnections, send: func(ctx context.Context, export, _ proto.Message) error {
		body, err := proto.Marshal(export)
		if err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/x-protobuf")
		for name, value := range headers {
			request.Header.Set(name, value)
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		const mostReply = 64 << 10 // what it says is not used; once read, the connection is used again
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, mostReply))
		if response.StatusCode/100 != 2 {
			return fmt.Errorf("status %d", response.StatusCode)
		}
		return nil
	}}
}

func overGRPC(s signal, settings Settings, trust *tls.Config) (*collector, error) {
	headers := metadata.New(s.headers(settings))
	u, err := url.Parse(cmp.Or(settings.Endpoint, s.variable("ENDPOINT"), "http://localhost:4317"))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	secure := insecure.NewCredentials()
	if u.Scheme == "https" {
		secure = credentials.NewTLS(trust)
	}
	conn, err := grpc.NewClient(u.Host, grpc.WithTransportCredentials(secure))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	closing := func() { _ = conn.Close() } // nothing depends on it any more
	return &collector{takes: s.name, close: closing, send: func(ctx context.Context, export, reply proto.Message) error {
		return conn.Invoke(metadata.NewOutgoingContext(ctx, headers), s.method, export, reply)
	}}, nil
}
