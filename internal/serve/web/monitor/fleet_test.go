package monitor_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// leastTimeYAML is a configuration in which backends serve the model m, balanced by least
// time.
func leastTimeYAML(urls ...string) string {
	var list []string
	for _, url := range urls {
		list = append(list, gatewaytest.Instance("m", url))
	}
	return gatewaytest.PolicyYAML("load-balancer: least-time, "+gatewaytest.NoChecks, list...)
}

// estimate returns what a call says about what was expected of its attempt; nil for nothing.
func estimate(r *gatewaytest.Gateway, id string) map[string]any {
	r.T.Helper()
	found, _ := gatewaytest.At(r.T, r.GetObject("/api/monitoring/calls/"+id), "tries/0").(map[string]any)["estimate"].(map[string]any)
	return found
}

func TestCallsKeepTheEstimateBesideTheTruth(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, leastTimeYAML(a.URL(), b.URL()))
	r.Chat(gatewaytest.StreamHi, "X-Request-Id", "streamed").Succeeds(t)
	r.Chat(gatewaytest.PlainHi, "X-Request-Id", "whole").Succeeds(t)
	if got := estimate(r, "streamed"); got == nil || !(got["expectedMs"].(float64) > 0) || !(got["trueMs"].(float64) > 0) || got["matched"] != 0.0 {
		t.Errorf("streamed: %v", got)
	}
	if got := estimate(r, "whole"); got == nil || !(got["expectedMs"].(float64) > 0) || got["trueMs"] != nil {
		t.Errorf("whole: %v", got)
	}
	scrape := r.Do(http.MethodGet, "/actuator/prometheus", "").Succeeds(t).Body
	if n := strings.Count(scrape, "model_router_first_token_estimate_ratio_count{"); n != 2 || !strings.Contains(scrape, "\nmodel_router_fleet_trust 1\n") {
		t.Errorf("%d instances of 2 tell how far estimates are off, in\n%s", n, scrape)
	}
	turns := gatewaytest.Start(t, gatewaytest.PoolYAML(a, b))
	turns.Chat(gatewaytest.StreamHi, "X-Request-Id", "turn").Succeeds(t)
	if got := estimate(turns, "turn"); got != nil {
		t.Errorf("round robin: %v", got)
	}
}

func TestFleetSaysHowWellItIsUsed(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, leastTimeYAML(a.URL(), b.URL()))
	empty := r.GetObject("/api/monitoring/fleet")
	if use := gatewaytest.At(t, empty, "models/0/use").(map[string]any); use["calls"] != 0.0 || use["hitRate"] != nil || use["firstTokenMs"] != nil || empty["trust"] != 1.0 {
		t.Errorf("before any call: %v", empty)
	}
	for range 3 {
		r.Chat(gatewaytest.StreamHi).Succeeds(t)
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	var view map[string]any
	gatewaytest.Eventually(t, "all calls are counted", func() bool {
		view = r.GetObject("/api/monitoring/fleet")
		return gatewaytest.At(t, view, "models/0/use/calls") == 6.0
	})
	use := gatewaytest.At(t, view, "models/0/use").(map[string]any)
	if use["streams"] != 3.0 || use["hitRate"] == nil || use["estimateRatio"] == nil {
		t.Errorf("%v", use)
	}
	for _, name := range []string{"firstTokenMs", "expectedMs", "roundRobinMs"} {
		if ms, known := use[name].(float64); !known || ms <= 0 {
			t.Errorf("%s is %v", name, use[name])
		}
	}
	instances := gatewaytest.At(t, view, "models/0/instances").([]any)
	sum := 0.0
	for n, i := range r.Instances("m") {
		shown := instances[n].(map[string]any)
		engine := shown["engine"].(map[string]any)
		if shown["id"] != i.ID || engine["state"] != "unknown" || engine["waiting"] != 0.0 || engine["queueSeconds"] != 0.0 || !(engine["promptTokensPerSecond"].(float64) > 0) || engine["told"] != nil {
			t.Errorf("%v", shown)
		}
		sum += gatewaytest.At(t, shown, "use/calls").(float64)
	}
	if sum != 6 {
		t.Errorf("the instances have %v of 6 calls", sum)
	}
}

// A gateway without the strategy has no fleet.
func TestFleetIsEmptyWithoutItsStrategy(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(gatewaytest.StartBackend(t)))
	if view := r.GetObject("/api/monitoring/fleet"); len(view["models"].([]any)) != 0 || view["trust"] != nil {
		t.Errorf("%v", view)
	}
}

// One engine may have a model under several names. Each counts its own calls.
func TestFleetCountsTheCallsOfTheModelThatWasAskedFor(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: least-time, "+gatewaytest.NoChecks,
		gatewaytest.Instance("m", b.URL(), "upstream-model: one"), gatewaytest.Instance("n", b.URL(), "upstream-model: one")))
	for range 3 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	var view map[string]any
	gatewaytest.Eventually(t, "all calls are counted", func() bool {
		view = r.GetObject("/api/monitoring/fleet")
		return gatewaytest.At(t, view, "models/0/use/calls") == 3.0
	})
	for n, want := range []float64{3, 0} {
		model := gatewaytest.At(t, view, "models").([]any)[n]
		if gatewaytest.At(t, model, "use/calls") != want || gatewaytest.At(t, model, "instances/0/use/calls") != want {
			t.Errorf("%v, want %v calls", model, want)
		}
	}
}
