package gateway_test

import (
	"context"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	metricspb "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// collector takes traces over both protocols.
type collector struct {
	collectorpb.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []*tracepb.Span
	auth  string
}

func (c *collector) Export(_ context.Context, request *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	request := new(collectorpb.ExportTraceServiceRequest)
	if err := proto.Unmarshal(body, request); err != nil || r.URL.Path != "/v1/traces" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	c.auth = r.Header.Get("X-Collector-Key")
	c.mu.Unlock()
	_, _ = c.Export(r.Context(), request)
}

func (c *collector) received() []*tracepb.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.spans
}

// attribute returns a text attribute of a span.
func attribute(span *tracepb.Span, key string) string {
	for _, a := range span.Attributes {
		if a.Key == key {
			if text := a.Value.GetStringValue(); text != "" {
				return text
			}
			return a.Value.String()
		}
	}
	return ""
}

func TestTracesOverHTTP(t *testing.T) {
	t.Parallel()
	c := new(collector)
	server := httptest.NewServer(c)
	defer server.Close()
	testTraces(t, c, "{enabled: true, endpoint: '"+server.URL+"', headers: {X-Collector-Key: k}}")
	if c.auth != "k" {
		t.Errorf("the collector was sent %q", c.auth)
	}
}

func TestTracesOverGRPC(t *testing.T) {
	t.Parallel()
	c := new(collector)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	testTraces(t, c, "{enabled: true, protocol: grpc, endpoint: 'http://"+listener.Addr().String()+"'}")
}

func testTraces(t *testing.T, c *collector, settings string) {
	bad, good := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	bad.ScriptForever(simulator.Step{Status: 503})
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(bad, good)+"telemetry: "+settings+"\nmonitoring: {performance: {flush-interval: PT0.1S}}\n")
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r.Chat(gatewaytest.StreamHi, "Traceparent", parent, "Tracestate", "a=b").Succeeds(t)
	for bad.Stats().Arrived == 0 { // the balancer may begin with the good one
		r.Chat(gatewaytest.StreamHi, "Traceparent", parent, "Tracestate", "a=b").Succeeds(t)
	}
	var server, first, second *tracepb.Span
	gatewaytest.Eventually(t, "the trace of a failover arrives", func() bool {
		for _, span := range c.received() {
			if span.Kind != tracepb.Span_SPAN_KIND_SERVER || !strings.Contains(attribute(span, "patchbay.attempts"), "2") {
				continue
			}
			server, first, second = span, nil, nil
			for _, child := range c.received() {
				if string(child.ParentSpanId) == string(span.SpanId) && child.Status != nil {
					first = child
				} else if string(child.ParentSpanId) == string(span.SpanId) {
					second = child
				}
			}
			return first != nil && second != nil
		}
		return false
	})
	if hex.EncodeToString(server.TraceId) != parent[3:35] || hex.EncodeToString(server.ParentSpanId) != parent[36:52] {
		t.Errorf("the trace of the caller is not followed: %v", server)
	}
	if server.Name != "POST /v1/chat/completions" || len(server.Events) != 1 || server.Events[0].Name != "gen_ai.first_token" ||
		attribute(server, "gen_ai.operation.name") != "chat" || attribute(server, "gen_ai.usage.output_tokens") == "" || attribute(server, "gen_ai.request.model") != "m" ||
		attribute(server, "gen_ai.server.time_to_first_token") == "" {
		t.Errorf("%v", server)
	}
	if first.Kind != tracepb.Span_SPAN_KIND_CLIENT || first.Name != "chat m" || attribute(first, "error.type") != "upstream_error" || first.EndTimeUnixNano > second.EndTimeUnixNano ||
		attribute(second, "server.address") != "127.0.0.1" || attribute(second, "gen_ai.provider.name") != "openai" {
		t.Errorf("%v\n%v", first, second)
	}
	requests := good.Requests()
	header := requests[len(requests)-1].Header
	if want := "00-" + parent[3:35] + "-" + hex.EncodeToString(second.SpanId) + "-01"; header.Get("Traceparent") != want || header.Get("Tracestate") != "a=b" {
		t.Errorf("the backend got %q %q, want %q", header.Get("Traceparent"), header.Get("Tracestate"), want)
	}
	before := len(c.received())
	r.Chat(gatewaytest.PlainHi, "Traceparent", parent[:53]+"00").Succeeds(t)
	if calls := r.GetObject("/api/monitoring/calls?limit=1"); gatewaytest.At(t, calls, "calls/0/status") != "success" || len(c.received()) < before {
		t.Errorf("%v", calls)
	}
}

// metricsCollector takes metrics over both protocols.
type metricsCollector struct {
	metricspb.UnimplementedMetricsServiceServer
	mu     sync.Mutex
	points map[string]float64 // of counters and histograms, by name
}

func (c *metricsCollector) Export(_ context.Context, request *metricspb.ExportMetricsServiceRequest) (*metricspb.ExportMetricsServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.points = map[string]float64{}
	all := request.ResourceMetrics[0].ScopeMetrics
	for _, m := range append(all[0].Metrics, all[1].Metrics...) {
		for _, point := range m.GetSum().GetDataPoints() {
			c.points[m.Name] += point.GetAsDouble()
		}
		for _, point := range m.GetHistogram().GetDataPoints() {
			var in uint64
			for _, n := range point.BucketCounts {
				in += n
			}
			if in == point.Count && len(point.BucketCounts) == len(point.ExplicitBounds)+1 {
				c.points[m.Name] += float64(in)
			}
		}
	}
	return &metricspb.ExportMetricsServiceResponse{}, nil
}

func (c *metricsCollector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	request := new(metricspb.ExportMetricsServiceRequest)
	if err := proto.Unmarshal(body, request); err != nil || r.URL.Path != "/v1/metrics" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	_, _ = c.Export(r.Context(), request)
}

func TestMetricsOverOTLP(t *testing.T) {
	t.Parallel()
	for protocol, serve := range map[string]func(*testing.T, *metricsCollector) string{"http": serveHTTP, "grpc": serveGRPC} {
		c := new(metricsCollector)
		endpoint := serve(t, c)
		r := gatewaytest.Start(t, gatewaytest.PoolYAML(gatewaytest.StartBackend(t))+"telemetry: {metrics: true, protocol: "+protocol+", endpoint: '"+endpoint+"'}\nmonitoring: {collection-interval: PT0.1S}\n")
		for range 3 {
			r.Chat(gatewaytest.PlainHi).Succeeds(t)
		}
		gatewaytest.Eventually(t, "the metrics arrive over "+protocol, func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.points["model_router_requests_total"] == 3 && c.points["model_router_request_duration_seconds"] == 3 &&
				c.points["gen_ai.server.request.duration"] == 3 && c.points["gen_ai.client.token.usage"] == 6
		})
		r.Halt()
	}
}

// serveHTTP and serveGRPC serve a collector and return its address.
func serveHTTP(t *testing.T, c *metricsCollector) string {
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return server.URL
}

func serveGRPC(t *testing.T, c *metricsCollector) string {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	metricspb.RegisterMetricsServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return "http://" + listener.Addr().String()
}

// Without telemetry a trace passes the gateway as it came.
func TestTracesArePassedOn(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartOne(t)
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r.Chat(gatewaytest.PlainHi, "Traceparent", parent).Succeeds(t)
	if got := gatewaytest.OnlyRequest(t, b).Header.Get("Traceparent"); got != parent {
		t.Errorf("the backend got %q", got)
	}
}

// A collector that is away concerns nobody but monitoring.
func TestCollectorMayBeAway(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	g := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+"telemetry: {enabled: true, endpoint: 'http://127.0.0.1:1'}\nmonitoring: {performance: {flush-interval: PT0.1S}}\n")
	g.Chat(gatewaytest.PlainHi).Succeeds(t)
	gatewaytest.Eventually(t, "the failure is noted", func() bool { return g.Recorder.Faults().Active > 0 })
	if fault := g.Recorder.Faults().Faults[0]; fault.Component != "exporter" || strings.Contains(fault.LastError, "127.0.0.1") {
		t.Errorf("%+v", fault)
	}
}
