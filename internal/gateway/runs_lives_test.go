// This file belongs to the wing runs.

package gateway_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/prices"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// A run that was ended or raised and then idle is over at all gateways: the same id is a new run, with
// the limits of the configuration.
func TestDecisionsAboutARunThatIsOverAreOver(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]func(t *testing.T) string{
		"Redis and database": func(t *testing.T) string { return inRedis(storetest.Redis(t)) + inDatabase(t, "config") },
		"database":           func(t *testing.T) string { return inDatabase(t, "config") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			b.ScriptForever(answer(15, 5))
			const idle = 5 * time.Second
			yaml := governed(b, "idle: 5s, limits: {requests: 3}") + shared(t)
			one, other := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)
			turn(one, "ended", small).Succeeds(t)
			turn(one, "raised", small).Succeeds(t)
			for _, run := range listRuns(t, one, "") {
				if run.Name == "ended" {
					one.API(http.MethodPost, "/api/runs/"+run.ID+"/end", "").Is(t, 200)
				} else {
					one.API(http.MethodPost, "/api/runs/"+run.ID+"/raise", `{"requests":7}`).Is(t, 200)
				}
			}
			over := time.Now().Add(idle + 2*time.Second)
			gatewaytest.Eventually(t, "the other gateway knows both", func() bool { return len(listRuns(t, other, "")) == 2 })
			gatewaytest.Eventually(t, "both are over", func() bool { return time.Now().After(over) })
			for until := time.Now().Add(4 * time.Second); time.Now().Before(until); {
				<-time.After(time.Second / 2)
				if got := turn(one, "ended", small); codeOf(got) == "run_ended" {
					t.Fatalf("%d %s", got.Status, got.Body)
				}
				turn(one, "raised", small)
				for _, r := range []*gatewaytest.Gateway{one, other} {
					for _, run := range listRuns(t, r, "") {
						if run.Limits.Requests != 3 || run.State == "ENDED" {
							t.Fatalf("%+v", run)
						}
					}
				}
			}
		})
	}
}

// To look at a run is no use of it.
func TestALookAtARunDoesNotProlongIt(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(15, 5))
	yaml := governed(b, "limits: {requests: 3}") + inRedis(storetest.Redis(t)) + inDatabase(t, "config")
	one, other := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)
	turn(one, "task", small).Succeeds(t)
	used := time.Now()
	<-time.After(3 * time.Second)
	gatewaytest.Eventually(t, "the other gateway lists the run", func() bool { return len(listRuns(t, other, "")) == 1 })
	for range 4 {
		<-time.After(time.Second / 2)
		if found := listRuns(t, other, "")[0]; found.Last.After(used.Add(time.Second)) || found.Used.Requests != 1 {
			t.Errorf("it was used %v ago: %+v", time.Since(used), found)
		}
	}
}

// A tenant or a user that no text can hold hides no run, and keeps no decision from the disk.
func TestNamesThatNoTextCanHoldHideNoRun(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(15, 5))
	setup := gatewaytest.Setup{DataDir: t.TempDir(), YAML: governed(b, "limits: {requests: 1}")}
	r := gatewaytest.StartWith(t, setup)
	turn(r, "bad", small, "X-Tenant-Id", "a\xff").Succeeds(t)
	turn(r, "long", small, "X-Tenant-Id", strings.Repeat("x", 20_000)).Succeeds(t)
	turn(r, "good", small).Succeeds(t)
	found := listRuns(t, r, "")
	if len(found) != 3 {
		t.Fatalf("%+v", found)
	}
	for _, run := range found {
		if len(run.Tenant) > 128 {
			t.Errorf("a tenant of %d bytes is kept", len(run.Tenant))
		}
		r.API(http.MethodPost, "/api/runs/"+run.ID+"/raise", `{"requests":1}`).Is(t, 200)
	}
	text, err := os.ReadFile(filepath.Join(setup.DataDir, "runs.json"))
	if err != nil || strings.Count(string(text), `"name"`) != 3 {
		t.Errorf("%s, %v", text, err)
	}
}

// A request that is refused for what it asks of its run begins none.
func TestARefusedWishBeginsNoRun(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, governed(b, "limits: {cost: 100}"))
	for _, asked := range []string{"x", "-1", "101"} {
		turn(r, "task", small, "X-Router-Run-Limit-Cost", asked).FailsWith(t, 400, "invalid_request_error", "invalid_value", "")
	}
	if found := listRuns(t, r, ""); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

// Limits that change while a run is under way hold for its next call. A key that moves to another tenant
// takes its runs along, what was raised included, and one that is rotated or comes back goes on.
func TestARunFollowsTheConfiguration(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(15, 5))
	yaml := func(red int) string {
		return governed(b, "limits: {requests: 9}, loops: {repeats: 0}") + fmt.Sprintf("security: {enabled: true, tenants: [{name: red, runs: {requests: %d}}, {name: blue}], "+
			"tokens: [{name: a, role: ADMIN, token-sha256: %s}]}\n", red, gatewaytest.HashOf("admin-token"))
	}
	r := gatewaytest.Start(t, yaml(2))
	admin := []string{"Authorization", "Bearer admin-token"}
	ask := func(method, path, body string) gatewaytest.ManagementReply {
		return r.API(method, path, body, admin...)
	}
	type keyIssued struct {
		Key string `json:"key"`
	}
	key := gatewaytest.DataOf[keyIssued](t, ask(http.MethodPost, "/api/auth/keys", `{"id":"k","tenant":"red"}`).Is(t, 201)).Key
	const most = 10
	passes := func(what string, want int) (refused gatewaytest.Reply) {
		t.Helper()
		passed := 0
		for range most {
			if got := turn(r, "task", small, bearer(key)...); got.Status == http.StatusOK {
				passed++
			} else {
				refused = got
			}
		}
		if passed != want {
			t.Errorf("%s: %d requests passed, want %d: %s", what, passed, want, refused.Body)
		}
		return refused
	}
	id := regexp.MustCompile("run_[0-9a-f]+").FindString(passes("the limit of the tenant", 2).Body)
	ask(http.MethodPost, "/api/runs/"+id+"/raise", `{"requests":1}`).Is(t, 200)
	passes("a raise", 1)
	r.ReloadWith(yaml(4))
	passes("a greater limit", 2)
	r.ReloadWith(yaml(1))
	passes("a lesser limit", 0)
	ask(http.MethodPut, "/api/auth/keys/k", `{"tenant":"blue","runs":{"requests":6}}`).Is(t, 200)
	passes("another tenant", 2)
	key = gatewaytest.DataOf[keyIssued](t, ask(http.MethodPost, "/api/auth/keys/k/rotate", `{}`).Is(t, 200)).Key
	passes("a rotated key", 0)
	ask(http.MethodPut, "/api/auth/keys/k", `{"runs":{"requests":0}}`).Is(t, 200)
	passes("the limit of the gateway", 3)
	ask(http.MethodDelete, "/api/auth/keys/k", "").Is(t, 200)
	passes("a key that is gone", 0)
	var shown runShown
	if err := json.Unmarshal(ask(http.MethodGet, "/api/runs/"+id, "").Is(t, 200).Data, &shown, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err)
	}
	if shown.Tenant != "blue" || shown.Key != "k" || shown.Limits.Requests != 10 || shown.Used.Requests != 10 {
		t.Errorf("%+v", shown)
	}
}

// What a run has used is the sum of its calls: of whole ones, of streams that break and go on, of
// fallbacks, answers from the cache and counting operations.
func TestARunCostsWhatItsCallsCost(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	yaml := gatewaytest.PolicyYAML("streams: {resume: continue}, fallbacks: {m: [other]}, "+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", a.URL(), "adapter: vllm"), gatewaytest.Instance("other", b.URL(), "adapter: vllm"),
		gatewaytest.Instance("m", b.URL(), "adapter: vllm", "tier: 1")) + cacheOn +
		"prices: {models: [{model: m, input: 1000, output: 2000}, {model: other, input: 5000, output: 7000}]}\nruns: {enabled: true, limits: {cost: 1000}}\n"
	r := gatewaytest.Start(t, yaml)
	streamed := `{"model":"m","stream":true,"max_tokens":50,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
	a.Script(sayEvents(endEvents))
	turn(r, "task", streamed).Succeeds(t)
	a.Script(sayEvents(""))
	b.Script(sayEvents(endEvents))
	turn(r, "task", strings.Replace(streamed, `"hi"`, `"ho"`, 1), "X-Router-Cache", "off").Succeeds(t)
	a.Script(answer(15, 5))
	exact := strings.Replace(small, "{", `{"temperature":0,`, 1)
	cacheIs(t, turn(r, "task", exact), "miss")
	cacheIs(t, turn(r, "task", exact), "hit")
	a.ScriptForever(simulator.Step{Status: 500})
	b.Script(simulator.Step{Status: 500}, answer(30, 40))
	turn(r, "task", strings.Replace(small, "hi", "hello", 1)).Succeeds(t)
	counting := `{"model":"m","messages":[{"role":"user","content":"hi"}]}`
	r.Do(http.MethodPost, "/v1/messages/count_tokens", counting, "X-Router-Run", "task").Succeeds(t)
	id := listRuns(t, r, "")[0].ID
	var shown runShown
	gatewaytest.Eventually(t, "all calls are listed", func() bool {
		shown = showRun(t, r, id)
		return len(shown.Calls) == 6
	})
	sum := int64(0)
	for _, call := range shown.Calls {
		sum += call.Cost
	}
	if used, err := prices.ParseAmount(shown.Used.Cost); err != nil || used.Micros() != sum || sum == 0 {
		t.Errorf("it used %v and its calls cost %d millionths: %+v", used, sum, shown)
	}
	if shown.Reserved.Cost != "0" || shown.Reserved.Tokens != 0 || shown.Reserved.Requests != 0 {
		t.Errorf("something stays reserved: %+v", shown.Reserved)
	}
}
