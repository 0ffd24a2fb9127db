package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// While a request that runs has reserved what is left of a budget, others are told at every
// door to come again; when it has used it up they are told not to. What is used and what is
// reserved are shown apart.
func TestWhatIsReservedComesFreeAndWhatIsUsedDoesNot(t *testing.T) {
	t.Parallel()
	b, held := gatewaytest.StartBackend(t), gatewaytest.StartHeldBackend(t)
	yaml := strings.Replace(everyDoor(b), "instances: [", "instances: ["+gatewaytest.Instance("held", held.URL)+", ", 1)
	r := gatewaytest.Start(t, yaml+fmt.Sprintf("security: {enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: %s}], keys: [{id: k, key-sha256: %s, budgets: {day: {requests: 1}}}]}\n",
		gatewaytest.HashOf("admin-token"), gatewaytest.HashOf("secret")))
	admin := []string{"Authorization", "Bearer admin-token"}
	shows := func(path, part string) {
		t.Helper()
		if shown := r.Do(http.MethodGet, path, "", admin...).Succeeds(t).Body; !strings.Contains(shown, part) {
			t.Errorf("no %s at %s", part, path)
		}
	}
	running := r.ChatLater(t.Context(), strings.Replace(gatewaytest.StreamHi, `"m"`, `"held"`, 1), bearer("secret")...)
	<-held.Entered
	requests := doorRequests(t)
	refusedWith := func(code, kind, shouldRetry string, mayRetrySoon bool) {
		t.Helper()
		for door, request := range requests {
			refused := r.Do(http.MethodPost, request.path, request.body, append(bearer("secret"), "Content-Type", request.contentType)...)
			want := kind
			if door == schema.DoorMessages {
				want = "rate_limit_error"
			}
			hasType := strings.HasPrefix(request.path, "/ollama/") || strings.HasPrefix(request.path, "/v1beta/") || gatewaytest.At(t, gatewaytest.DecodeObject(t, refused.Body), "error/type") == want
			if refused.Status != http.StatusTooManyRequests || request.code(t, refused.Body) != code || !hasType {
				t.Errorf("%s: %d %s", door, refused.Status, refused.Body)
			}
			retry := refused.Header.Get("Retry-After")
			if refused.Header.Get("X-Should-Retry") != shouldRetry || (retry == "1") != mayRetrySoon {
				t.Errorf("%s: retry after %q, and should retry %q", door, retry, refused.Header.Get("X-Should-Retry"))
			}
		}
	}
	refusedWith("budget_reserved", "rate_limit_exceeded", "", true)
	shows("/api/monitoring/budgets", `"limit":1,"used":0,"reserved":1,`)
	shows("/metrics", `model_router_budget_used{of="key/k",unit="requests",window="DAY"} 0`)
	shows("/metrics", `model_router_budget_reserved{of="key/k",unit="requests",window="DAY"} 1`)
	shows("/metrics", fmt.Sprintf(`model_router_budget_deferred_requests_total{of="key/k",unit="requests",window="DAY"} %d`, len(requests)))
	shows("/metrics", `model_router_budget_refused_requests_total{of="key/k",unit="requests",window="DAY"} 0`)
	close(held.Open)
	(<-running).Succeeds(t)
	refusedWith("budget_exceeded", "insufficient_quota", "false", false)
	shows("/api/monitoring/budgets", `"limit":1,"used":1,"reserved":0,`)
	if n := len(b.Requests()); n > 0 {
		t.Errorf("%d requests reached the backend", n)
	}
}

// Where one budget is held and another one used up, the one that is used up is told, also if
// it is the tenant's: coming again does not help.
func TestABudgetThatIsUsedUpIsToldBeforeOneThatIsHeld(t *testing.T) {
	t.Parallel()
	b, held := gatewaytest.StartBackend(t), gatewaytest.StartHeldBackend(t)
	b.ScriptForever(answer(50, 50))
	for name, test := range map[string]struct{ tenant, key string }{
		"of the tenant":      {"month: {tokens: 120}", "day: {requests: 2}"},
		"of the key":         {"day: {requests: 2}", "month: {tokens: 120}"},
		"of the same window": {"total: {requests: 9}", "day: {requests: 2, tokens: 120}"},
	} {
		t.Run(name, func(t *testing.T) {
			r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("held", held.URL))+
				fmt.Sprintf("security: {enabled: true, tenants: [{name: acme, budgets: {%s}}], keys: [{id: k, tenant: acme, key-sha256: %s, budgets: {%s}}]}\n", test.tenant, gatewaytest.HashOf("secret"), test.key))
			r.Chat(gatewaytest.With(`"max_tokens":90`), bearer("secret")...).Succeeds(t)
			stream := r.Open(t.Context(), http.MethodPost, "/v1/chat/completions", `{"model":"held","stream":true,"max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, bearer("secret")...)
			defer stream.Body.Close()
			<-held.Entered
			r.Chat(gatewaytest.With(`"max_tokens":1`), bearer("secret")...).FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "budget_reserved", "")
			r.Chat(gatewaytest.With(`"max_tokens":90`), bearer("secret")...).FailsWith(t, http.StatusTooManyRequests, "insufficient_quota", "budget_exceeded", "")
		})
	}
}
