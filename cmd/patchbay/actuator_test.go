package main

import (
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
)

// measured returns what a metric read says, by statistic.
func (r *rig) measured(name string) map[string]float64 {
	r.t.Helper()
	all := map[string]float64{}
	for _, m := range at(r.t, r.get("/actuator/metrics/"+name), "measurements").([]any) {
		m := m.(map[string]any)
		all[m["statistic"].(string)] = m["value"].(float64)
	}
	return all
}

// A maximum of 0 beside a sum that is none is not true.
func TestTimersHaveTheirMaximum(t *testing.T) {
	r, _ := startOne(t)
	r.chat(plainHi).succeeds(t)
	runtime.GC()
	eventually(t, "the request is settled", func() bool { return r.measured("model.router.gateway.overhead")["COUNT"] == 1 })
	for _, name := range []string{
		"jvm.gc.pause", "go.gc.duration.seconds", "model.router.gateway.overhead", "model.router.request.duration", "http.server.requests",
		"model.router.queue.wait", "model.router.time.to.first.token",
	} {
		m := r.measured(name)
		largest, there := m["MAX"]
		if !there || (m["TOTAL_TIME"] > 0) != (largest > 0) || largest > m["TOTAL_TIME"]*1.000001 {
			t.Errorf("%s: %v", name, m)
		}
	}
	if names := at(t, r.get("/actuator/metrics"), "names").([]any); slices.Contains(names, any("jvm.gc.pause.max")) {
		t.Errorf("the maxima are metrics of their own: %v", names)
	}
}

func TestErrorsHaveTheShapeOfTheirSurface(t *testing.T) {
	r, _ := startOne(t)
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
		answer := r.do(test.method, test.path, "")
		body := decodeObject(t, answer.body)
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
		if answer.status != test.status || !fits {
			t.Errorf("%s %s: %d %s", test.method, test.path, answer.status, answer.body)
		}
		if test.status == 405 && answer.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", test.method, test.path)
		}
	}
}

func TestOptionsOfPaths(t *testing.T) {
	r, _ := startOne(t)
	for path, allow := range map[string]string{
		"/actuator/health": "GET, HEAD, OPTIONS", "/actuator/loggers/ROOT": "GET, HEAD, POST, OPTIONS", "/actuator": "GET, HEAD, OPTIONS",
		"/actuator/prometheus": "GET, HEAD, OPTIONS", "/api/monitoring/config/prefix": "PUT, OPTIONS",
		"/actuator/heapdump": "", "/actuator/health/a/b": "", "/api/nothing": "", "/v1/nothing": "",
	} {
		want := 204
		if allow == "" {
			want = 404
		}
		if answer := r.do(http.MethodOptions, path, ""); answer.status != want || answer.header.Get("Allow") != allow {
			t.Errorf("%s: %d, Allow %q", path, answer.status, answer.header.Get("Allow"))
		}
		asked := r.do(http.MethodOptions, path, "", "Origin", "https://page.example", "Access-Control-Request-Method", "GET")
		if asked.status != 204 || asked.header.Get("Access-Control-Allow-Methods") == "" {
			t.Errorf("preflight of %s: %d %v", path, asked.status, asked.header)
		}
	}
}

func TestLevelsAreClearedOnPurposeOnly(t *testing.T) {
	r, _ := startOne(t)
	set := func(name, body string, want int) {
		t.Helper()
		if answer := r.do(http.MethodPost, "/actuator/loggers/"+name, body); answer.status != want {
			t.Errorf("%s %q: %d %s", name, body, answer.status, answer.body)
		}
	}
	level := func(name string, configured any, effective string) {
		t.Helper()
		if got := r.get("/actuator/loggers/" + name); got["configuredLevel"] != configured || got["effectiveLevel"] != effective {
			t.Errorf("%s: %v", name, got)
		}
	}
	start := r.get("/actuator/loggers/ROOT")["effectiveLevel"].(string)
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
	dir := t.TempDir() + "/data"
	r := startWith(t, setup{dataDir: dir})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	answer := r.do(http.MethodGet, "/actuator/health", "")
	health := decodeObject(t, answer.body)
	if answer.status != 503 || health["status"] != "DOWN" || at(t, health, "components/diskSpace/status") != "DOWN" || at(t, health, "components/diskSpace/details/exists") != false {
		t.Errorf("%d %s", answer.status, answer.body)
	}
	if got := r.do(http.MethodGet, "/actuator/health/diskSpace", "").status; got != 503 {
		t.Errorf("diskSpace: %d", got)
	}
}

// The Makefile says what was built; a plain build has what the Go command noted.
func TestBuildIsDescribed(t *testing.T) {
	noted := &debug.BuildInfo{Settings: []debug.BuildSetting{
		{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "0123456789abcdef0123"}, {Key: "vcs.time", Value: "2025-01-02T03:04:05Z"},
	}}
	if got := buildOf(noted, true); got.Commit != "0123456789ab" || got.Date != "2025-01-02T03:04:05Z" || got.Version != version {
		t.Errorf("%+v", got)
	}
	if got := buildOf(nil, false); got.Commit != "" || got.Date != "" {
		t.Errorf("%+v", got)
	}
}
