package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// A model that is not there now, and whose fallback the key may not use, is unavailable with a
// budget as without one.
func TestARequestThatNoModelMayServeIsUnavailableWithABudget(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	yaml := strings.Replace(gatewaytest.ChatYAML(gatewaytest.Instance("other", b.URL()), fmt.Sprintf("{base-url: %q, models: discover}", simulator.DownURL)),
		"chat: {", "chat: {fallbacks: {gone: [other]}, ", 1)
	const models = ", models: [gone]"
	r := gatewaytest.Start(t, budgeted(yaml, map[string]string{
		"none":     models,
		"requests": models + ", budgets: {day: {requests: 5}}",
		"tokens":   models + ", budgets: {month: {tokens: 500000}}",
		"cost":     models + ", budgets: {total: {cost: 5}}",
	}))
	for _, key := range []string{"none", "requests", "tokens", "cost"} {
		r.Chat(thousandTokens("gone"), bearer(key)...).FailsWith(t, http.StatusServiceUnavailable, "service_unavailable", "service_unavailable", "")
	}
	if logs := r.Logs.String(); strings.Contains(logs, "panicked") {
		t.Error(logs)
	}
	for key, unit := range map[string]string{"requests": "requests", "tokens": "tokens", "cost": "cost"} {
		if used := usedOf(t, r, "key/"+key, unit); used != 0 {
			t.Errorf("%d of the %s are used", used, unit)
		}
	}
}

// A request that costs more than can be counted is more than any budget has room for.
func TestARequestThatCostsMoreThanCanBeCountedIsOverItsBudget(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(1, 1))
	r := gatewaytest.Start(t, budgeted(everyDoor(b)+"prices: {models: [{model: m, output: 15}]}\n", map[string]string{
		"k": ", budgets: {day: {cost: 1000000}}", "uncapped": ", budgets: {day: {requests: 100}}",
	}))
	const most = `"model":"m","max_tokens":10000000,"max_output_tokens":10000000,"n":100000,`
	user := `"messages":[{"role":"user","content":"hi"}]`
	for path, rest := range map[string]string{
		"/v1/chat/completions": user, "/v1/completions": `"prompt":"hi"`, "/v1/messages": user, "/v1/responses": `"extra_body":{"n":100000},"input":"hi"`,
	} {
		reply := r.Do(http.MethodPost, path, `{`+most+rest+`}`, bearer("k")...)
		if reply.Status != http.StatusTooManyRequests || !strings.Contains(reply.Body, "budget of") {
			t.Errorf("%s: %d %s", path, reply.Status, reply.Body)
		}
	}
	// Without a budget of money the backend is asked, which has one answer.
	r.Do(http.MethodPost, "/v1/chat/completions", `{`+most+user+`}`, bearer("uncapped")...).FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
	if logs := r.Logs.String(); strings.Contains(logs, "panicked") {
		t.Error(logs)
	}
}

// A key learns the names of models that it may use, and no others, from errors about a model
// that is not there.
func TestAnUnknownModelNamesOnlyModelsThatTheKeyMayUse(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	yaml := fmt.Sprintf("services:\n  chat: {aliases: {cat: cheap, quiet: hidden}, instances: [%s]}\n  embedding: {instances: [%s]}\n",
		strings.Join([]string{gatewaytest.Instance("cheap", b.URL()), gatewaytest.Instance("hidden", b.URL()), gatewaytest.Instance("cxx-secret", b.URL())}, ", "),
		gatewaytest.Instance("vault", b.URL()))
	r := gatewaytest.Start(t, budgeted(yaml, map[string]string{"k": ", models: [c*]", "few": ", models: [cheap, cx, cx-secret]", "all": ""}))
	user := `"messages":[{"role":"user","content":"hi"}]`
	doors := map[string][2]string{ // path, body
		"chat":        {"/v1/chat/completions", `{"model":"cx",` + user + `}`},
		"near":        {"/v1/chat/completions", `{"model":"cx-secret",` + user + `}`},
		"completions": {"/v1/completions", `{"model":"cx","prompt":"hi"}`},
		"responses":   {"/v1/responses", `{"model":"cx","input":"hi"}`},
		"messages":    {"/v1/messages", `{"model":"cx","max_tokens":5,` + user + `}`},
		"gemini":      {"/v1beta/models/cx:generateContent", `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`},
		"ollama":      {"/ollama/api/chat", `{"model":"cx",` + user + `}`},
		"load":        {"/ollama/api/generate", `{"model":"cx"}`},
		"show":        {"/ollama/api/show", `{"model":"cx"}`},
		"embeddings":  {"/v1/embeddings", `{"model":"cx","input":"hi"}`},
	}
	for name, door := range doors {
		reply := r.Do(http.MethodPost, door[0], door[1], bearer("few")...)
		if reply.Status < 400 {
			t.Errorf("%s: %d", name, reply.Status)
		}
		for _, secret := range []string{"hidden", "quiet", "cxx-secret", "vault"} {
			if strings.Contains(reply.Body, secret) {
				t.Errorf("%s tells a key of %s: %s", name, secret, reply.Body)
			}
		}
	}
	for _, path := range []string{"/v1/models/cx", "/v1beta/models/cx"} {
		if reply := r.Do(http.MethodGet, path, "", bearer("few")...); reply.Status != http.StatusNotFound || strings.Contains(reply.Body, "secret") {
			t.Errorf("%s: %d %s", path, reply.Status, reply.Body)
		}
	}
	for key, want := range map[string]string{
		"k":   `Configured are \"cat\", \"cheap\", \"cxx-secret\".`,
		"all": `Configured are \"cat\", \"cheap\", \"quiet\", \"hidden\", \"cxx-secret\".`,
		"few": `Configured are \"cat\", \"cheap\".`,
	} {
		if body := r.Do(http.MethodPost, "/v1/chat/completions", doors["chat"][1], bearer(key)...).Body; !strings.Contains(body, want) {
			t.Errorf("%s: %s", key, body)
		}
	}
	if body := r.Do(http.MethodPost, "/v1/embeddings", doors["embeddings"][1], bearer("few")...).Body; !strings.Contains(body, "may use none of the models of embedding") {
		t.Error(body)
	}
}
