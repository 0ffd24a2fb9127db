// Package collector starts the OpenTelemetry Collector's own receiver of OTLP, sends the gateway
// some requests, and checks the traces and the metrics that the Collector has received.
package collector

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

const schemaURL = "https://opentelemetry.io/schemas/1.41.0"

func TestACollectorReceivesTracesAndMetrics(t *testing.T) {
	binary := os.Getenv("PATCHBAY_BIN")
	if binary == "" {
		t.Skip("PATCHBAY_BIN names no binary")
	}
	for _, protocol := range protocols() {
		t.Run(protocol, func(t *testing.T) {
			traces, metrics := new(consumertest.TracesSink), new(consumertest.MetricsSink)
			endpoint := startReceiver(t, protocol, traces, metrics)
			gateway := startGateway(t, binary, protocol, endpoint)
			post(t, gateway+"/v1/chat/completions", `{"model":"demo-chat","stream":true,"messages":[{"role":"user","content":"hi"}]}`)
			post(t, gateway+"/v1/messages", `{"model":"demo-claude","max_tokens":99,"messages":[{"role":"user","content":"hi"}]}`)
			eventually(t, "the spans of both requests", func() bool { return traces.SpanCount() >= 4 })
			checkSpans(t, traces)
			wanted := []string{
				"gen_ai.client.operation.duration", "gen_ai.server.request.duration", "gen_ai.server.time_to_first_token",
				"gen_ai.server.time_per_output_token", "gen_ai.client.token.usage",
			}
			eventually(t, "the metrics of the conventions", func() bool {
				found := measured(t, metrics)
				for _, name := range wanted {
					if found[name] == 0 {
						return false
					}
				}
				return found["gen_ai.server.request.duration"] == 2 && found["gen_ai.client.token.usage"] == 4
			})
		})
	}
}

func protocols() []string { return []string{"http", "grpc"} }

func TestACollectorReceivesContentOnlyWithCapture(t *testing.T) {
	binary := os.Getenv("PATCHBAY_BIN")
	if binary == "" {
		t.Skip("PATCHBAY_BIN names no binary")
	}
	const asked = `{"messages":[{"role":"user","content":"a question nobody else asks"}],"max_tokens":99,"model":`
	for _, protocol := range protocols() {
		for name, row := range map[string]struct {
			content, capture string
			isSent           bool
		}{
			"both": {"true", "content", true}, "only capture": {"false", "content", false}, "only telemetry": {"true", "none", false}, "headers": {"true", "headers", false},
		} {
			t.Run(protocol+" "+name, func(t *testing.T) {
				traces := new(consumertest.TracesSink)
				endpoint := startReceiver(t, protocol, traces, new(consumertest.MetricsSink))
				gateway := startGateway(t, binary, protocol, endpoint, "telemetry.content="+row.content, "monitoring.capture="+row.capture)
				post(t, gateway+"/v1/chat/completions", asked+`"demo-chat","stream":true}`)
				post(t, gateway+"/v1/messages", asked+`"demo-claude"}`)
				eventually(t, "the spans of both requests", func() bool { return traces.SpanCount() >= 4 })
				spans := spansOf(t, traces)
				for _, name := range []string{"chat demo-chat", "chat demo-claude"} {
					said := spans[name].AsRaw()
					answer, _ := said["gen_ai.output.messages"].(string)
					const want = `[{"role":"user","parts":[{"content":"a question nobody else asks","type":"text"}]}]`
					if isSent := said["gen_ai.input.messages"] == want && strings.Contains(answer, `"finish_reason":"stop"`); isSent != row.isSent {
						t.Errorf("%s: %v", name, said)
					}
				}
				if text := fmt.Sprint(spans["POST /v1/messages"].AsRaw(), spans["chat demo-chat"].AsRaw()); strings.Contains(text, "nobody else") != row.isSent {
					t.Error(text)
				}
			})
		}
	}
}

// startReceiver starts the Collector's receiver, and returns its address.
func startReceiver(t *testing.T, protocol string, traces *consumertest.TracesSink, metrics *consumertest.MetricsSink) string {
	t.Helper()
	address := freeAddress(t)
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	wanted := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{protocol: map[string]any{"endpoint": address}}})
	if err := wanted.Unmarshal(config); err != nil {
		t.Fatal(err)
	}
	settings := receivertest.NewNopSettings(factory.Type())
	forTraces, err := factory.CreateTraces(t.Context(), settings, config, traces)
	if err != nil {
		t.Fatal(err)
	}
	forMetrics, err := factory.CreateMetrics(t.Context(), settings, config, metrics) // the same receiver
	if err != nil {
		t.Fatal(err)
	}
	for _, receiver := range []interface {
		Shutdown(ctx context.Context) error
	}{forTraces, forMetrics} {
		t.Cleanup(func() { _ = receiver.Shutdown(context.WithoutCancel(t.Context())) })
	}
	if err := forTraces.Start(context.WithoutCancel(t.Context()), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	if err := forMetrics.Start(context.WithoutCancel(t.Context()), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	return "http://" + address
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// startGateway starts a demo that sends telemetry, and returns its address.
func startGateway(t *testing.T, binary, protocol, endpoint string, settings ...string) string {
	t.Helper()
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	arguments := []string{"demo", "--traffic=false", "--listen", "127.0.0.1:0",
		"--set", "telemetry={enabled: true, metrics: true, protocol: " + protocol + ", endpoint: '" + endpoint + "'}",
		"--set", "monitoring.collection-interval=PT0.5S", "--set", "monitoring.performance.flush-interval=PT0.1S"}
	for _, setting := range settings {
		arguments = append(arguments, "--set", setting)
	}
	command := exec.CommandContext(context.WithoutCancel(t.Context()), binary, arguments...)
	command.Dir, command.Stdout, command.Stderr = dir, log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	address := ""
	eventually(t, "the gateway", func() bool {
		text, _ := os.ReadFile(log.Name())
		address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(string(text))
		if address == "" {
			return false
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/actuator/health/readiness", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return address
}

func post(t *testing.T, url, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Session-Id", "session-1")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text := make([]byte, 1<<20)
	for err == nil {
		_, err = response.Body.Read(text)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d", url, response.StatusCode)
	}
}

// eventually waits for what must happen; the bound only notices that it never does.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(2 * time.Minute)
	for !happened() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("%s did not come", what)
		}
	}
}

// checkSpans checks the attributes of the spans that were received.
func checkSpans(t *testing.T, sink *consumertest.TracesSink) {
	t.Helper()
	found := spansOf(t, sink)
	for name, wanted := range map[string]map[string]string{
		"POST /v1/chat/completions": {
			"gen_ai.operation.name": "chat", "gen_ai.request.model": "demo-chat", "gen_ai.response.model": "demo-chat", "gen_ai.provider.name": "openai",
			"session.id": "session-1", "gen_ai.conversation.id": "session-1", "http.route": "/v1/chat/completions",
		},
		"chat demo-chat":    {"gen_ai.provider.name": "openai", "gen_ai.conversation.id": "session-1", "server.address": "127.0.0.1"},
		"POST /v1/messages": {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "http.route": "/v1/messages"},
		"chat demo-claude":  {"gen_ai.provider.name": "anthropic"},
	} {
		attributes, ok := found[name]
		if !ok {
			t.Errorf("there is no span %q", name)
			continue
		}
		for key, want := range wanted {
			if got, _ := attributes.Get(key); got.AsString() != want {
				t.Errorf("%s: %s is %q, want %q", name, key, got.AsString(), want)
			}
		}
		if tokens, ok := attributes.Get("gen_ai.usage.output_tokens"); !ok || tokens.Int() == 0 {
			t.Errorf("%s has no tokens: %v", name, attributes.AsRaw())
		}
	}
	if first, ok := found["POST /v1/chat/completions"].Get("gen_ai.response.time_to_first_chunk"); !ok || first.Double() <= 0 {
		t.Error("the stream has no time to its first chunk")
	}
	for name, attributes := range found {
		if text := fmt.Sprint(attributes.AsRaw()); strings.Contains(text, "simulated backend") {
			t.Errorf("%s has content: %s", name, text)
		}
	}
}

// spansOf returns the attributes of the spans that were received, by the names of the spans.
func spansOf(t *testing.T, sink *consumertest.TracesSink) map[string]pcommon.Map {
	t.Helper()
	found := map[string]pcommon.Map{}
	for _, traces := range sink.AllTraces() {
		for _, resource := range traces.ResourceSpans().All() {
			for _, scope := range resource.ScopeSpans().All() {
				if scope.SchemaUrl() != schemaURL {
					t.Errorf("the schema of the spans is %q", scope.SchemaUrl())
				}
				for _, span := range scope.Spans().All() {
					found[span.Name()] = span.Attributes()
				}
			}
		}
	}
	return found
}

// measured returns how many measurements the latest export has, by the name of the histogram.
func measured(t *testing.T, sink *consumertest.MetricsSink) map[string]uint64 {
	t.Helper()
	counts := map[string]uint64{}
	all := sink.AllMetrics()
	if len(all) == 0 {
		return counts
	}
	for _, resource := range all[len(all)-1].ResourceMetrics().All() {
		for _, scope := range resource.ScopeMetrics().All() {
			for _, metric := range scope.Metrics().All() {
				if !strings.HasPrefix(metric.Name(), "gen_ai.") {
					continue
				}
				if scope.SchemaUrl() != schemaURL {
					t.Errorf("the schema of %s is %q", metric.Name(), scope.SchemaUrl())
				}
				for _, point := range metric.Histogram().DataPoints().All() {
					counts[metric.Name()] += point.Count()
				}
			}
		}
	}
	return counts
}
