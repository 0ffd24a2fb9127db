package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/serve/jwt"
	"github.com/patchbay-ai/patchbay/internal/testing/jwttest"
)

const (
	loginIssuer   = "https://login.example"
	loginAudience = "gateway"
)

// tokensYAML trusts an issuer, with further settings of it.
func tokensYAML(i *jwttest.Issuer, more string) string {
	return fmt.Sprintf("security:\n  enabled: true\n  tokens: [{name: a, role: ADMIN, token-sha256: %s}]\n  keys: [{id: k, tenant: blue, key-sha256: %s}]\n"+
		"  tenants: [{name: red, limits: {requests-per-minute: 100}}]\n"+
		"  jwt: [{name: company, issuer: %s, audience: [%s, other], jwks-url: '%s', %s}]\n",
		gatewaytest.HashOf("admin-token"), gatewaytest.HashOf("the-key"), loginIssuer, loginAudience, i.URL, more)
}

// tokenOf returns the headers of a subject with claims.
func tokenOf(i *jwttest.Issuer, subject string, claims map[string]any) []string {
	return bearer(i.Sign(jwttest.Claims(loginIssuer, loginAudience, subject, claims)))
}

// Tokens are let in at every door like keys, and refused for the reason that the bearer is told.
func TestTokensAtEveryDoor(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens")
	i, stranger := jwttest.New(t), jwttest.New(t)
	rules := "claims: {tenant: team, models: models}, rules: [{claim: realm_access.roles, value: [dev, ops]}, {claim: group, value: narrow, tenant: red, terms: {models: [nothing]}}]"
	role := map[string]any{"team": "blue", "realm_access": map[string]any{"roles": []string{"dev"}}}
	with := func(claims map[string]any) map[string]any {
		for name, value := range role {
			if _, given := claims[name]; !given {
				claims[name] = value
			}
		}
		return claims
	}
	past := time.Now().Add(-10 * time.Minute).Unix()
	hs := jwttest.SignWith(t, jose.SigningKey{Algorithm: jose.HS256, Key: i.JWKS()}, jwttest.Claims(loginIssuer, loginAudience, "ada", role))
	none := "eyJhbGciOiJub25lIn0." + strings.Split(hs, ".")[1] + "."
	credentials := []struct {
		name    string
		headers []string
		status  int
		code    string
	}{
		{"none", nil, 401, "invalid_api_key"},
		{"wrong key", bearer("wrong"), 401, "invalid_api_key"},
		{"key", bearer("the-key"), 200, ""},
		{"token", tokenOf(i, "ada", with(map[string]any{})), 200, ""},
		{"token in X-API-Key", []string{"X-Api-Key", i.Sign(jwttest.Claims(loginIssuer, "other", "ada", role))}, 200, ""},
		{"forged", tokenOf(stranger, "ada", with(map[string]any{})), 401, "invalid_token"},
		{"unsigned", bearer(none), 401, "invalid_token"},
		{"signed with the public key", bearer(hs), 401, "invalid_token"},
		{"expired", tokenOf(i, "ada", with(map[string]any{"iat": past, "exp": past + 60})), 401, "invalid_token"},
		{"of another audience", tokenOf(i, "ada", with(map[string]any{"aud": "x"})), 401, "invalid_token"},
		{"of an unknown issuer", tokenOf(i, "ada", with(map[string]any{"iss": "https://other.example"})), 401, "invalid_api_key"},
		{"without a rule", tokenOf(i, "eve", map[string]any{"team": "blue"}), 403, "permission_denied"},
		{"without a tenant", tokenOf(i, "ada", with(map[string]any{"team": nil})), 403, "permission_denied"},
		{"of another tenant, which may use nothing", tokenOf(i, "bob", map[string]any{"group": "narrow"}), 403, "permission_denied"},
		{"narrowed to other models", tokenOf(i, "ada", with(map[string]any{"models": []string{"x*"}})), 403, "permission_denied"},
		{"narrowed to nothing", tokenOf(i, "ada", with(map[string]any{"models": []string{}})), 403, "permission_denied"},
	}
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, everyDoor(b)+gatewaytest.QuotaOn+tokensYAML(i, rules))
	r.BackendsLie = true
	address := 0
	for _, d := range limitedDoors(t) {
		if strings.Contains(d.name, "WebSocket") && !gatewaytest.HasWing(t, "realtime") {
			continue
		}
		b.ScriptForever(d.reported)
		body, contentType := d.body(t)
		for _, c := range credentials {
			address++ // wrong ones are counted for each address
			headers := append([]string{"Content-Type", contentType, "X-Forwarded-For", fmt.Sprintf("10.0.%d.%d", address/250, address%250)}, c.headers...)
			reply := d.do(gatewaytest.Deadline(t), r, body, headers...)
			if reply.Status != c.status || c.code != "" && !strings.Contains(reply.Body, c.code) && !strings.Contains(d.name, "gemini") {
				t.Errorf("%s, %s: %d %.300s", d.name, c.name, reply.Status, reply.Body)
			}
			if len(c.headers) > 0 && strings.Contains(c.headers[1], ".") && strings.Contains(reply.Body, c.headers[1][len("Bearer "):]) {
				t.Errorf("%s, %s: the reply repeats the token", d.name, c.name)
			}
		}
	}
	if strings.Contains(r.Logs.String(), none) || strings.Contains(r.Logs.String(), hs) {
		t.Error("the log has a token")
	}
}

// The limits of terms hold for each subject, and those of the tenant for all of them. Metrics have one
// name for all subjects of an issuer.
func TestSubjectsOfTokensHaveLimitsOfTheirOwn(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens")
	i := jwttest.New(t)
	b := gatewaytest.StartBackend(t)
	yaml := gatewaytest.PoolYAML(b) + strings.Replace(tokensYAML(i, "claims: {user: email}, terms: {limits: {requests-per-minute: 2}, budgets: {day: {requests: 50}}}, rules: [{claim: t, value: red, tenant: red}, {claim: t, value: blue, tenant: blue, terms: {limits: {requests-per-minute: 3}}}]"),
		"requests-per-minute: 100", "requests-per-minute: 3", 1)
	r := gatewaytest.Start(t, yaml)
	ask := func(subject, tenant string) gatewaytest.Reply {
		return r.Do(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi,
			tokenOf(i, subject, map[string]any{"t": tenant, "email": subject + "@example.com", "jti": time.Now().UnixNano()})...)
	}
	for _, one := range []struct {
		subject, tenant string
		status          int
	}{
		{"ada", "red", 200}, {"ada", "red", 200}, {"ada", "red", 429}, // her own limit, with another token each time
		{"bob", "red", 200}, {"bob", "red", 429}, // the limit of the tenant
		{"cyd", "blue", 200}, {"cyd", "blue", 200}, {"cyd", "blue", 200}, {"cyd", "blue", 429}, // the limit of the rule
	} {
		if reply := ask(one.subject, one.tenant); reply.Status != one.status {
			t.Fatalf("%s of %s: %d %s", one.subject, one.tenant, reply.Status, reply.Body)
		}
	}
	admin := bearer("admin-token")
	metrics := r.Do(http.MethodGet, "/actuator/prometheus", "", admin...).Succeeds(t).Body
	if !strings.Contains(metrics, `of="key/jwt:company"`) || strings.Contains(metrics, "jwt:company:") {
		t.Errorf("the metrics have a name for each subject:\n%s", linesWith(metrics, "jwt:"))
	}
	calls := r.Do(http.MethodGet, "/api/monitoring/calls?user=ada@example.com", "", admin...).Succeeds(t).Body
	if strings.Count(calls, `"keyId":"jwt:company:`) != 3 || strings.Contains(calls, "bob@") {
		t.Errorf("calls of a user: %s", calls)
	}
	r.API(http.MethodPost, "/api/auth/keys", `{"id":"jwt:company:0123456789abcdef"}`, admin...).Is(t, 400, "jwt:")
}

func linesWith(text, part string) string {
	var found []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// A change of the rules, of the keys or of the issuers holds for the next request, also with a token that
// was let in before.
func TestTokensFollowRulesAndKeys(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens")
	i := jwttest.New(t)
	b := gatewaytest.StartBackend(t)
	yaml := func(more string) string { return gatewaytest.PoolYAML(b) + tokensYAML(i, more) }
	r := gatewaytest.Start(t, yaml("rules: [{claim: g, value: a}]"))
	token := tokenOf(i, "ada", map[string]any{"g": "a"})
	ask := func(headers []string) int {
		return r.Do(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, headers...).Status
	}
	for range 3 {
		if status := ask(token); status != 200 {
			t.Fatalf("%d", status)
		}
	}
	r.ReloadWith(yaml("rules: [{claim: g, value: b}]"))
	if status := ask(token); status != 403 {
		t.Errorf("after the rule was taken away: %d", status)
	}
	r.ReloadWith(yaml("rules: [{claim: g, value: b}, {claim: g, value: a}]"))
	if status := ask(token); status != 200 {
		t.Errorf("after the rule came back: %d", status)
	}
	if logs := r.Logs.String(); strings.Contains(logs, "at the next start") {
		t.Errorf("a change of security.jwt waits for the next start:\n%s", linesWith(logs, "next start"))
	}
	i.Rotate(jose.EdDSA)
	r.ReloadWith(yaml("max-age: 23h, rules: [{claim: g, value: a}]")) // which reads the keys anew
	gatewaytest.Eventually(t, "the new key is known", func() bool { return ask(tokenOf(i, "ada", map[string]any{"g": "a"})) == 200 })
	if status := ask(token); status != 401 {
		t.Errorf("signed with a key that is no longer published: %d", status)
	}
	if status := ask(tokenOf(i, "ada", map[string]any{"g": "a", "exp": time.Now().Add(23*time.Hour + time.Minute).Unix()})); status != 401 {
		t.Errorf("valid for too long: %d", status)
	}
	without, _, _ := strings.Cut(yaml(""), "  jwt:")
	r.ReloadWith(without)
	if status := ask(tokenOf(i, "ada", map[string]any{"g": "a"})); status != 401 {
		t.Errorf("of an issuer that is gone: %d", status)
	}
	if status := ask(bearer("the-key")); status != 200 {
		t.Errorf("the key: %d", status)
	}
}

// An issuer that is away delays no start and harms no key. Its tokens are let in as soon as it is there.
func TestAnIssuerThatIsAwayHarmsNoKey(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens")
	i := jwttest.New(t)
	i.Away.Store(true)
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+tokensYAML(i, "max-age: 24h"))
	token := tokenOf(i, "ada", nil)
	refused := r.Do(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, token...)
	if refused.Status != 503 || refused.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", refused.Status, refused.Body)
	}
	r.Do(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, bearer("the-key")...).Succeeds(t)
	health := r.Do(http.MethodGet, "/actuator/health", "", bearer("admin-token")...)
	if health.Status != 200 || !strings.Contains(health.Body, "status 503") {
		t.Errorf("health: %d %s", health.Status, health.Body)
	}
	i.Away.Store(false)
	gatewaytest.Eventually(t, "the token is let in", func() bool {
		return r.Do(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, token...).Status == 200
	})
}

// An address that presents many wrong tokens is slowed down like one with wrong keys.
func TestWrongTokensAreCountedLikeWrongKeys(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens")
	i, stranger := jwttest.New(t), jwttest.New(t)
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+tokensYAML(i, "rules: [{claim: g, value: a}]"))
	ask := func(headers []string) int {
		return r.Do(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, headers...).Status
	}
	for range 20 { // a good token without a rule is not wrong
		if status := ask(tokenOf(i, "ada", nil)); status != 403 {
			t.Fatalf("without a rule: %d", status)
		}
	}
	forged := tokenOf(stranger, "ada", nil)
	gatewaytest.Eventually(t, "forged tokens are slowed down", func() bool { return ask(forged) == 429 })
	if status := ask(tokenOf(i, "ada", map[string]any{"g": "a"})); status != 200 {
		t.Errorf("a good token: %d", status)
	}
}

// A WebSocket ends with the token that opened it.
func TestAWebSocketEndsWithItsToken(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens", "realtime")
	i := jwttest.New(t)
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+tokensYAML(i, "max-age: 24h"))
	end := time.Now().Add(5 * time.Second)
	s := r.OpenSocket("/v1/responses", tokenOf(i, "ada", map[string]any{"exp": end.Unix()})...)
	ask := `{"type":"response.create","model":"m","input":"hi","store":false}`
	if last := s.Ask(ask); last["type"] != "response.completed" {
		t.Fatalf("%v", last)
	}
	text, err := s.Next()
	for err == nil && !strings.Contains(text, "invalid_token") {
		text, err = s.Next()
	}
	if err != nil {
		t.Errorf("it ended without a word: %v", err)
	}
	if late := time.Since(end); late > jwt.Skew/2 { // a second is usual; new requests have the whole skew
		t.Errorf("it ended %s after its token", late)
	}
}

// Objects that are kept belong to the subject and its tenant, as those of keys do.
func TestFilesAndBatchesOfTokens(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "callertokens", "batches")
	i := jwttest.New(t)
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+"batches: {enabled: true}\n"+tokensYAML(i, "claims: {tenant: team}"))
	of := func(subject, team, group string) []string {
		return tokenOf(i, subject, map[string]any{"team": team, "g": group})
	}
	line := `{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"hi"}]}}`
	form := gatewaytest.FormBody(gatewaytest.Field("purpose", "batch"), gatewaytest.Upload("file", "in.jsonl", "application/jsonl", line))
	body, contentType := form(t)
	idOf := func(reply gatewaytest.Reply) string {
		return gatewaytest.DecodeObject(t, reply.Succeeds(t).Body)["id"].(string)
	}
	ada := of("ada", "blue", "a")
	file := idOf(r.Do(http.MethodPost, "/v1/files", body, append(ada, "Content-Type", contentType)...))
	for _, other := range []struct {
		name    string
		headers []string
		status  int
	}{
		{"herself, with another token", of("ada", "blue", "b"), 200}, {"a colleague", of("bob", "blue", "a"), 200},
		{"a key of the tenant", bearer("the-key"), 200}, {"another tenant", of("eve", "red", "a"), 404},
		{"herself, as a member of another tenant", of("ada", "red", "a"), 404}, {"nobody", nil, 401},
	} {
		for _, path := range []string{"/v1/files/" + file, "/v1/files/" + file + "/content"} {
			if reply := r.Do(http.MethodGet, path, "", other.headers...); reply.Status != other.status {
				t.Errorf("%s: %d %s", other.name, reply.Status, reply.Body)
			}
		}
	}
	submit := func() string {
		return idOf(r.Do(http.MethodPost, "/v1/batches", fmt.Sprintf(`{"input_file_id":%q,"endpoint":"/v1/chat/completions","completion_window":"24h"}`, file), ada...))
	}
	status := func(batch, want string) {
		t.Helper()
		gatewaytest.Eventually(t, "the batch is "+want, func() bool {
			return strings.Contains(r.Do(http.MethodGet, "/v1/batches/"+batch, "", of("bob", "blue", "b")...).Body, `"status":"`+want+`"`)
		})
	}
	status(submit(), "completed")
}
