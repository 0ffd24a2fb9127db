// This file belongs to the wing runs.

package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// hook is a webhook that remembers the alerts that it got.
type hook struct {
	*httptest.Server
	mu  sync.Mutex
	got []map[string]any
}

func startHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got = append(h.got, gatewaytest.DecodeObject(t, string(body)))
	}))
	t.Cleanup(h.Close)
	return h
}

// kinds returns the kinds of the alerts, sorted.
func (h *hook) kinds() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var kinds []string
	for _, one := range h.got {
		kinds = append(kinds, one["kind"].(string))
	}
	slices.Sort(kinds)
	return kinds
}

// A run is found from its calls and its calls from the run, explained before a call, and worth an
// alert when it costs much or loops. Alerts have its public id, and not the id of the client.
func TestRunsAreSeenWhereverCallsAre(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "runs", "alerts")
	b, h := gatewaytest.StartBackend(t), startHook(t)
	r := gatewaytest.Start(t, "prices: {models: [{model: m, input: 1000, output: 1000}]}\n"+
		"runs: {enabled: true, limits: {cost: 100, requests: 50}, loops: {repeats: 3}}\n"+
		gatewaytest.PolicyYAML(gatewaytest.NoChecks, gatewaytest.Instance("m", b.URL())))
	for range 4 {
		r.Chat(`{"model":"m",`+gatewaytest.SomeMessages+`}`, "X-Router-Run", "nightly").Succeeds(t)
	}
	r.Chat(`{"model":"m",`+gatewaytest.SomeMessages+`}`, "X-Router-Run", "other").Succeeds(t)
	r.Chat(`{"model":"m",` + gatewaytest.SomeMessages + `}`).Succeeds(t)

	list := gatewaytest.At(t, r.GetObject("/api/runs?search=nightly"), "data").([]any)
	if len(list) != 1 {
		t.Fatalf("%d runs: %v", len(list), list)
	}
	id := gatewaytest.At(t, list[0], "id").(string)
	gatewaytest.Eventually(t, "the calls of the run are listed", func() bool {
		calls := r.GetObject("/api/monitoring/calls?run=" + id)["calls"].([]any)
		return len(calls) == 4 && !slices.ContainsFunc(calls, func(call any) bool {
			return call.(map[string]any)["run"] != id
		})
	})
	if all := r.GetObject("/api/monitoring/calls")["calls"].([]any); len(all) != 6 {
		t.Errorf("%d calls without a filter", len(all))
	}

	explained := r.Do("POST", "/api/route/explain?door=chat", `{"model":"m",`+gatewaytest.SomeMessages+`}`,
		"X-Router-Run", "nightly").Succeeds(t)
	run := gatewaytest.At(t, gatewaytest.DecodeObject(t, explained.Body), "data/run").(map[string]any)
	if run["id"] != id || run["name"] != "nightly" || run["sign"] != "x-router-run" || run["loop"] != "SAME_CALL" {
		t.Errorf("%v", run)
	}
	left := map[string]float64{}
	for _, limit := range run["limits"].([]any) {
		left[gatewaytest.At(t, limit, "unit").(string)] = gatewaytest.At(t, limit, "left").(float64)
	}
	if left["requests"] != 46 || !(left["cost"] > 0 && left["cost"] < 100) || len(left) != 2 {
		t.Errorf("left are %v", left)
	}
	plain := r.Do("POST", "/api/route/explain?door=chat", `{"model":"m",`+gatewaytest.SomeMessages+`}`).Succeeds(t)
	if strings.Contains(plain.Body, `"run"`) {
		t.Errorf("a request without a run has one: %s", plain.Body)
	}

	r.API("PUT", "/api/config/alerts", `{"runCost":"0.000001","webhooks":{"ops":{"url":"`+h.URL+`/hook"}}}`).Is(t, 200)
	gatewaytest.Eventually(t, "alerts about both runs", func() bool {
		return slices.Equal(h.kinds(), []string{"loop", "run", "run"})
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.got {
		text := one["text"].(string)
		if strings.Contains(text, "nightly") || one["kind"] == "loop" && one["subject"] != id {
			t.Errorf("%v", one)
		}
	}
}
