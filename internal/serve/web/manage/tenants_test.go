package manage_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// securedTeam is a configuration with a key "secret" of the tenant acme, and these other
// members of security.
func securedTeam(t *testing.T, more string) string {
	return gatewaytest.PoolYAML(gatewaytest.StartBackend(t)) + strings.Replace(gatewaytest.SecuredYAML(), "enabled: true,",
		"enabled: true, "+more+" keys: [{id: k, tenant: acme, key-sha256: "+gatewaytest.HashOf("secret")+"}],", 1)
}

// limitOf returns the limit of requests a minute that a request with the key is held to, 0
// where there is none.
func limitOf(t *testing.T, r *gatewaytest.Gateway) int {
	t.Helper()
	answer := r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer secret")
	limit, _ := strconv.Atoi(answer.Header.Get("X-Ratelimit-Limit-Requests"))
	return limit
}

// The terms of tenants and the defaults change at once, belong to the versions, and are
// those of the file where no version has any.
func TestTermsOfTenantsChangeWithVersions(t *testing.T) {
	t.Parallel()
	yaml, dir := securedTeam(t, "tenants: [{name: acme, limits: {requests-per-minute: 70}}],"), t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	admin := []string{"Authorization", "Bearer admin-token"}
	holds := func(want int) {
		t.Helper()
		if got := limitOf(t, r); got != want {
			t.Errorf("a limit of %d is in force, want %d", got, want)
		}
	}
	holds(70)
	r.API("GET", "/api/config/terms", "", admin...).Is(t, 200, `"source":"config"`, `"name":"acme"`, `"requestsPerMinute":70`)
	r.API("PUT", "/api/config/terms/tenants/acme?dryRun", `{"limits":{"requestsPerMinute":50}}`, admin...).Is(t, 200, `"dryRun":true`,
		`"changes":[{"service":"tenant acme","field":"limits.requestsPerMinute","kind":"changed","from":70,"to":50}]`)
	holds(70)
	r.API("PUT", "/api/config/terms/tenants/acme", `{"limits":{"requestsPerMinute":50}}`, append(admin, "If-Match", `"1"`)...).Is(t, 200,
		`"version":2`, `tenant acme: limits.requestsPerMinute 70→50`)
	holds(50)
	r.API("PUT", "/api/config/terms/tenants/acme", `{"limits":{"requestsPerMinute":60}}`, append(admin, "If-Match", `"1"`)...).Is(t, 409)
	r.API("PUT", "/api/config/terms", `{"defaults":{"limits":{"requestsPerMinute":30}}}`, admin...).Is(t, 200, `"version":3`)
	holds(30)
	r.API("GET", "/api/config/version/3", "", admin...).Is(t, 200, `"terms":{"defaults":{`, `"requestsPerMinute":30`, `"requestsPerMinute":50`)
	r.API("GET", "/api/config/version/diff?from=1&to=3", "", admin...).Is(t, 200, "~ defaults: limits.requestsPerMinute (none) → 30", "~ tenant acme: limits.requestsPerMinute 70 → 50")
	r.API("POST", "/api/config/version/rollback/2", "", admin...).Is(t, 200)
	holds(50)
	// A change of the services keeps the terms, and so does a restart.
	r.API("PUT", gatewaytest.TypesPath+"chat", `{"loadBalancer":"random"}`, admin...).Is(t, 200, `"version":4`)
	r.Halt()
	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir})
	holds(50)
	r.API("DELETE", "/api/config/terms/tenants/acme", "", admin...).Is(t, 200, `"version":5`, "tenant acme: removed")
	holds(0) // its keys stay good
	r.API("DELETE", "/api/config/terms/tenants/acme", "", admin...).Is(t, 404)
	// What was set here stays in force while the file changes, and the gateway says so.
	changed := strings.Replace(yaml, "requests-per-minute: 70", "requests-per-minute: 80", 1)
	r.ReloadWith(changed)
	holds(0)
	if !strings.Contains(r.Logs.String(), "are not in force, because others were set by management") || strings.Contains(r.Logs.String(), "at the next start") {
		t.Errorf("the log says\n%s", r.Logs.String())
	}
	r.API("DELETE", "/api/config/terms", "", admin...).Is(t, 200, `"version":6`)
	holds(80)
	r.API("DELETE", "/api/config/terms", "", admin...).Is(t, 200, `"changed":false`)
	r.ReloadWith(yaml) // no version has terms, so those of the file are in force without a restart
	holds(70)
	r.API("POST", "/api/config/version/rollback/5", "", admin...).Is(t, 200)
	holds(0)
	r.API("POST", "/api/config/type/reset", "", admin...).Is(t, 200)
	holds(70)
	r.API("GET", "/api/config/terms", "", admin...).Is(t, 200, `"source":"config"`)
}

// Budgets of a tenant that changes continue with what was spent, and a rollback to a
// version without the tenant ends them.
func TestBudgetOfATenantFollowsTheVersions(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, securedTeam(t, ""))
	admin, bearer := []string{"Authorization", "Bearer admin-token"}, []string{"Authorization", "Bearer secret"}
	put := func(requests string) {
		t.Helper()
		r.API("PUT", "/api/config/terms/tenants/acme", `{"budgets":{"day":{"requests":`+requests+`}}}`, admin...).Is(t, 200, `"changed":true`)
	}
	put("2")
	r.Chat(gatewaytest.PlainHi, bearer...).Succeeds(t)
	r.Chat(gatewaytest.PlainHi, bearer...).Succeeds(t)
	r.Chat(gatewaytest.PlainHi, bearer...).FailsWith(t, http.StatusTooManyRequests, "insufficient_quota", "budget_exceeded", "")
	put("3")
	r.Chat(gatewaytest.PlainHi, bearer...).Succeeds(t)
	r.Chat(gatewaytest.PlainHi, bearer...).FailsWith(t, http.StatusTooManyRequests, "insufficient_quota", "budget_exceeded", "")
	r.API("POST", "/api/config/version/rollback/1", "", admin...).Is(t, 200)
	r.Chat(gatewaytest.PlainHi, bearer...).Succeeds(t)
	if shown := r.Do("GET", "/api/monitoring/budgets", "", admin...).Succeeds(t).Body; strings.Contains(shown, "acme") {
		t.Errorf("the budget of a tenant without one is listed: %s", shown)
	}
	r.API("POST", "/api/config/version/rollback/3", "", admin...).Is(t, 200)
	r.Chat(gatewaytest.PlainHi, bearer...).FailsWith(t, http.StatusTooManyRequests, "insufficient_quota", "budget_exceeded", "")
}

func TestWrongTermsAreRefusedAndNamed(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, securedTeam(t, ""))
	admin := []string{"Authorization", "Bearer admin-token"}
	for body, part := range map[string]string{
		`{}`:                          "give defaults, tenants or both",
		`{"tenants":[{"limits":{}}]}`: "tenants[0].name",
		`{"tenants":[{"name":"a"},{"name":"a"}]}`:                   "is the same as in tenants[0]",
		`{"defaults":{"limits":{"requestsPerMinute":-2}}}`:          "defaults.limits.requestsPerMinute",
		`{"defaults":{"limits":{"requestsPerMinute":1.5}}}`:         "requestsPerMinute",
		`{"defaults":{"limits":{"requestsPerMinute":"5"}}}`:         "requestsPerMinute",
		`{"defaults":{"limits":{"requests":5}}}`:                    "requests",
		`{"defaults":{"budgets":{"day":{"tokens":1e30}}}}`:          "tokens",
		`{"defaults":{"budgets":{"day":{"cost":-1}}}}`:              "cost",
		`{"defaults":{"budgets":{"week":{"tokens":1}}}}`:            "week",
		`{"defaults":{"addresses":["10.0.0.0/33"]}}`:                "defaults.addresses[0]",
		`{"defaults":{"expiresAt":"soon"}}`:                         "defaults.expiresAt",
		`{"defaults":{"services":["chat","chat"]}}`:                 "defaults.services[1]",
		`{"tenants":[{"name":"` + strings.Repeat("x", 129) + `"}]}`: "tenants[0].name",
	} {
		r.API("PUT", "/api/config/terms", body, admin...).Is(t, 400, part)
	}
	r.API("PUT", "/api/config/terms/tenants/acme", `{"limits":{"tokensPerMinute":-5}}`, admin...).Is(t, 400, `"limits.tokensPerMinute`)
	r.API("PUT", "/api/config/terms/tenants/a%00b", `{}`, admin...).Is(t, 400, "control characters")
	r.API("PUT", "/api/config/terms/tenants/acme", `{"name":"other"}`, admin...).Is(t, 400, "name")
	r.API("PUT", "/api/config/terms", `{"tenants":[]}`, "Authorization", "Bearer viewer-token").Is(t, 403)
	if r.Control.Version() != 1 {
		t.Error("something was changed")
	}
}
