package actuator_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
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
func healthUp(r *gatewaytest.Gateway, headers ...string) healthView {
	r.T.Helper()
	var view healthView
	answer := r.Do(http.MethodGet, "/actuator/health", "", headers...).Succeeds(r.T)
	if err := json.Unmarshal([]byte(answer.Body), &view); err != nil || view.Status != "UP" {
		r.T.Fatalf("%v: %s", err, answer.Body)
	}
	return view
}

// scraped returns the lines of a scrape that begin with a text.
func scraped(r *gatewaytest.Gateway, prefix string) []string {
	r.T.Helper()
	var found []string
	for line := range strings.Lines(r.Do(http.MethodGet, "/actuator/prometheus", "").Succeeds(r.T).Body) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// TestStoresThatAreAwayDegradeHealth: health names each store that is gone, why and
// since when, and the gateway stays in rotation. Nobody sends requests meanwhile.
func TestStoresThatAreAwayDegradeHealth(t *testing.T) {
	t.Parallel()
	redis, ledger, shared := storetest.Redis(t), storetest.Postgres(t), storetest.Postgres(t)
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+fmt.Sprintf(`
quota: {enabled: true, flush-interval-seconds: 1, distributed: {enabled: true}}
redis: {url: %q}
store: {url: %q, config: %q}
`, redis.URL, ledger.URL, shared.URL))
	stores := []string{"configDatabase", "ledgerDatabase", "redis"}
	all := func(status string) func() bool {
		return func() bool {
			view := healthUp(r)
			return !slices.ContainsFunc(stores, func(name string) bool { return view.Components[name].Status != status })
		}
	}
	gatewaytest.Eventually(t, "all stores are UP", all("UP"))
	if _, there := healthUp(r).Components["configFile"]; there {
		t.Error("a file is shown that nobody reads")
	}
	before := time.Now().Truncate(time.Millisecond)
	for _, s := range []*storetest.Server{redis, ledger, shared} {
		s.Kill()
	}
	gatewaytest.Eventually(t, "all stores are DEGRADED", all("DEGRADED"))
	view := healthUp(r)
	for _, name := range stores {
		if d := view.Components[name].Details; d.Reason == "" || d.Failures == 0 || d.Since.Before(before) || d.Since.After(time.Now()) {
			t.Errorf("%s: %+v", name, d)
		}
		r.Do(http.MethodGet, "/actuator/health/"+name, "").Succeeds(t)
	}
	r.Do(http.MethodGet, "/actuator/health/readiness", "").Succeeds(t)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	for _, series := range []string{
		`model_router_config_source_healthy{source="database"}`, `model_router_quota_store_healthy{store="counter"}`, `model_router_quota_store_healthy{store="database"}`,
	} {
		if got := scraped(r, series); len(got) != 1 || !strings.HasSuffix(got[0], " 0") {
			t.Errorf("%s: %v", series, got)
		}
	}
	since := view.Components["ledgerDatabase"].Details.Since
	gatewaytest.Eventually(t, "it was tried again", func() bool {
		return healthUp(r).Components["ledgerDatabase"].Details.Failures > view.Components["ledgerDatabase"].Details.Failures
	})
	if again := healthUp(r).Components["ledgerDatabase"].Details.Since; !again.Equal(since) {
		t.Errorf("away since %v, and then since %v", since, again)
	}
	for _, s := range []*storetest.Server{redis, ledger, shared} {
		s.Start()
	}
	gatewaytest.Eventually(t, "all stores are UP again", all("UP"))
}

// TestStoresOfBudgetsThatAreAwayDegradeHealth: the stores of budgets are shown also while
// the ledger of usage is off, and a gateway without requests notices that they are away.
func TestStoresOfBudgetsThatAreAwayDegradeHealth(t *testing.T) {
	t.Parallel()
	redis, database := storetest.Redis(t), storetest.Postgres(t)
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+fmt.Sprintf(`
quota: {enabled: false, flush-interval-seconds: 1, distributed: {enabled: true}}
redis: {url: %q}
store: {url: %q}
security: {enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: %s}], keys: [{id: k, key-sha256: %s, budgets: {day: {requests: 9}}}]}
`, redis.URL, database.URL, gatewaytest.HashOf("admin-token"), gatewaytest.HashOf("secret")))
	shown := func() healthView { return healthUp(r, "Authorization", "Bearer admin-token") }
	stores := map[string]string{"budgetDatabase": "database", "sharedBudgets": "redis"}
	all := func(status string) func() bool {
		return func() bool {
			view := shown()
			for name := range stores {
				if view.Components[name].Status != status {
					return false
				}
			}
			return true
		}
	}
	gatewaytest.Eventually(t, "all stores are UP", func() bool {
		view := shown()
		return all("UP")() && view.Components["budgetJournal"].Status == "UP"
	})
	view := shown()
	if _, there := view.Components["redis"]; there {
		t.Errorf("%+v", view.Components)
	}
	redis.Kill()
	database.Kill()
	gatewaytest.Eventually(t, "all stores are DEGRADED", all("DEGRADED"))
	view = shown()
	for name, store := range stores {
		if d := view.Components[name].Details; d.Reason == "" || d.Failures == 0 || d.Since.IsZero() {
			t.Errorf("%s: %+v", name, d)
		}
		series := fmt.Sprintf(`model_router_budget_store_healthy{store=%q}`, store)
		if got := scraped(r, series); len(got) != 1 || !strings.HasSuffix(got[0], " 0") {
			t.Errorf("%s: %v", series, got)
		}
	}
	redis.Start()
	database.Start()
	gatewaytest.Eventually(t, "all stores are UP again", all("UP"))
}

// TestHealthShowsOnlyWhatIsConfigured: stores that are not in use have no component.
func TestHealthShowsOnlyWhatIsConfigured(t *testing.T) {
	t.Parallel()
	r, _ := gatewaytest.StartOne(t)
	names := func() (found []string) {
		for name := range healthUp(r).Components {
			if slices.Contains([]string{"redis", "ledgerJournal", "ledgerDatabase", "budgetJournal", "budgetDatabase", "sharedBudgets", "configDatabase", "configFile"}, name) {
				found = append(found, name)
			}
		}
		slices.Sort(found)
		return found
	}
	if got := names(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	r.Do(http.MethodPut, "/api/config/quota", `{"enabled":true}`).Succeeds(t)
	if got := names(); !slices.Equal(got, []string{"ledgerDatabase", "ledgerJournal"}) {
		t.Errorf("%v", got)
	}
	if got := r.Do(http.MethodGet, "/actuator/health/redis", ""); got.Status != http.StatusNotFound {
		t.Errorf("%d", got.Status)
	}
}

// TestBadFileDegradesHealth: a file that was not taken shows in health and in a
// metric until a good one is read.
func TestBadFileDegradesHealth(t *testing.T) {
	t.Parallel()
	one := gatewaytest.ChatYAML(gatewaytest.Instance("one", simulator.DownURL))
	without := gatewaytest.Start(t, one)
	without.ReloadWith(one)
	if _, there := healthUp(without).Components["configFile"]; there {
		t.Error("a gateway without a file shows one")
	}
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: one, FromFile: true})
	reload := r.ReloadWith
	const healthy, failures = `model_router_config_source_healthy{source="file"}`, `model_router_config_source_failures_total{source="file"}`
	check := func(status, reason, metric, count string) {
		t.Helper()
		file := healthUp(r).Components["configFile"]
		if file.Status != status || !strings.Contains(file.Details.Reason, reason) || (reason == "") != (file.Details.Reason == "") || file.Details.LastRead.IsZero() {
			t.Errorf("%+v", file)
		}
		if got := scraped(r, healthy); !slices.Equal(got, []string{healthy + " " + metric}) {
			t.Errorf("%v", got)
		}
		if got := scraped(r, failures); !slices.Equal(got, []string{failures + " " + count}) {
			t.Errorf("%v", got)
		}
	}
	check("UP", "", "1", "0")
	reload("services: {chat: {load-balancer: fastest}}\n")
	check("DEGRADED", "load-balancer", "0", "1")
	reload("")
	check("DEGRADED", "empty", "0", "2")
	reload(gatewaytest.ChatYAML(gatewaytest.Instance("two", simulator.DownURL)))
	check("UP", "", "1", "2")
	r.Do(http.MethodGet, "/actuator/health/readiness", "").Succeeds(t)
}

// A disk with no more space than is reserved is told as a component of the health, and takes
// the gateway neither out of rotation nor away from other requests.
func TestAFullFolderOfFilesDegradesHealth(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "batches: {enabled: true}\nfiles: {reserve: 1000000GiB}\n"+gatewaytest.PoolYAML(gatewaytest.StartBackend(t)))
	reply := r.PostForm("/v1/files", gatewaytest.Field("purpose", "batch"), gatewaytest.Upload("file", "a", "text/plain", "x"))
	if reply.Status != http.StatusInsufficientStorage || !strings.Contains(reply.Body, "storage_full") {
		t.Errorf("an upload: %d %s", reply.Status, reply.Body)
	}
	view := healthUp(r).Components["files"]
	if view.Status != "DEGRADED" || !strings.Contains(view.Details.Reason, "files.reserve") || view.Details.Failures != 1 {
		t.Errorf("%+v", view)
	}
	if body := r.Do(http.MethodGet, "/actuator/health/files", "").Succeeds(t).Body; !strings.Contains(body, `"reserve":1073741824000000,`) && !strings.Contains(body, `"reserve":1073741824000000}`) || !strings.Contains(body, `"free":`) {
		t.Error(body)
	}
	r.Do(http.MethodGet, "/actuator/health/readiness", "").Succeeds(t)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if got := scraped(r, "model_router_files_healthy"); len(got) != 1 || !strings.HasSuffix(got[0], " 0") {
		t.Errorf("%v", got)
	}
}
