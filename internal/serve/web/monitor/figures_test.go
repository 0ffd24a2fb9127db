package monitor_test

import (
	"net/http"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestFiguresTellHowFastEnginesAre(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, leastTimeYAML(a.URL(), b.URL()))
	if empty := r.GetObject("/api/monitoring/figures"); len(empty["figures"].([]any))+len(empty["slow"].([]any)) != 0 || empty["range"] != "5m" {
		t.Errorf("before any call: %v", empty)
	}
	r.Chat(gatewaytest.StreamHi).Succeeds(t)
	var one map[string]any
	gatewaytest.Eventually(t, "the call is counted", func() bool {
		list := r.GetObject("/api/monitoring/figures")["figures"].([]any)
		if len(list) == 1 {
			one = list[0].(map[string]any)
		}
		return one != nil
	})
	engine, _ := one["engine"].(map[string]any)
	if engine == nil || !(engine["secondsPerPromptToken"].(float64) > 0) || !(engine["secondsPerOutputToken"].(float64) > 0) || engine["queueSeconds"] != 0.0 || one["inFlight"] != 0.0 {
		t.Errorf("the instance: %v", one)
	}
	if latency := gatewaytest.At(t, one, "latency").(map[string]any); latency["count"] != 1.0 || latency["p50"] != latency["p99"] || !(gatewaytest.At(t, one, "ttft/p50").(float64) > 0) {
		t.Errorf("one call: %v", one)
	}
	for query, want := range map[string]int{"by=model": 1, "by=host&model=m": 1, "by=host&model=other": 0, "by=instance&host=nowhere": 0, "by=service&service=embedding": 0} {
		list := r.GetObject("/api/monitoring/figures?" + query)["figures"].([]any)
		if len(list) != want || want == 1 && list[0].(map[string]any)["engine"] != nil {
			t.Errorf("%s: %v", query, list)
		}
	}
	for _, query := range []string{"by=tenant", "by=total", "by=key", "range=1d", "service=video"} {
		if got := r.Do(http.MethodGet, "/api/monitoring/figures?"+query, "").Status; got != http.StatusBadRequest {
			t.Errorf("%s: %d", query, got)
		}
	}
}
