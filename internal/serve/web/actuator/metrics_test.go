package actuator_test

import (
	"net/http"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// measured returns what a metric read says, by statistic.
func measured(r *gatewaytest.Gateway, name string) map[string]float64 {
	r.T.Helper()
	all := map[string]float64{}
	for _, m := range gatewaytest.At(r.T, r.GetObject("/actuator/metrics/"+name), "measurements").([]any) {
		m := m.(map[string]any)
		all[m["statistic"].(string)] = m["value"].(float64)
	}
	return all
}

// A maximum of 0 beside a sum that is none is not true.
func TestTimersHaveTheirMaximum(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	runtime.GC()
	gatewaytest.Eventually(t, "the request is settled", func() bool { return measured(r, "model.router.gateway.overhead")["COUNT"] == 1 })
	for _, name := range []string{
		"jvm.gc.pause", "go.gc.duration.seconds", "model.router.gateway.overhead", "model.router.request.duration", "http.server.requests",
		"model.router.queue.wait", "model.router.time.to.first.token",
	} {
		m := measured(r, name)
		largest, there := m["MAX"]
		if !there || (m["TOTAL_TIME"] > 0) != (largest > 0) || largest > m["TOTAL_TIME"]*1.000001 {
			t.Errorf("%s: %v", name, m)
		}
	}
	if names := gatewaytest.At(t, r.GetObject("/actuator/metrics"), "names").([]any); slices.Contains(names, any("jvm.gc.pause.max")) {
		t.Errorf("the maxima are metrics of their own: %v", names)
	}
}

func TestErrorsHaveTheShapeOfTheirSurface(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	for _, test := range []struct {
		method, path string
		status       int
		shape        string
	}{
		{http.MethodPost, "/actuator/health", 405, "actuator"},
		{http.MethodDelete, "/actuator", 405, "actuator"},
		{http.MethodPut, "/actuator/loggers/ROOT", 405, "actuator"},
		{http.MethodGet, "/actuator/heapdump", 404, "actuator"},
		{http.MethodGet, "/api", 404, "envelope"},
		{http.MethodGet, "/api/nothing", 404, "envelope"},
		{http.MethodDelete, "/api/models", 405, "envelope"},
		{http.MethodGet, "/api/monitoring/quota/nothing", 404, "envelope"},
		{http.MethodPost, "/api/monitoring/quota/status", 405, "envelope"},
		{http.MethodGet, "/api/monitoring", 404, "plain"},
		{http.MethodGet, "/api/monitoring/nothing", 404, "plain"},
		{http.MethodDelete, "/api/monitoring/config", 405, "plain"},
		{http.MethodGet, "/api/monitoring/calls/none", 404, "plain"},
	} {
		answer := r.Do(test.method, test.path, "")
		body := gatewaytest.DecodeObject(t, answer.Body)
		message, _ := body["error"].(string)
		fits := false
		switch test.shape {
		case "actuator":
			fits = body["status"] == float64(test.status) && body["path"] == test.path && message == http.StatusText(test.status) && body["timestamp"] != nil
		case "envelope":
			data, there := body["data"]
			message, _ = body["message"].(string)
			fits = body["success"] == false && there && data == nil && message != ""
		default:
			fits = len(body) == 1 && message != ""
		}
		if answer.Status != test.status || !fits {
			t.Errorf("%s %s: %d %s", test.method, test.path, answer.Status, answer.Body)
		}
		if test.status == 405 && answer.Header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", test.method, test.path)
		}
	}
}

func TestOptionsOfPaths(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	for path, allow := range map[string]string{
		"/actuator/health": "GET, HEAD, OPTIONS", "/actuator/loggers/ROOT": "GET, HEAD, POST, OPTIONS", "/actuator": "GET, HEAD, OPTIONS",
		"/actuator/prometheus": "GET, HEAD, OPTIONS", "/api/monitoring/config/prefix": "PUT, OPTIONS",
		"/actuator/heapdump": "", "/actuator/health/a/b": "", "/api/nothing": "", "/v1/nothing": "",
	} {
		want := 204
		if allow == "" {
			want = 404
		}
		if answer := r.Do(http.MethodOptions, path, ""); answer.Status != want || answer.Header.Get("Allow") != allow {
			t.Errorf("%s: %d, Allow %q", path, answer.Status, answer.Header.Get("Allow"))
		}
		asked := r.Do(http.MethodOptions, path, "", "Origin", "https://page.example", "Access-Control-Request-Method", "GET")
		if asked.Status != 204 || asked.Header.Get("Access-Control-Allow-Methods") == "" {
			t.Errorf("preflight of %s: %d %v", path, asked.Status, asked.Header)
		}
	}
}

func TestLevelsAreClearedOnPurposeOnly(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	set := func(name, body string, want int) {
		t.Helper()
		if answer := r.Do(http.MethodPost, "/actuator/loggers/"+name, body); answer.Status != want {
			t.Errorf("%s %q: %d %s", name, body, answer.Status, answer.Body)
		}
	}
	level := func(name string, configured any, effective string) {
		t.Helper()
		if got := r.GetObject("/actuator/loggers/" + name); got["configuredLevel"] != configured || got["effectiveLevel"] != effective {
			t.Errorf("%s: %v", name, got)
		}
	}
	start := r.GetObject("/actuator/loggers/ROOT")["effectiveLevel"].(string)
	set("ROOT", `{"configuredLevel":"ERROR"}`, 204)
	set("some", `{"configuredLevel":"WARN"}`, 204)
	for _, body := range []string{"", `{"level":"DEBUG"}`, `{"configuredlevel":"DEBUG"}`, `{"configuredLevel":"DEBUG","x":1}`, "null", `"DEBUG"`, "[]", `{"configuredLevel":5}`} {
		set("ROOT", body, 400)
		set("some", body, 400)
	}
	level("ROOT", "ERROR", "ERROR")
	level("some", "WARN", "WARN")
	set("some", `{}`, 204)
	level("some", nil, "ERROR")
	set("root", `{"configuredLevel":null}`, 204)
	level("ROOT", start, start)
	level("some", nil, start)
}

func TestDiskOfADirectoryThatIsGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/data"
	r := gatewaytest.StartWith(t, gatewaytest.Setup{DataDir: dir})
	// The start may still write its first files.
	gatewaytest.Eventually(t, "the directory is gone", func() bool { return os.RemoveAll(dir) == nil })
	answer := r.Do(http.MethodGet, "/actuator/health", "")
	health := gatewaytest.DecodeObject(t, answer.Body)
	if answer.Status != 503 || health["status"] != "DOWN" || gatewaytest.At(t, health, "components/diskSpace/status") != "DOWN" || gatewaytest.At(t, health, "components/diskSpace/details/exists") != false {
		t.Errorf("%d %s", answer.Status, answer.Body)
	}
	if got := r.Do(http.MethodGet, "/actuator/health/diskSpace", "").Status; got != 503 {
		t.Errorf("diskSpace: %d", got)
	}
}
