package gateway_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// keyed returns a configuration with keys whose texts are their ids. Each key is written
// as the members that follow its id and its hash.
func keyed(yaml, rest string, keys map[string]string) string {
	var all []string
	for id, members := range keys {
		all = append(all, fmt.Sprintf("    - {id: %s, key-sha256: %s%s}\n", id, gatewaytest.HashOf(id), members))
	}
	return yaml + "security:\n  enabled: true\n" + rest + "  keys:\n" + strings.Join(all, "")
}

func bearer(key string) []string { return []string{"Authorization", "Bearer " + key} }

func header(t *testing.T, r gatewaytest.Reply, name string) int {
	t.Helper()
	n, err := strconv.Atoi(r.Header.Get(name))
	if err != nil {
		t.Errorf("%s is %q", name, r.Header.Get(name))
	}
	return n
}

func TestAKeyAtItsLimitIsRefusedAndOthersNoticeNothing(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, keyed(gatewaytest.PoolYAML(b), "", map[string]string{
		"narrow": ", limits: {requests-per-minute: 3}", "wide": ", limits: {requests-per-minute: 100}", "free": "",
	}))
	for n := range 3 {
		answer := r.Chat(gatewaytest.PlainHi, bearer("narrow")...).Succeeds(t)
		if left := header(t, answer, "X-Ratelimit-Remaining-Requests"); left != 2-n || header(t, answer, "X-Ratelimit-Limit-Requests") != 3 {
			t.Errorf("request %d: %v", n, answer.Header)
		}
	}
	answer := r.Chat(gatewaytest.PlainHi, bearer("narrow")...)
	answer.FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "key_rate_limited", "")
	if wait := header(t, answer, "Retry-After-Ms"); wait < 1 || wait > 30_000 || header(t, answer, "X-Ratelimit-Remaining-Requests") != 0 || header(t, answer, "X-Ratelimit-Limit-Requests") != 3 {
		t.Errorf("refused with %v", answer.Header)
	}
	if reset := answer.Header.Get("X-Ratelimit-Reset-Requests"); reset == "" || reset == "0s" {
		t.Errorf("reset after %q", reset)
	}
	if answer := r.Chat(gatewaytest.PlainHi, bearer("wide")...).Succeeds(t); header(t, answer, "X-Ratelimit-Remaining-Requests") != 99 {
		t.Errorf("another key %v", answer.Header)
	}
	if answer := r.Chat(gatewaytest.PlainHi, bearer("free")...).Succeeds(t); answer.Header.Get("X-Ratelimit-Limit-Requests") != "" {
		t.Errorf("a key without a limit %v", answer.Header)
	}
	if got := r.Scrape()[`model_router_rejected_requests_total{reason="rate_limit",service="chat"}`]; got != 1 {
		t.Errorf("%v refusals are counted", got)
	}
}

func TestTokensOfAKeyAreReservedAndSettled(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: keyed(gatewaytest.PoolYAML(b), "", map[string]string{"k": ", limits: {tokens-per-minute: 1000}"}), AnswerTokens: 500})
	usage := func(total int) simulator.Step {
		return simulator.Step{Body: fmt.Sprintf(`{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":%d,"total_tokens":%d}}`, total-5, total)}
	}
	ask := func(step simulator.Step, member string) gatewaytest.Reply {
		b.Script(step)
		return r.Chat(gatewaytest.With(member), bearer("k")...)
	}
	remaining := func(member string) int { // of a request that reserves little
		t.Helper()
		return header(t, ask(usage(5), member).Succeeds(t), "X-Ratelimit-Remaining-Tokens")
	}
	// What remains is told while the request's own reservation counts.
	first := header(t, ask(usage(100), `"max_tokens":300`).Succeeds(t), "X-Ratelimit-Remaining-Tokens")
	if first < 680 || first > 699 {
		t.Errorf("%d tokens remain beside a reservation of 300 and a few", first)
	}
	if got := remaining(`"max_tokens":1`); got < 880 || got > 899 {
		t.Errorf("%d tokens remain after 100 were used", got)
	}
	answer := ask(usage(5), `"max_tokens":990`)
	answer.FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "key_rate_limited", "")
	if header(t, answer, "X-Ratelimit-Limit-Tokens") != 1000 || answer.Header.Get("X-Ratelimit-Reset-Tokens") == "" {
		t.Errorf("refused with %v", answer.Header)
	}
	if got := header(t, ask(usage(700), `"x":1`).Succeeds(t), "X-Ratelimit-Remaining-Tokens"); got < 370 || got > 399 {
		t.Errorf("%d tokens remain beside the reservation of a request that does not say how much it wants", got)
	}
	ask(usage(5), `"x":1`).FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "key_rate_limited", "")
}

// An answer without usage costs what was sent both ways, as far as lengths tell; one that
// never came costs nothing.
func TestTokensOfAnswersWithoutUsage(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("word ", 80) // 100 tokens
	silent := simulator.Step{Body: `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"` + text + `"},"finish_reason":"stop"}]}`}
	for name, test := range map[string]struct {
		step        simulator.Step
		least, most int
	}{
		"without usage": {silent, 100, 110},
		"refused":       {simulator.Step{Status: 422}, 0, 0},
	} {
		b := gatewaytest.StartBackend(t, test.step)
		r := gatewaytest.Start(t, keyed(gatewaytest.PoolYAML(b), "", map[string]string{"k": ", limits: {tokens-per-minute: 10000}"}))
		r.Chat(gatewaytest.PlainHi, bearer("k")...)
		answer := r.Chat(gatewaytest.With(`"max_tokens":1`), bearer("k")...).Succeeds(t)
		own := 6 // the reservation of this request
		if used := 10_000 - header(t, answer, "X-Ratelimit-Remaining-Tokens") - own; used < test.least || used > test.most {
			t.Errorf("%s: %d tokens", name, used)
		}
	}
}

func TestRequestsAtATimeOfAKey(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, keyed("services: {chat: {health-check: {enabled: false}, instances: [{name: m, base-url: "+b.URL+"}]}}\n", "", map[string]string{"k": ", limits: {concurrent-requests: 1}"}))
	running := r.ChatLater(t.Context(), gatewaytest.StreamHi, bearer("k")...)
	<-b.Entered
	answer := r.Chat(gatewaytest.StreamHi, bearer("k")...)
	answer.FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "key_rate_limited", "")
	if answer.Header.Get("Retry-After") != "1" && answer.Header.Get("Retry-After") != "2" {
		t.Errorf("retry after %q", answer.Header.Get("Retry-After"))
	}
	close(b.Open)
	(<-running).Succeeds(t)
	r.Chat(gatewaytest.StreamHi, bearer("k")...).Succeeds(t)
}

func TestTenantsAndDefaults(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, keyed(gatewaytest.PoolYAML(b), `  defaults: {limits: {requests-per-minute: 2}, models: ["*"]}
  tenants: [{name: acme, limits: {requests-per-minute: 3}}, {name: narrow, models: ["other*"]}, {name: gone, expires-at: "2020-01-01T00:00:00Z"}]
`, map[string]string{
		"usual": "", "a": ", tenant: acme, limits: {requests-per-minute: -1}", "b": ", tenant: acme, limits: {requests-per-minute: -1}",
		"n": ", tenant: narrow", "g": ", tenant: gone", "near": ", addresses: [127.0.0.0/8, ::1]", "far": `, addresses: ["192.0.2.1", "2001:db8::/32"]`,
	}))
	status := func(key string) int { return r.Chat(gatewaytest.PlainHi, bearer(key)...).Status }
	for _, step := range []struct {
		key  string
		want int
	}{ // one after the other
		{"usual", 200}, {"usual", 200}, {"usual", 429}, // as the defaults say
		{"a", 200}, {"b", 200}, {"a", 200}, {"b", 429}, {"a", 429}, // together
		{"n", 403}, {"g", 401}, {"near", 200}, {"far", 403},
	} {
		if got := status(step.key); got != step.want {
			t.Errorf("%s: %d, want %d", step.key, got, step.want)
		}
	}
	if got := r.Do(http.MethodGet, "/v1/models", "", bearer("far")...); got.Status != 403 {
		t.Errorf("models from elsewhere: %d", got.Status)
	}
	if got := gatewaytest.Models(t, r.Do(http.MethodGet, "/v1/models", "", bearer("n")...)); len(got) > 0 {
		t.Errorf("a key of a narrow tenant sees %v", got)
	}
	answer := r.Chat(gatewaytest.PlainHi, bearer("a")...)
	if message := gatewaytest.ErrorOf(t, answer.Body).Message; !strings.Contains(message, "the tenant acme, 3 requests a minute") {
		t.Errorf("message %s", message)
	}
}

// A request that reaches no backend costs nothing.
func TestRefusedRequestsDoNotCountForKeys(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	yaml := strings.Replace(gatewaytest.PoolYAML(b), "chat: {", "chat: {rate-limit: {algorithm: sliding-window, capacity: 1, refill-rate: 1}, ", 1)
	r := gatewaytest.Start(t, keyed(yaml, "", map[string]string{"k": ", limits: {requests-per-minute: 2, tokens-per-minute: 2000}"}))
	r.Chat(`{"model":"nobody","messages":[{"role":"user","content":"hi"}]}`, bearer("k")...)
	if answer := r.Chat(gatewaytest.PlainHi, bearer("k")...).Succeeds(t); header(t, answer, "X-Ratelimit-Remaining-Requests") != 0 {
		t.Errorf("the limit of the service is not shown, of which less is left: %v", answer.Header)
	}
	r.Chat(gatewaytest.PlainHi, bearer("k")...).FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "rate_limit_exceeded", "")
	r.ChangeChat(func(s *config.Service) { s.RateLimit.Enabled = false })
	if answer := r.Chat(gatewaytest.PlainHi, bearer("k")...).Succeeds(t); header(t, answer, "X-Ratelimit-Remaining-Requests") != 0 || header(t, answer, "X-Ratelimit-Limit-Requests") != 2 {
		t.Errorf("the second request that reached a backend: %v", answer.Header)
	}
	r.Chat(gatewaytest.PlainHi, bearer("k")...).FailsWith(t, http.StatusTooManyRequests, "rate_limit_exceeded", "key_rate_limited", "")
}

func TestKeysAreEditedAndRotated(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+gatewaytest.SecuredYAML())
	admin := []string{"Authorization", "Bearer admin-token"}
	type view struct {
		ID            string `json:"id"`
		Key           string `json:"key"`
		Tenant        string `json:"tenant"`
		Models        []string
		PreviousUntil string           `json:"previousUntil"`
		Limits        map[string]int64 `json:"limits"`
	}
	manage := func(method, path, body string, want int) (data view) {
		t.Helper()
		answer := r.Do(method, path, body, admin...)
		if answer.Status != want {
			t.Fatalf("%s %s: %d %s", method, path, answer.Status, answer.Body)
		}
		envelope := struct {
			Data *view `json:"data"`
		}{&data}
		if err := json.Unmarshal([]byte(answer.Body), &envelope); err != nil {
			t.Fatal(err)
		}
		return data
	}
	status := func(key string) int { return r.Chat(gatewaytest.PlainHi, bearer(key)...).Status }
	one := manage("POST", "/api/auth/keys", `{"id":"k","tenant":"acme","limits":{"requestsPerMinute":100}}`, 201)
	if got := status(one.Key); got != 200 || one.Limits["requestsPerMinute"] != 100 {
		t.Fatalf("%d %+v", got, one)
	}
	edited := manage("PUT", "/api/auth/keys/k", `{"limits":{"concurrentRequests":5},"models":["other"]}`, 200)
	if edited.Tenant != "acme" || edited.Limits["requestsPerMinute"] != 100 || edited.Limits["concurrentRequests"] != 5 || edited.Key != "" {
		t.Errorf("edited %+v", edited)
	}
	if got := status(one.Key); got != 403 {
		t.Errorf("after the edit: %d", got)
	}
	manage("PUT", "/api/auth/keys/k?dryRun=true", `{"models":["m"]}`, 200)
	if got := status(one.Key); got != 403 {
		t.Errorf("after a dry run: %d", got)
	}
	manage("PUT", "/api/auth/keys/k", `{"models":["*"],"limits":{"requestsPerMinute":2}}`, 200)
	if first, second := status(one.Key), status(one.Key); first != 200 || second != 429 { // one was taken before
		t.Errorf("with a narrower limit: %d, %d", first, second)
	}
	manage("PUT", "/api/auth/keys/k", `{"limits":{"requestsPerMinute":0}}`, 200)
	two := manage("POST", "/api/auth/keys/k/rotate", `{"overlap":"1h"}`, 200)
	if status(one.Key) != 200 || status(two.Key) != 200 || two.PreviousUntil == "" || two.Key == one.Key {
		t.Errorf("old and new are not both good: %+v", two)
	}
	three := manage("POST", "/api/auth/keys/k/rotate", `{"overlap":0}`, 200)
	if status(one.Key) != 401 || status(two.Key) != 401 || status(three.Key) != 200 {
		t.Error("without an overlap the old text is good, or the new one is not")
	}
	four := manage("POST", "/api/auth/keys/k/rotate", "", 200)
	if status(three.Key) != 200 || status(four.Key) != 200 {
		t.Error("the usual overlap is none")
	}
	for _, wrong := range []struct {
		method, path, body string
		status             int
	}{
		{"PUT", "/api/auth/keys/nobody", `{}`, 404}, {"POST", "/api/auth/keys/nobody/rotate", `{}`, 404},
		{"PUT", "/api/auth/keys/k", `{"limits":{"requestsPerMinute":-2}}`, 400}, {"PUT", "/api/auth/keys/k", `{"addresses":["x"]}`, 400},
		{"PUT", "/api/auth/keys/k", `{"expiresAt":"2020-01-01T00:00:00Z"}`, 400}, {"PUT", "/api/auth/keys/k", `{"id":"other"}`, 400},
		{"POST", "/api/auth/keys/k/rotate", `{"overlap":"2161h"}`, 400}, {"POST", "/api/auth/keys/k/rotate", `{"for":"1h"}`, 400},
	} {
		manage(wrong.method, wrong.path, wrong.body, wrong.status)
	}
	manage("DELETE", "/api/auth/keys/k", "", 200)
	if status(three.Key) != 401 || status(four.Key) != 401 {
		t.Error("a text of a revoked key is good")
	}
	manage("PUT", "/api/auth/keys/k", `{}`, 400)
}
