package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/simulator"
	"github.com/patchbay-ai/patchbay/internal/storetest"
)

// healthView is what GET /actuator/health shows.
type healthView struct {
	Status     string `json:"status"`
	Components map[string]struct {
		Status  string `json:"status"`
		Details struct {
			Since    time.Time `json:"since"`
			Reason   string    `json:"reason"`
			Failures int       `json:"failures"`
			LastRead time.Time `json:"lastRead"`
		} `json:"details"`
	} `json:"components"`
}

// health returns the health of a gateway, which must be UP.
func (r *rig) healthUp() healthView {
	r.t.Helper()
	var view healthView
	answer := r.do(http.MethodGet, "/actuator/health", "").succeeds(r.t)
	if err := json.Unmarshal([]byte(answer.body), &view); err != nil || view.Status != "UP" {
		r.t.Fatalf("%v: %s", err, answer.body)
	}
	return view
}

// scraped returns the lines of a scrape that begin with a text.
func (r *rig) scraped(prefix string) []string {
	r.t.Helper()
	var found []string
	for line := range strings.Lines(r.do(http.MethodGet, "/actuator/prometheus", "").succeeds(r.t).body) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// TestStoresThatAreAwayDegradeHealth: health names each store that is gone, why and
// since when, and the gateway stays in rotation. Nobody sends requests meanwhile.
func TestStoresThatAreAwayDegradeHealth(t *testing.T) {
	redis, ledger, shared := storetest.Redis(t), storetest.Postgres(t), storetest.Postgres(t)
	b := startBackend(t)
	r := startGateway(t, poolYAML(b)+fmt.Sprintf(`
quota: {enabled: true, flush-interval-seconds: 1, distributed: {enabled: true}}
redis: {url: %q}
store: {url: %q, config: %q}
`, redis.URL, ledger.URL, shared.URL))
	stores := []string{"configDatabase", "ledgerDatabase", "redis"}
	all := func(status string) func() bool {
		return func() bool {
			view := r.healthUp()
			return !slices.ContainsFunc(stores, func(name string) bool { return view.Components[name].Status != status })
		}
	}
	eventually(t, "all stores are UP", all("UP"))
	if _, there := r.healthUp().Components["configFile"]; there {
		t.Error("a file is shown that nobody reads")
	}
	before := time.Now().Truncate(time.Millisecond)
	for _, s := range []*storetest.Server{redis, ledger, shared} {
		s.Kill()
	}
	eventually(t, "all stores are DEGRADED", all("DEGRADED"))
	view := r.healthUp()
	for _, name := range stores {
		if d := view.Components[name].Details; d.Reason == "" || d.Failures == 0 || d.Since.Before(before) || d.Since.After(time.Now()) {
			t.Errorf("%s: %+v", name, d)
		}
		r.do(http.MethodGet, "/actuator/health/"+name, "").succeeds(t)
	}
	r.do(http.MethodGet, "/actuator/health/readiness", "").succeeds(t)
	r.chat(plainHi).succeeds(t)
	for _, series := range []string{
		`model_router_config_source_healthy{source="database"}`, `model_router_quota_store_healthy{store="counter"}`, `model_router_quota_store_healthy{store="database"}`,
	} {
		if got := r.scraped(series); len(got) != 1 || !strings.HasSuffix(got[0], " 0") {
			t.Errorf("%s: %v", series, got)
		}
	}
	since := view.Components["ledgerDatabase"].Details.Since
	eventually(t, "it was tried again", func() bool {
		return r.healthUp().Components["ledgerDatabase"].Details.Failures > view.Components["ledgerDatabase"].Details.Failures
	})
	if again := r.healthUp().Components["ledgerDatabase"].Details.Since; !again.Equal(since) {
		t.Errorf("away since %v, and then since %v", since, again)
	}
	for _, s := range []*storetest.Server{redis, ledger, shared} {
		s.Start()
	}
	eventually(t, "all stores are UP again", all("UP"))
}

// TestHealthShowsOnlyWhatIsConfigured: stores that are not in use have no component.
func TestHealthShowsOnlyWhatIsConfigured(t *testing.T) {
	r, _ := startOne(t)
	names := func() (found []string) {
		for name := range r.healthUp().Components {
			if slices.Contains([]string{"redis", "ledgerJournal", "ledgerDatabase", "configDatabase", "configFile"}, name) {
				found = append(found, name)
			}
		}
		slices.Sort(found)
		return found
	}
	if got := names(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	r.do(http.MethodPut, "/api/config/quota", `{"enabled":true}`).succeeds(t)
	if got := names(); !slices.Equal(got, []string{"ledgerDatabase", "ledgerJournal"}) {
		t.Errorf("%v", got)
	}
	if got := r.do(http.MethodGet, "/actuator/health/redis", ""); got.status != http.StatusNotFound {
		t.Errorf("%d", got.status)
	}
}

// TestBadFileDegradesHealth: a file that was not taken shows in health and in a
// metric until a good one is read.
func TestBadFileDegradesHealth(t *testing.T) {
	one := chatYAML(instance("one", simulator.DownURL))
	without, reloadIt := reloading(t, setup{yaml: one})
	reloadIt(one)
	if _, there := without.healthUp().Components["configFile"]; there {
		t.Error("a gateway without a file shows one")
	}
	r, reload := reloading(t, setup{yaml: one, fromFile: true})
	const healthy, failures = `model_router_config_source_healthy{source="file"}`, `model_router_config_source_failures_total{source="file"}`
	check := func(status, reason, metric, count string) {
		t.Helper()
		file := r.healthUp().Components["configFile"]
		if file.Status != status || !strings.Contains(file.Details.Reason, reason) || (reason == "") != (file.Details.Reason == "") || file.Details.LastRead.IsZero() {
			t.Errorf("%+v", file)
		}
		if got := r.scraped(healthy); !slices.Equal(got, []string{healthy + " " + metric}) {
			t.Errorf("%v", got)
		}
		if got := r.scraped(failures); !slices.Equal(got, []string{failures + " " + count}) {
			t.Errorf("%v", got)
		}
	}
	check("UP", "", "1", "0")
	reload("services: {chat: {load-balancer: fastest}}\n")
	check("DEGRADED", "load-balancer", "0", "1")
	reload("")
	check("DEGRADED", "empty", "0", "2")
	reload(chatYAML(instance("two", simulator.DownURL)))
	check("UP", "", "1", "2")
	r.do(http.MethodGet, "/actuator/health/readiness", "").succeeds(t)
}

// TestServeShowsItsFile: the program itself watches the file, and says so.
func TestServeShowsItsFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	mustWrite(t, file, "limits: {max-attempts: 2}\n")
	c := serving(t, "--config", file, "--data-dir", t.TempDir())
	status := func() string {
		var view struct {
			Status string `json:"status"`
		}
		answer := c.ask(http.MethodGet, "/actuator/health/configFile", "")
		_ = json.Unmarshal([]byte(answer.body), &view)
		return fmt.Sprint(answer.status, " ", view.Status)
	}
	if got := status(); got != "200 UP" {
		t.Errorf("%s", got)
	}
	mustWrite(t, file, "limits: {max-attempts: many}\n")
	eventually(t, "the file is bad", func() bool { return status() == "200 DEGRADED" })
	mustWrite(t, file, "limits: {max-attempts: 3}\n")
	eventually(t, "the file is good again", func() bool { return status() == "200 UP" })
}
