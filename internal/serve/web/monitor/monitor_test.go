package monitor_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// mixedBackend is a backend whose models misbehave, each in its way.
func mixedBackend(t *testing.T) *simulator.Backend {
	t.Helper()
	b, err := simulator.Start(simulator.Options{Behaviours: map[string]simulator.Behaviour{
		"fails":   {Step: simulator.Step{Status: 500}},
		"refuses": {Step: simulator.Step{Status: 422}},
		"hangs":   {Step: simulator.Step{Hang: true}},
		"cut":     {Step: simulator.Step{Stop: simulator.StopReset, After: 3}},
		"slow":    {Step: simulator.Step{EventDelay: 50 * time.Millisecond}},
		"never":   {Step: simulator.Step{Hang: true}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// TestCountsAreExact drives a thousand requests of every kind and compares the
// scrape with the driver's own count.
func TestCountsAreExact(t *testing.T) {
	t.Parallel()
	b := mixedBackend(t)
	var list []string
	for _, name := range []string{"good", "fails", "refuses", "cut", "slow", "open"} {
		list = append(list, gatewaytest.Instance(name, b.URL()))
	}
	silent := mixedBackend(t)
	list = append(list, gatewaytest.Instance("never", silent.URL()), gatewaytest.Instance("hangs", b.URL(), "timeouts: {first-byte: 20ms}"), gatewaytest.Instance("limited", b.URL(), "max-concurrency: 1"), gatewaytest.Instance("gone", simulator.DownURL))
	r := gatewaytest.Start(t, "services: {chat: {circuit-breaker: {failure-threshold: 100000}, health-check: {enabled: false}, instances: [\n"+strings.Join(list, ",\n")+"]}}\n")
	open := r.Instances("open")[0]
	open.Breaker.Force(breaker.ForcedOpen, breaker.Hold{}, time.Now())

	type want struct{ status, instance, reason string }
	var mu sync.Mutex
	wanted := map[want]float64{}
	expect := func(w want) {
		mu.Lock()
		defer mu.Unlock()
		wanted[w]++
	}
	body := func(model, more string) string {
		return `{"model":"` + model + `"` + more + `,` + gatewaytest.SomeMessages + `}`
	}
	label := func(model string) string { return model + "@" + strings.TrimPrefix(b.URL(), "http://") }
	var leaving sync.Mutex
	asked := 0 // requests that the silent backend got
	// Each kind sends one request and says what it should count as.
	kinds := []func(){
		func() { r.Chat(body("good", "")).Succeeds(t); expect(want{"success", label("good"), ""}) },
		func() { r.Chat(body("good", `,"stream":true`)).Succeeds(t); expect(want{"success", label("good"), ""}) },
		func() { r.Chat(body("fails", "")); expect(want{"error", label("fails"), ""}) },
		func() { r.Chat(body("refuses", "")); expect(want{"error", label("refuses"), ""}) },
		func() { r.Chat(body("cut", `,"stream":true`)); expect(want{"error", label("cut"), ""}) },
		func() { r.Chat(body("hangs", "")); expect(want{"timeout", label("hangs"), ""}) },
		func() { r.Chat(body("gone", "")); expect(want{"error", "gone@127.0.0.1:1", ""}) },
		func() { r.Chat(body("open", "")); expect(want{"circuit_breaker", "none", ""}) },
		func() { r.Chat(body("unknown-"+fmt.Sprint(rand.Int()), "")); expect(want{"error", "none", ""}) },
		func() { r.Chat(body("good", `,"temperature":9`)); expect(want{"", "", "invalid_request"}) },
		func() { r.Chat(`{"model":`); expect(want{"", "", "invalid_request"}) },
		func() { // leaves in the middle of a stream
			ctx, cancel := context.WithCancel(t.Context())
			events := r.Stream(ctx, body("slow", `,"stream":true`))
			_, _ = events.Next()
			cancel()
			expect(want{"success", label("slow"), ""})
		},
		func() { // leaves before there is an answer, and after the backend has the request
			leaving.Lock()
			defer leaving.Unlock()
			ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
			defer cancel()
			left := make(chan struct{})
			go func() {
				defer close(left)
				response, err := r.Client.Do(r.Request(ctx, http.MethodPost, "/v1/chat/completions", body("never", "")))
				if err == nil {
					response.Body.Close()
					t.Error("there is an answer")
				}
			}()
			asked++
			if err := silent.WaitRequests(ctx, asked); err != nil {
				t.Error(err)
			}
			cancel()
			<-left
			expect(want{"error", "never@" + strings.TrimPrefix(silent.URL(), "http://"), ""})
		},
	}
	const requests, workers = 1000, 8
	var work sync.WaitGroup
	for w := range workers {
		work.Go(func() {
			for n := range requests / workers {
				kinds[(n*workers+w)%len(kinds)]()
			}
		})
	}
	work.Wait()
	gatewaytest.Eventually(t, "all requests are settled", func() bool {
		s := r.Scrape()
		return gatewaytest.Sum(s, "model_router_requests_total")+gatewaytest.Sum(s, "model_router_rejected_requests_total") >= requests
	})
	samples := r.Scrape()
	total := 0.0
	for w, n := range wanted {
		got := gatewaytest.Sum(samples, "model_router_requests_total", `instance="`+w.instance+`"`, `status="`+w.status+`"`)
		if w.reason != "" {
			got = gatewaytest.Sum(samples, "model_router_rejected_requests_total", `reason="`+w.reason+`"`)
		}
		if got != n {
			t.Errorf("%+v: %v counted, %v sent", w, got, n)
		}
		total += n
	}
	if got := gatewaytest.Sum(samples, "model_router_requests_total") + gatewaytest.Sum(samples, "model_router_rejected_requests_total"); got != total || total != requests {
		t.Errorf("%v counted, %v sent", got, total)
	}
	if got := gatewaytest.Sum(samples, "model_router_request_duration_seconds_count"); got != gatewaytest.Sum(samples, "model_router_requests_total") {
		t.Errorf("%v durations for %v requests", got, gatewaytest.Sum(samples, "model_router_requests_total"))
	}
	if got := gatewaytest.Sum(samples, "model_router_requests_in_flight"); got != 0 {
		t.Errorf("%v in flight", got)
	}
	read := gatewaytest.At(t, r.GetObject("/actuator/metrics/model.router.requests.total?tag=status:success&tag=service:chat&tag=status:success"), "measurements/0/value")
	if read != gatewaytest.Sum(samples, "model_router_requests_total", `status="success"`) {
		t.Errorf("the metric read says %v", read)
	}
}

func TestLimitsAndFailoversAreCounted(t *testing.T) {
	t.Parallel()
	bad, good := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	bad.ScriptForever(simulator.Step{Status: 503})
	r := gatewaytest.Start(t, strings.Replace(gatewaytest.PoolYAML(bad, good), "services: {chat: {",
		"services: {chat: {rate-limit: {algorithm: sliding-window, capacity: 30, refill-rate: 1, client-ip-enable: true}, ", 1))
	for range 30 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 429, "rate_limit_exceeded", "rate_limit_exceeded", "")
	s := r.Scrape()
	label := func(b *simulator.Backend) string {
		return `instance="m@` + strings.TrimPrefix(b.URL(), "http://") + `"`
	}
	if n := gatewaytest.Sum(s, "model_router_requests_total", label(good), `status="success"`); n != 30 {
		t.Errorf("%v successes", n)
	}
	if n := gatewaytest.Sum(s, "model_router_requests_total", label(bad)); n != 0 {
		t.Errorf("%v requests on the instance that was given up", n)
	}
	if n, tried := gatewaytest.Sum(s, "model_router_failovers_total", label(bad)), float64(bad.Stats().Arrived); n != tried || n == 0 {
		t.Errorf("%v failovers after %v calls", n, tried)
	}
	if n := gatewaytest.Sum(s, "model_router_rejected_requests_total", `reason="rate_limit"`); n != 1 {
		t.Errorf("%v rejected", n)
	}
	if n := gatewaytest.Sum(s, "model_router_tokens_total", label(good), `direction="output"`); n <= 0 {
		t.Errorf("%v tokens", n)
	}
	if n := gatewaytest.Sum(s, "model_router_gateway_overhead_seconds_count", `service="chat"`); n != 30 {
		t.Errorf("%v overheads", n)
	}
	if _, there := s[`model_router_rate_limit_remaining{client_ip="127.0.0.1",service="chat"}`]; !there {
		t.Error("the limit of the client is not there")
	}
	if _, there := s[`model_router_rate_limit_remaining{service="chat"}`]; there {
		t.Error("there is a common limit")
	}
}

// Names and addresses that clients choose must not become series.
func TestClientsCannotAddSeries(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, strings.Replace(gatewaytest.PoolYAML(b), "services: {chat: {", "services: {chat: {rate-limit: {capacity: 5, refill-rate: 1, client-ip-enable: true}, ", 1))
	before := len(r.Scrape())
	requests := 48_000 // a quarter of them for the model, from more clients than a rate limit keeps
	if testing.Short() || gatewaytest.RaceEnabled {
		requests = 4_000
	}
	var work sync.WaitGroup
	for w := range 4 {
		work.Go(func() {
			for n := range requests / 4 {
				name := fmt.Sprintf("model-%d-%d", w, n)
				if n%4 == 0 {
					name = "m"
				}
				request := r.Request(t.Context(), http.MethodPost, "/v1/chat/completions", `{"model":"`+name+`",`+gatewaytest.SomeMessages+`}`,
					"X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", w, n/250%250, n%250+1))
				response, err := r.Client.Do(request)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	work.Wait()
	const clients, classes = 50, 4
	if after := len(r.Scrape()); after > before+clients+3*classes {
		t.Errorf("%d series became %d", before, after)
	}
	if list := gatewaytest.At(t, r.GetObject("/api/monitoring/rate-limit"), "services/chat/clientLimits").([]any); len(list) > 100 {
		t.Errorf("%d clients are listed", len(list))
	}
}

// fieldTable is every field of the monitoring and actuator objects of the
// specification, by the path that answers it.
var fieldTable = map[string][]string{
	"/api/monitoring/config": {"enabled", "prefix", "collectionInterval", "enabledCategories/0", "customTags", "sampling/enabled", "sampling/rate",
		"performance/batchSize", "performance/flushInterval"},
	"/api/monitoring/config/snapshot": {"enabled", "prefix", "capturedAt", "version"},
	"/api/monitoring/health":          {"status", "healthy", "details/metricsCollector", "details/prometheusRegistry", "details/configUpdater"},
	"/api/monitoring/overview": {"enabled", "prefix", "enabledCategories/0", "healthy", "errorStats/activeErrorComponents", "errorStats/degradedComponents",
		"errorStats/totalErrors", "degradationStatus/level", "degradationStatus/samplingRate", "degradationStatus/autoModeEnabled", "cacheStats/usageRatio",
		"cacheStats/activeRetries", "circuitBreakerStats/state", "circuitBreakerStats/failureRate"},
	"/api/monitoring/errors/stats":          {"activeErrorComponents", "degradedComponents", "totalErrors", "components"},
	"/api/monitoring/degradation/status":    {"level", "levelDescription", "samplingRate", "autoModeEnabled", "timeSinceLastChange", "errorComponentCount"},
	"/api/monitoring/cache/stats":           {"currentSize", "maxSize", "activeRetries", "queuedRetries", "usageRatio"},
	"/api/monitoring/circuit-breaker/stats": {"state", "failureCount", "successCount", "requestCount", "failureRate"},
	"/api/monitoring/instances": {"services/chat/instances/0/id", "services/chat/instances/0/url", "services/chat/instances/0/adapter", "services/chat/instances/0/status",
		"services/chat/instances/0/lastHealthCheck", "services/chat/instances/0/responseTime", "services/chat/instances/0/successRate", "services/chat/instances/0/requestCount",
		"services/chat/instances/0/errorCount", "services/chat/instances/0/circuitBreakerState", "services/chat/instances/0/weight"},
	"/api/monitoring/load-balancer": {"services/chat/strategy", "services/chat/totalRequests", "services/chat/distribution"},
	"/api/monitoring/rate-limit": {"services/chat/algorithm", "services/chat/globalLimit/capacity", "services/chat/globalLimit/remaining", "services/chat/globalLimit/refillRate",
		"services/chat/globalLimit/nextRefill", "services/chat/clientLimits/0/clientIp", "services/chat/clientLimits/0/remaining", "services/chat/clientLimits/0/capacity",
		"services/chat/clientLimits/0/lastRequest"},
	"/api/monitoring/circuit-breaker": {"instances/0/id", "instances/0/service", "instances/0/state", "instances/0/failureCount", "instances/0/failureThreshold",
		"instances/0/successThreshold", "instances/0/timeout", "instances/0/lastFailure", "instances/0/nextRetry"},
	"/actuator/health": {"status", "components/diskSpace/status", "components/diskSpace/details/total", "components/diskSpace/details/free", "components/diskSpace/details/threshold",
		"components/diskSpace/details/exists", "components/ping/status", "components/modelRouter/status", "components/modelRouter/details/activeInstances",
		"components/modelRouter/details/totalInstances", "components/modelRouter/details/circuitBreakerStatus", "groups/0"},
	"/actuator/health/detailed": {"components/modelRouter/details/services/chat/totalInstances", "components/modelRouter/details/services/chat/healthyInstances",
		"components/modelRouter/details/services/chat/instances/0/id", "components/modelRouter/details/services/chat/instances/0/url",
		"components/modelRouter/details/services/chat/instances/0/status", "components/modelRouter/details/services/chat/instances/0/lastCheck",
		"components/modelRouter/details/services/chat/instances/0/responseTime"},
	"/actuator/health/modelRouter":                  {"status", "details/activeInstances"},
	"/actuator/metrics":                             {"names/0"},
	"/actuator/metrics/model.router.requests.total": {"name", "description", "baseUnit", "measurements/0/statistic", "measurements/0/value", "availableTags/0/tag", "availableTags/0/values/0"},
	"/actuator/info": {"app/name", "app/version", "app/description", "build/version", "build/artifact", "build/name", "build/group", "build/time", "git/branch",
		"git/commit/id", "git/commit/time", "java/version", "java/vendor", "go/version"},
	"/actuator/env":          {"activeProfiles", "propertySources/0/name", "propertySources/0/properties"},
	"/actuator/loggers":      {"levels/0", "loggers/ROOT/configuredLevel", "loggers/ROOT/effectiveLevel", "groups"},
	"/actuator/loggers/some": {"configuredLevel", "effectiveLevel"},
	"/actuator":              {"_links/self/href", "_links/health/href", "_links/metrics-requiredMetricName/templated"},
}

func TestEveryFieldOfTheSpecification(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, strings.Replace(gatewaytest.PoolYAML(b), "services: {chat: {", "services: {chat: {rate-limit: {capacity: 50, refill-rate: 1, client-ip-enable: true}, ", 1))
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	for path, fields := range fieldTable {
		object := r.GetObject(path)
		for _, field := range fields {
			gatewaytest.At(t, object, field)
		}
	}
	names := gatewaytest.At(t, r.GetObject("/actuator/metrics"), "names").([]any)
	for _, name := range []string{
		"model.router.requests.total", "model.router.request.duration", "model.router.circuit.breaker.state", "model.router.rate.limit.remaining",
		"model.router.load.balancer.weight", "jvm.memory.used", "jvm.memory.max", "jvm.gc.pause", "http.server.requests", "system.cpu.usage", "process.uptime",
	} {
		if !slices.Contains(names, any(name)) {
			t.Errorf("the metric %s is not listed", name)
		}
	}
	for _, name := range names {
		gatewaytest.At(t, r.GetObject("/actuator/metrics/"+name.(string)), "baseUnit")
	}
	for _, path := range []string{"/actuator/metrics/none", "/actuator/metrics/model.router.requests.total?tag=service:none", "/actuator/health/none", "/actuator/loggers/.x", "/actuator/env/none", "/actuator/none"} {
		if answer := r.Do(http.MethodGet, path, ""); answer.Status != 404 {
			t.Errorf("%s: %d", path, answer.Status)
		}
	}
	if answer := r.Do(http.MethodGet, "/actuator/metrics/jvm.memory.used?tag=area", ""); answer.Status != 400 {
		t.Errorf("a tag without a colon: %d", answer.Status)
	}
}

func TestLivingStateOfRouting(t *testing.T) {
	t.Parallel()
	backends := []*simulator.Backend{gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)}
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(backends...))
	for range 10 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	view := gatewaytest.At(t, r.GetObject("/api/monitoring/load-balancer"), "services/chat").(map[string]any)
	percentages, requests := 0.0, 0.0
	for id, share := range view["distribution"].(map[string]any) {
		if !strings.HasPrefix(id, "m@http://") {
			t.Errorf("instance %s", id)
		}
		percentages += share.(map[string]any)["percentage"].(float64)
		requests += share.(map[string]any)["requests"].(float64)
	}
	if view["strategy"] != "ROUND_ROBIN" || view["totalRequests"] != 10.0 || requests != 10 || percentages < 99.999 || percentages > 100.001 {
		t.Errorf("%v adds up to %v requests and %v %%", view, requests, percentages)
	}
	i := r.Instances("m")[0]
	i.Breaker.Force(breaker.ForcedOpen, breaker.Hold{}, time.Now())
	if state := gatewaytest.At(t, r.GetObject("/api/monitoring/circuit-breaker"), "instances/0/state"); state != "OPEN" {
		t.Errorf("breaker %v", state)
	}
	if n := gatewaytest.Sum(r.Scrape(), "model_router_circuit_breaker_state"); n != 1 {
		t.Errorf("the gauge says %v", n)
	}
	if state := gatewaytest.At(t, r.GetObject("/actuator/health"), "components/modelRouter/details/circuitBreakerStatus"); state != "OPEN" {
		t.Errorf("health says %v", state)
	}
}

func TestHealthIsDownWhenNobodyCanServe(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "services: {chat: {health-check: {interval: 50ms, unhealthy-threshold: 1}, instances: ["+gatewaytest.Instance("m", simulator.DownURL)+"]}}")
	gatewaytest.Eventually(t, "health is down", func() bool { return r.Do(http.MethodGet, "/actuator/health", "").Status == 503 })
	object := gatewaytest.DecodeObject(t, r.Do(http.MethodGet, "/actuator/health", "").Body)
	if object["status"] != "DOWN" || gatewaytest.At(t, object, "components/modelRouter/status") != "DOWN" {
		t.Errorf("%v", object)
	}
	for path, want := range map[string]int{"modelRouter": 503, "ping": 200, "readiness": 200, "liveness": 200, "detailed": 503} {
		if got := r.Do(http.MethodGet, "/actuator/health/"+path, "").Status; got != want {
			t.Errorf("%s: %d", path, got)
		}
	}
	entry := gatewaytest.At(t, r.GetObject("/api/monitoring/instances"), "services/chat/instances/0").(map[string]any)
	if entry["status"] != "UNHEALTHY" || entry["error"] == nil || entry["requestCount"] != nil || entry["successRate"] != nil {
		t.Errorf("%v", entry)
	}
	idle := gatewaytest.Start(t, "")
	if got := idle.GetObject("/actuator/health")["status"]; got != "UP" {
		t.Errorf("without instances health is %v", got)
	}
}

func TestMonitoringSettings(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	put := func(path, body string) map[string]any {
		t.Helper()
		return gatewaytest.DecodeObject(t, r.Do(http.MethodPut, "/api/monitoring/config/"+path, body).Succeeds(t).Body)
	}
	if got := put("prefix", `{"prefix":"acme"}`); got["prefix"] != "acme" {
		t.Errorf("%v", got)
	}
	put("custom-tags", `{"customTags":{"env":"prod"}}`)
	if n := gatewaytest.Sum(r.Scrape(), "acme_requests_total", `env="prod"`, `status="success"`); n != 1 {
		t.Errorf("%v requests under the new name", n)
	}
	if got := put("collection-interval", `{"interval":"PT1M"}`); got["collectionInterval"] != "PT1M" {
		t.Errorf("%v", got)
	}
	put("categories", `{"categories":["request"]}`)
	if _, there := r.Scrape()["go_goroutines{env=\"prod\"}"]; there {
		t.Error("the category system is off")
	}
	put("enabled", `{"enabled":false}`)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if body := r.Do(http.MethodGet, "/actuator/prometheus", "").Succeeds(t).Body; body != "" {
		t.Errorf("switched off: %s", body)
	}
	put("enabled", `{"enabled":true}`)
	if n := gatewaytest.Sum(r.Scrape(), "acme_requests_total", `status="success"`); n != 1 {
		t.Errorf("%v requests", n)
	}
	for path, body := range map[string]string{
		"enabled": `{"enabled":"yes"}`, "prefix": `{"prefix":"a b"}`, "collection-interval": `{"interval":"30s"}`, "categories": `{"categories":["none"]}`, "custom-tags": `{"customTags":{"le":"x"}}`,
	} {
		for _, bad := range []string{body, `{}`, `{"a":1}`, `nonsense`, ``, `[]`} {
			answer := r.Do(http.MethodPut, "/api/monitoring/config/"+path, bad)
			if message, _ := gatewaytest.DecodeObject(t, answer.Body)["error"].(string); answer.Status != 400 || message == "" {
				t.Errorf("%s %s: %d %s", path, bad, answer.Status, answer.Body)
			}
		}
	}
	if got := r.GetObject("/api/monitoring/config"); got["prefix"] != "acme" || got["collectionInterval"] != "PT1M" {
		t.Errorf("a refused change took effect: %v", got)
	}
}

func TestMonitoringPipelineIsSteered(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	post := func(path, body string) map[string]any {
		t.Helper()
		return gatewaytest.DecodeObject(t, r.Do(http.MethodPost, "/api/monitoring/"+path, body).Succeeds(t).Body)
	}
	calls := func() int {
		t.Helper()
		r.Chat(gatewaytest.PlainHi).Succeeds(t) // whatever monitoring does, traffic goes on
		gatewaytest.Eventually(t, "the request is settled", func() bool { return gatewaytest.Sum(r.Scrape(), "model_router_requests_in_flight") == 0 })
		return len(gatewaytest.At(t, r.GetObject("/api/monitoring/calls"), "calls").([]any))
	}
	if n := calls(); n != 1 {
		t.Errorf("%d calls", n)
	}
	if got := post("degradation/level", `{"level":"disabled"}`); got["level"] != "DISABLED" || got["samplingRate"] != 0.0 {
		t.Errorf("%v", got)
	}
	if r.GetObject("/api/monitoring/overview")["healthy"] != false || calls() != 1 {
		t.Error("disabled it records")
	}
	if got := post("degradation/force-recovery", ""); got["level"] != "NORMAL" || got["samplingRate"] != 1.0 {
		t.Errorf("%v", got)
	}
	if got := post("degradation/auto-mode", `{"enabled":false}`); got["autoModeEnabled"] != false {
		t.Errorf("%v", got)
	}
	if got := post("circuit-breaker/force-open", ""); got["state"] != "OPEN" {
		t.Errorf("%v", got)
	}
	if n := calls(); n != 1 {
		t.Errorf("an open breaker lets records pass: %d", n)
	}
	if n := r.GetObject("/api/monitoring/cache/stats")["currentSize"]; n != 1.0 {
		t.Errorf("%v records wait", n)
	}
	if got := post("cache/clear", ""); got["currentSize"] != 0.0 {
		t.Errorf("%v", got)
	}
	if got := post("circuit-breaker/force-close", ""); got["state"] != "CLOSED" {
		t.Errorf("%v", got)
	}
	if n := calls(); n != 2 {
		t.Errorf("%d calls", n)
	}
	r.Recorder.NoteFault("a", "b", "why")
	if got := r.GetObject("/api/monitoring/errors/stats"); got["totalErrors"] != 1.0 || gatewaytest.At(t, got, "components/0/lastError") != "why" {
		t.Errorf("%v", got)
	}
	if got := post("errors/reset", `{"component":"a","operation":"b"}`); got["totalErrors"] != 0.0 {
		t.Errorf("%v", got)
	}
	for path, body := range map[string]string{"degradation/level": `{"level":"LOW"}`, "degradation/auto-mode": `{}`, "errors/reset": `{"component":"a"}`} {
		if answer := r.Do(http.MethodPost, "/api/monitoring/"+path, body); answer.Status != 400 || gatewaytest.DecodeObject(t, answer.Body)["error"] == nil {
			t.Errorf("%s: %d %s", path, answer.Status, answer.Body)
		}
	}
}

func TestCallsAndTheirFeed(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.Script(simulator.Step{Status: 503}, simulator.Step{Text: "secret answer"})
	other := gatewaytest.StartBackend(t)
	other.ScriptForever(simulator.Step{Status: 503})
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b, other))
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	defer cancel()
	feed := r.Open(ctx, http.MethodGet, "/api/monitoring/stream", "")
	defer feed.Body.Close()
	if kind := feed.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		t.Fatalf("Content-Type %s", kind)
	}
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "first")
	lines := bufio.NewScanner(feed.Body)
	var event string
	for lines.Scan() && event == "" {
		event, _ = strings.CutPrefix(lines.Text(), "data: ")
		if !strings.HasPrefix(lines.Text(), "data: ") {
			event = ""
		}
	}
	call := gatewaytest.DecodeObject(t, event)
	one := r.GetObject("/api/monitoring/calls/first")
	if call["requestId"] != "first" || one["attempts"] != 2.0 || one["httpStatus"] != 503.0 || one["status"] != "error" || len(one["tries"].([]any)) != 2 {
		t.Errorf("%v\n%v", call, one)
	}
	if gatewaytest.At(t, one, "tries/0/errorCode") != "upstream_error" || gatewaytest.At(t, one, "timeline/endMs").(float64) <= 0 {
		t.Errorf("%v", one)
	}
	if answer := r.Do(http.MethodGet, "/api/monitoring/calls/none", ""); answer.Status != 404 {
		t.Errorf("%d", answer.Status)
	}
	r.Chat(`{"model":"a secret name",`+gatewaytest.SomeMessages+`}`, "X-Request-Id", "second")
	if list := gatewaytest.At(t, r.GetObject("/api/monitoring/calls?status=error&limit=1"), "calls").([]any); len(list) != 1 || gatewaytest.At(t, list[0], "requestId") != "second" {
		t.Errorf("%v", list)
	}
}

func TestScrapeFormats(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	plain := r.Do(http.MethodGet, "/metrics?format=prometheus", "").Succeeds(t)
	if got := plain.Header.Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("Content-Type %q", got)
	}
	modern := r.Do(http.MethodGet, "/actuator/prometheus", "", "Accept",
		"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1").Succeeds(t)
	if got := modern.Header.Get("Content-Type"); got != "application/openmetrics-text; version=1.0.0; charset=utf-8" || !strings.HasSuffix(modern.Body, "# EOF\n") {
		t.Errorf("Content-Type %q, end %q", got, modern.Body[max(0, len(modern.Body)-20):])
	}
	packed := r.Do(http.MethodGet, "/actuator/prometheus?includedNames=model_router_requests_total", "", "Accept-Encoding", "gzip").Succeeds(t)
	unpacked, err := gzip.NewReader(strings.NewReader(packed.Body))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(unpacked); err != nil || strings.Count(string(text), "# TYPE") != 1 {
		t.Errorf("%v: %s", err, text)
	}
	vendor := r.Do(http.MethodGet, "/actuator", "", "Accept", "application/vnd.spring-boot.actuator.v3+json", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "gw.example", "X-Forwarded-Prefix", "/p")
	if vendor.Header.Get("Content-Type") != "application/vnd.spring-boot.actuator.v3+json" || gatewaytest.At(t, gatewaytest.DecodeObject(t, vendor.Body), "_links/health/href") != "https://gw.example/p/actuator/health" {
		t.Errorf("%v %s", vendor.Header, vendor.Body)
	}
	if options := r.Do(http.MethodOptions, "/actuator/env", ""); options.Status/100 != 2 || strings.Contains(options.Header.Get("Allow"), "POST") {
		t.Errorf("%d Allow %q", options.Status, options.Header.Get("Allow"))
	}
	if wrong := r.Do(http.MethodPost, "/actuator/env", "{}"); wrong.Status != 405 || wrong.Header.Get("Allow") == "" {
		t.Errorf("%d", wrong.Status)
	}
}

func TestLoggersTakeEffect(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	set := func(name, body string, want int) {
		t.Helper()
		if answer := r.Do(http.MethodPost, "/actuator/loggers/"+name, body); answer.Status != want || want == 204 && answer.Body != "" {
			t.Errorf("%s %s: %d %s", name, body, answer.Status, answer.Body)
		}
	}
	lines := func() int {
		t.Helper()
		count := func() int {
			return gatewaytest.CountLines(r.Logs.String(), `"msg":"request"`, `"path":"/v1/chat/completions"`)
		}
		before := count()
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
		r.Do(http.MethodGet, "/actuator/health/liveness", "") // on the same connection, so the line was written
		return count() - before
	}
	if n := lines(); n != 1 {
		t.Errorf("%d lines", n)
	}
	set("access", `{"configuredLevel":"error"}`, 204)
	if n := lines(); n != 0 {
		t.Errorf("%d lines of a logger that is set to ERROR", n)
	}
	if got := r.GetObject("/actuator/loggers/access.deeper"); got["configuredLevel"] != nil || got["effectiveLevel"] != "ERROR" {
		t.Errorf("%v", got)
	}
	set("access", `{"configuredLevel":null}`, 204)
	set("ROOT", `{"configuredLevel":"OFF"}`, 204)
	if n := lines(); n != 0 {
		t.Errorf("%d lines while all is off", n)
	}
	set("ROOT", `{"configuredLevel":"INFO"}`, 204)
	if n := lines(); n != 1 {
		t.Errorf("%d lines", n)
	}
	set("access", `{"configuredLevel":"LOUD"}`, 400)
	set("access", `nonsense`, 400)
}

// canary marks everything that must not be seen.
const canary = "c4n4ry"

func TestNothingSecretIsShown(t *testing.T) {
	b := gatewaytest.StartBackend(t)
	b.Script(simulator.Step{Status: 500, Body: `{"error":{"message":"` + canary + `-upstream"}}`})
	t.Setenv("MONITORING_CANARY", canary+"-environment")
	r := gatewaytest.Start(t, fmt.Sprintf(`
services: {chat: {health-check: {enabled: false}, instances: [{name: m, base-url: '%s/%s-path', api-key: %[2]s-key, headers: {X-Secret: %[2]s-header}}]}}
store: {url: 'postgres://u:%[2]s-password@127.0.0.1:1/x'}
redis: {url: 'redis://:%[2]s-redis@127.0.0.1:1/0'}
monitoring: {custom-tags: {}}
`, b.URL(), canary))
	r.Actuator.Describe(map[string]string{"services.chat.instances[0].api-key": "test.yaml:2:9"}, os.Environ())
	r.Chat(`{"model":"m","user":"`+canary+`-user","messages":[{"role":"user","content":"`+canary+`-prompt"}]}`, "Authorization", "Bearer "+canary+"-caller")
	r.Chat(`{"model":"`+canary+`-model","messages":[{"role":"user","content":"x"}]}`, "X-Api-Key", canary+"-caller")
	r.Do(http.MethodGet, "/"+canary+"-url?x="+canary+"-query", "")
	urls := regexp.MustCompile(regexp.QuoteMeta("@"+b.URL()) + "/" + canary + "-path|" + regexp.QuoteMeta(b.URL()) + "/" + canary + "-path")
	paths := slices.Collect(maps.Keys(fieldTable))
	paths = append(paths, "/actuator/prometheus", "/api/monitoring/calls", "/actuator/env/services.chat.instances[0].api-key")
	for _, path := range paths {
		body := r.Do(http.MethodGet, path, "").Succeeds(t).Body
		if strings.HasPrefix(path, "/api/monitoring") || path == "/actuator/health/detailed" {
			body = urls.ReplaceAllString(body, "") // the management API names instances by their addresses
			// What the backend said about its failure is told with the call and the breaker,
			// as it is told to the caller: cut and without secrets.
			body = strings.ReplaceAll(body, "The backend answered with status 500: "+canary+"-upstream", "")
			body = strings.ReplaceAll(body, `"words":"`+canary+`-upstream"`, "")
		}
		if path == "/api/monitoring/calls" {
			// The user for whom a call was made is told with it, as the ledger counts them.
			body = strings.ReplaceAll(body, `"user":"`+canary+`-user"`, "")
			// The name that a caller asked for says why no model was found.
			body = strings.ReplaceAll(body, `"asked":"`+canary+`-model"`, "")
			body = strings.ReplaceAll(body, `the model \"`+canary+`-model\" for chat`, "")
			body = strings.ReplaceAll(body, `"values":{"model":"`+canary+`-model"`, "")
		}
		if at := strings.Index(body, canary); at >= 0 {
			t.Errorf("%s: %s", path, body[max(0, at-100):min(len(body), at+40)])
		}
	}
	env := r.Do(http.MethodGet, "/actuator/env", "").Body
	if !strings.Contains(env, "MONITORING_CANARY") || !strings.Contains(env, `"******"`) {
		t.Errorf("the environment lacks names or masks: %s", env[:min(len(env), 500)])
	}
}

func TestPromtoolReadsTheScrape(t *testing.T) {
	t.Parallel()
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed")
	}
	r, _ := gatewaytest.StartOne(t)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
	check.Stdin = strings.NewReader(r.Do(http.MethodGet, "/actuator/prometheus", "").Body)
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
