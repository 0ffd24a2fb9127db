package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// An export has references as they were written, and variables in place of literal secrets. A gateway
// that starts with it makes no version while the variables hold the same secrets.
func TestAnExportIsTheConfigurationInForce(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	dir := t.TempDir()
	const variable = "SERVICES_CHAT_INSTANCES_1_API_KEY"
	hash := gatewaytest.HashOf("admin-token")
	yaml := gatewaytest.SecuredYAML() + gatewaytest.PolicyYAML(`load-balancer: random, aliases: {"a-*": m}`, gatewaytest.Instance("m", b.URL(), `api-key: "${REF:-sk-default}"`)) +
		"prices: {currency: EUR, models: [{model: m, input: 2.5}]}\nlimits: {max-attempts: 4}\n"
	start := func(yaml string, env ...string) *gatewaytest.Gateway {
		return gatewaytest.StartWith(t, gatewaytest.Setup{YAML: yaml, DataDir: dir, FromFile: true, Env: append(env, "REF=sk-ref")})
	}
	as := func(name string) []string { return []string{"Authorization", "Bearer " + name + "-token"} }
	r := start(yaml)
	if added := r.Do(http.MethodPost, "/api/config/instance/add/chat", `{"name":"n","baseUrl":"`+b.URL()+`","apiKey":"sk-$literal"}`, as("admin")...); added.Status != http.StatusCreated {
		t.Fatalf("got %d %s", added.Status, added.Body)
	}
	version := r.Control.Version()
	for path, refused := range map[string]struct {
		role   string
		status int
	}{"/api/config/export": {"viewer", http.StatusForbidden}, "/api/config/export?secrets=true": {"operator", http.StatusBadRequest}} {
		if got := r.Do(http.MethodGet, path, "", as(refused.role)...).Status; got != refused.status {
			t.Errorf("%s by a %s: got %d, want %d", path, refused.role, got, refused.status)
		}
	}
	whole := r.Do(http.MethodGet, "/api/config/export?secrets=true", "", as("admin")...).Succeeds(t).Body
	text := r.Do(http.MethodGet, "/api/config/export", "", as("operator")...).Succeeds(t).Body
	for part, isIn := range map[string]bool{
		"${REF:-sk-default}": true, "${" + variable + "} # a secret; set " + variable: true, "sk-$": false, hash: false, "sk-ref": false,
		"load-balancer: random": true, "max-attempts: 4": true, "currency: EUR": true, "enabled: true": true,
	} {
		if strings.Contains(text, part) != isIn {
			t.Errorf("got\n%s\nwith %q: want %v", text, part, isIn)
		}
	}
	if !strings.Contains(whole, "sk-$$literal") || !strings.Contains(whole, hash) || !strings.Contains(whole, "${REF:-sk-default}") {
		t.Errorf("got\n%s\nwant the literals, and the reference", whole)
	}
	r.Halt()
	r = start(whole)
	if got := r.Control.Version(); got != version {
		t.Errorf("with secrets: got version %d, want %d", got, version)
	}
	r.Halt()
	for n, secret := range []string{"sk-$literal", "sk-$literal", "sk-rotated"} {
		env := []string{variable + "=" + secret}
		for i, name := range []string{"a", "o", "v"} {
			env = append(env, "SECURITY_TOKENS_"+string(rune('0'+i))+"_TOKEN_SHA256="+gatewaytest.HashOf(map[string]string{"a": "admin-token", "o": "operator-token", "v": "viewer-token"}[name]))
		}
		r = start(text, env...)
		if got, isNew := r.Control.Version(), secret == "sk-rotated"; (got != version) != isNew {
			t.Errorf("start %d with %s: got version %d after %d", n, secret, got, version)
		}
		r.Do(http.MethodPost, "/v1/chat/completions", `{"model":"n","messages":[{"role":"user","content":"hi"}]}`).Succeeds(t)
		requests := b.Requests()
		if got := requests[len(requests)-1].Header.Get("Authorization"); got != "Bearer "+secret {
			t.Errorf("start %d: got the key %q, want %s", n, got, secret)
		}
		r.Halt()
	}
}
