package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// withKey returns a configuration with a key, whose text is "secret", and these members.
func withKey(yaml, members string) string {
	return yaml + fmt.Sprintf("security: {enabled: true, keys: [{id: k, key-sha256: %s, %s}]}\n", gatewaytest.HashOf("secret"), members)
}

// answer is an answer that reports so many tokens.
func answer(prompt, completion int) simulator.Step {
	return simulator.Step{Body: fmt.Sprintf(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
		prompt, completion, prompt+completion)}
}

func TestABudgetThatIsUsedUpRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		members, window, unit, limit, used string
		answered                           int
		resets                             bool
	}{
		"requests of a day":   {"budgets: {day: {requests: 2}}", "DAY", "requests", "2", "2", 2, true},
		"tokens of a month":   {"budgets: {month: {tokens: 300}}", "MONTH", "tokens", "300", "200", 2, true},
		"money in all":        {"budgets: {total: {cost: 0.0005}}", "TOTAL", "cost", "0.0005", "0.0004", 2, false},
		"as the defaults say": {"budgets: {day: {requests: -1}, month: {tokens: 300}}", "MONTH", "tokens", "300", "200", 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			b.ScriptForever(answer(100, 0))
			yaml := strings.Replace(withKey(gatewaytest.PoolYAML(b), test.members), "enabled: true,", "enabled: true, defaults: {budgets: {day: {requests: 5}}},", 1)
			r := gatewaytest.Start(t, yaml+"prices: {models: [{model: m, input: 2}]}\n")
			ask := func() gatewaytest.Reply { return r.Chat(gatewaytest.With(`"max_tokens":150`), bearer("secret")...) }
			for range test.answered {
				ask().Succeeds(t)
			}
			if test.unit == "cost" { // a prompt of a hundred tokens and more
				long := strings.Repeat("word ", 80)
				ask = func() gatewaytest.Reply {
					return r.Chat(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"`+long+`"}]}`, bearer("secret")...)
				}
			}
			refused := ask()
			refused.FailsWith(t, http.StatusTooManyRequests, "insufficient_quota", "budget_exceeded", "")
			var details struct {
				Budget struct {
					Of     string         `json:"of"`
					Window string         `json:"window"`
					Unit   string         `json:"unit"`
					Limit  jsontext.Value `json:"limit"`
				} `json:"budget"`
				Used  jsontext.Value `json:"used"`
				Reset string         `json:"reset"`
			}
			if err := json.Unmarshal(gatewaytest.ErrorOf(t, refused.Body).Details, &details); err != nil {
				t.Fatal(err)
			}
			got := details.Budget
			if got.Of != "key/k" || got.Window != test.window || got.Unit != test.unit || string(got.Limit) != test.limit || string(details.Used) != test.used || (details.Reset != "") != test.resets {
				t.Errorf("details %+v", details)
			}
			retry := refused.Header.Get("Retry-After")
			if refused.Header.Get("X-Should-Retry") != "false" || test.resets && (retry == "" || len(retry) > 2) || !test.resets && retry != "" {
				t.Errorf("refused with %v", refused.Header)
			}
			if n := len(b.Requests()); n != test.answered {
				t.Errorf("%d requests reached the backend", n)
			}
		})
	}
}

// Requests that run at the same time do not pass a budget together, also when it is a
// tenant's, and one that fails gives back what it had reserved.
func TestParallelRequestsDoNotPassABudget(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(10, 90))
	r := gatewaytest.Start(t, strings.Replace(withKey(gatewaytest.PoolYAML(b), "tenant: acme"), "enabled: true,", "enabled: true, tenants: [{name: acme, budgets: {day: {tokens: 1000}}}],", 1))
	var answered atomic.Int64
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 5 {
				if r.Chat(gatewaytest.With(`"max_tokens":90`), bearer("secret")...).Status == http.StatusOK {
					answered.Add(1)
				}
			}
		})
	}
	clients.Wait()
	// Each reserves 90 and the estimate of a prompt, and costs 100.
	if n := answered.Load(); n < 8 || n > 10 {
		t.Errorf("%d requests of 100 tokens passed a budget of 1000", n)
	}
}

// What is used of budgets is shown, with costs in millionths of the currency's unit.
func TestUseOfBudgetsIsShown(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(100, 50))
	yaml := withKey(gatewaytest.PoolYAML(b), "tenant: acme, budgets: {day: {tokens: 1000}, total: {cost: 2.5}}")
	yaml = strings.Replace(yaml, "enabled: true,", "enabled: true, tenants: [{name: acme, budgets: {month: {requests: 7}}}], tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("admin-token")+"}],", 1)
	yaml += "prices: {models: [{model: '*', input: 1000, output: 2000}]}\n"
	r := gatewaytest.Start(t, yaml)
	r.Chat(gatewaytest.With(`"max_tokens":90`), bearer("secret")...).Succeeds(t)
	shown := r.Do("GET", "/api/monitoring/budgets", "", "Authorization", "Bearer admin-token").Succeeds(t).Body
	for _, want := range []string{
		`{"of":"key/k","window":"DAY","unit":"tokens","limit":1000,"used":150,"reserved":0,"reset":"20`,
		`{"of":"key/k","window":"TOTAL","unit":"cost","limit":2500000,"used":200000,"reserved":0,"reset":null}`,
		`{"of":"tenant/acme","window":"MONTH","unit":"requests","limit":7,"used":1,"reserved":0,"reset":"20`,
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %s in %s", want, shown)
		}
	}
	r.Chat(gatewaytest.With(`"max_tokens":5000`), bearer("secret")...).FailsWith(t, http.StatusTooManyRequests, "insufficient_quota", "budget_exceeded", "")
	scraped := r.Do("GET", "/metrics", "", "Authorization", "Bearer admin-token").Succeeds(t).Body
	for _, want := range []string{
		"model_router_budget_accounts 2\n",
		`model_router_budget_limit{of="key/k",unit="tokens",window="DAY"} 1000`,
		`model_router_budget_used{of="key/k",unit="tokens",window="DAY"} 150`,
		`model_router_budget_used{of="key/k",unit="cost",window="TOTAL"} 0.2`,
		`model_router_budget_reserved{of="key/k",unit="tokens",window="DAY"} 0`,
		`model_router_budget_refused_requests_total{of="key/k",unit="tokens",window="DAY"} 1`,
		`model_router_budget_deferred_requests_total{of="key/k",unit="tokens",window="DAY"} 0`,
		`model_router_budget_refused_requests_total{of="tenant/acme",unit="requests",window="MONTH"} 0`,
	} {
		if !strings.Contains(scraped, want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
	if refused := r.Do("GET", "/api/monitoring/budgets", "", bearer("secret")...); refused.Status != http.StatusUnauthorized {
		t.Errorf("a key of the unified API sees %d %s", refused.Status, refused.Body)
	}
}

// A key that was revoked, or has no budget any more, is not listed, and the metrics show no
// more than a hundred keys and tenants.
func TestBudgetsThatEndAreNotShown(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+gatewaytest.SecuredYAML())
	admin := []string{"Authorization", "Bearer admin-token"}
	shown := func(path, part string) int {
		return strings.Count(r.Do("GET", path, "", admin...).Succeeds(t).Body, part)
	}
	for n := range 103 {
		r.API("POST", "/api/auth/keys", fmt.Sprintf(`{"id":"k%d","budgets":{"day":{"requests":%d}}}`, n, n+1), admin...).Is(t, http.StatusCreated)
	}
	if n := shown("/api/monitoring/budgets", `"of":"key/k`); n != 103 {
		t.Errorf("%d of 103 budgets are listed", n)
	}
	if n := shown("/metrics", "\nmodel_router_budget_used{"); n != 100 || shown("/metrics", "model_router_budget_accounts 103\n") != 1 {
		t.Errorf("%d budgets are in the metrics", n)
	}
	r.API("DELETE", "/api/auth/keys/k7", "", admin...).Is(t, http.StatusOK)
	r.API("PUT", "/api/auth/keys/k8", `{"budgets":{"day":{"requests":0}}}`, admin...).Is(t, http.StatusOK)
	if shown("/api/monitoring/budgets", `"of":"key/k7"`)+shown("/api/monitoring/budgets", `"of":"key/k8"`) != 0 || shown("/api/monitoring/budgets", `"of":"key/k9"`) != 1 {
		t.Error("a key that was revoked, or lost its budget, is listed")
	}
}

// Budgets are kept while the ledger of usage is off, and over a restart.
func TestBudgetsSurviveARestart(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(100, 0))
	dir := t.TempDir()
	yaml := withKey(gatewaytest.PoolYAML(b), "budgets: {month: {tokens: 250}}")
	for round, want := range []int{200, 200, 429} {
		r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
		if got := r.Chat(gatewaytest.With(`"max_tokens":100`), bearer("secret")...); got.Status != want {
			t.Errorf("round %d: %d, want %d: %s", round, got.Status, want, got.Body)
		}
		r.Halt()
	}
}

// Nothing that is set for the ledger of usage touches a budget: not at the start, not while the
// gateway runs. While that ledger is off, budgets count and usage is empty.
func TestSettingsOfTheLedgerTouchNoBudget(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(10, 10))
	yaml := withKey(gatewaytest.PoolYAML(b), "budgets: {day: {requests: 5}, month: {tokens: 1000}, total: {tokens: 1000}}")
	yaml = strings.Replace(yaml, "enabled: true,", "enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("admin-token")+"}],", 1)
	r := gatewaytest.Start(t, yaml+"quota: {enabled: true, windows: [MINUTE], retention: {day: 1s, month: 1s}}\n")
	admin := []string{"Authorization", "Bearer admin-token"}
	for n, edit := range []string{`{"windows":["MINUTE"]}`, `{"windows":[]}`, `{"enabled":false}`, `{"enabled":true}`, `{"enabled":false,"windows":["DAY"]}`} {
		r.Do(http.MethodPut, "/api/config/quota", edit, admin...).Succeeds(t)
		r.Chat(gatewaytest.With(`"max_tokens":10`), bearer("secret")...).Succeeds(t)
		shown := r.Do(http.MethodGet, "/api/monitoring/budgets", "", admin...).Succeeds(t).Body
		for _, want := range []string{
			fmt.Sprintf(`"window":"DAY","unit":"requests","limit":5,"used":%d,`, n+1),
			fmt.Sprintf(`"window":"MONTH","unit":"tokens","limit":1000,"used":%d,`, 20*(n+1)),
			fmt.Sprintf(`"window":"TOTAL","unit":"tokens","limit":1000,"used":%d,`, 20*(n+1)),
		} {
			if !strings.Contains(shown, want) {
				t.Errorf("no %s after %s in %s", want, edit, shown)
			}
		}
	}
	r.Chat(gatewaytest.PlainHi, bearer("secret")...).FailsWith(t, http.StatusTooManyRequests, "insufficient_quota", "budget_exceeded", "")
	usage := gatewaytest.DecodeQuota[[]gatewaytest.QuotaEntry](t, r.Do(http.MethodGet, "/api/monitoring/quota/usage", "", admin...).Succeeds(t))
	if usage.Data == nil || len(usage.Data) != 0 || usage.Message != "配额账本未启用" {
		t.Errorf("%+v", usage)
	}
}
