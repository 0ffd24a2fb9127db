package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// askAs is ask with a credential.
func (c *child) askAs(credential, method, path, body string, headers ...string) gatewaytest.Reply {
	c.t.Helper()
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(c.t), method, c.url()+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if credential != "" {
		request.Header.Set("Authorization", "Bearer "+credential)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	return gatewaytest.ReadReply(response)
}

// apiAs asks the management API with a credential.
func (c *child) apiAs(credential, method, path, body string) gatewaytest.ManagementReply {
	c.t.Helper()
	return gatewaytest.EnvelopeOf(c.t, c.askAs(credential, method, path, body))
}

// newCredential is what is shown of a key or token once.
type newCredential struct {
	ID    string `json:"id"`
	Key   string `json:"key"`
	Token string `json:"token"`
}

// Three processes share one configuration with security on: a key or token that
// one issues, rotates or revokes is good or refused on all of them.
func TestThreeGatewaysShareTheirCredentials(t *testing.T) {
	t.Parallel()
	db := storetest.Postgres(t)
	upstream := gatewaytest.StartBackend(t)
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.PoolYAML(upstream)+gatewaytest.SecuredYAML())
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	start := func(i int) *child {
		return serving(t, "--config", file, "--data-dir", dirs[i], "--set", "store.config="+db.URL)
	}
	gateways := []*child{start(0), start(1), start(2)}
	chat := func(i int, key string) int {
		return gateways[i].askAs(key, http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi).Status
	}
	everywhere := func(what string, holds func(i int) bool) time.Duration {
		t.Helper()
		began := time.Now()
		for i := range gateways {
			gatewaytest.Eventually(t, what, func() bool { return holds(i) })
		}
		return time.Since(began)
	}
	for i := range gateways {
		if got := chat(i, ""); got != http.StatusOK {
			t.Fatalf("no key exists, and gateway %d answers %d", i, got)
		}
	}

	var took []time.Duration
	for n := range 12 {
		issued := gatewaytest.DataOf[newCredential](t, gateways[n%3].apiAs("admin-token", http.MethodPost, "/api/auth/keys", `{"tenant":"acme"}`).Is(t, 201))
		took = append(took, everywhere("the key is good", func(i int) bool { return chat(i, issued.Key) == http.StatusOK }))
		if n == 0 {
			everywhere("a key is needed", func(i int) bool { return chat(i, "") == http.StatusUnauthorized })
		}
		gateways[(n+1)%3].apiAs("admin-token", http.MethodDelete, "/api/auth/keys/"+issued.ID, "").Is(t, 200)
		took = append(took, everywhere("the key is dead", func(i int) bool { return chat(i, issued.Key)/100 == 4 }))
	}
	slices.Sort(took)
	t.Logf("a change is in force on three gateways after %v (median), at most %v", took[len(took)/2], took[len(took)-1])
	if took[0] > time.Second { // the quickest: the others may be those of a busy machine
		t.Errorf("no change was in force within a second: %v", took)
	}
	key := gatewaytest.DataOf[newCredential](t, gateways[0].apiAs("admin-token", http.MethodPost, "/api/auth/keys", `{"id":"stays"}`).Is(t, 201)).Key

	// Tokens, those of the file included.
	role := func(i int, token string) int {
		return gateways[i].askAs(token, http.MethodGet, "/api/auth/tokens", "").Status
	}
	first := gatewaytest.DataOf[newCredential](t, gateways[0].apiAs("admin-token", http.MethodPost, "/api/auth/tokens", `{"name":"boss","role":"ADMIN"}`).Is(t, 201)).Token
	everywhere("the token is good", func(i int) bool { return role(i, first) == http.StatusOK })
	second := gatewaytest.DataOf[newCredential](t, gateways[1].apiAs(first, http.MethodPost, "/api/auth/tokens/boss/rotate", "").Is(t, 200)).Token
	everywhere("the rotated token is good, the old one not", func(i int) bool { return role(i, second) == http.StatusOK && role(i, first)/100 == 4 })
	gateways[2].apiAs(second, http.MethodDelete, "/api/auth/tokens/a", "").Is(t, 200)
	everywhere("the token of the file is revoked", func(i int) bool { return role(i, "admin-token")/100 == 4 })

	// Without the database: what is known stays in force, changes are refused, and
	// a gateway that never knew is not ready.
	db.Kill()
	gateways[2].kill()
	gateways[2] = start(2)
	for i := range gateways {
		if good, wrong, old := chat(i, key), chat(i, "wrong"), role(i, "admin-token"); good != http.StatusOK || wrong/100 != 4 || old/100 != 4 || role(i, second) != http.StatusOK {
			t.Errorf("gateway %d without the database: %d for the key, %d for a wrong one, %d for a revoked token", i, good, wrong, old)
		}
		gateways[i].apiAs(second, http.MethodPost, "/api/auth/keys", `{"id":"refused"}`).Is(t, 503)
		gateways[i].apiAs(second, http.MethodDelete, "/api/auth/keys/stays", "").Is(t, 503)
		info, err := os.Stat(filepath.Join(dirs[i], "keys.json"))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the copy of gateway %d: %v %v", i, info, err)
		}
	}
	dirs = append(dirs, t.TempDir())
	stranger := start(3)
	for path, want := range map[string]int{
		"/v1/models": 503, "/api/auth/keys": 503, "/api/models": 503, "/actuator/env": 503,
		"/actuator/health/readiness": 503, "/actuator/health/liveness": 200, "/actuator/info": 200, "/actuator/prometheus": 200,
	} {
		if got := stranger.askAs(second, http.MethodGet, path, ""); got.Status != want {
			t.Errorf("%s of a gateway that knows nothing: %d %s", path, got.Status, got.Body)
		}
	}
	if got := stranger.askAs(key, http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi); got.Status != 503 || got.Header.Get("Retry-After") == "" {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	db.Start()
	gatewaytest.Eventually(t, "the new gateway is ready", func() bool {
		return stranger.ask(http.MethodGet, "/actuator/health/readiness", "").Status == http.StatusOK
	})
	gateways = append(gateways, stranger)
	if chat(3, key) != http.StatusOK || chat(3, "") != http.StatusUnauthorized || role(3, "admin-token")/100 != 4 {
		t.Error("the new gateway does not know the keys and tokens of the others")
	}
	gatewaytest.Eventually(t, "changes are taken again", func() bool {
		return gateways[0].askAs(second, http.MethodDelete, "/api/auth/keys/stays", "").Status == http.StatusOK
	})
	everywhere("the key is dead", func(i int) bool { return chat(i, key)/100 == 4 })
}

// A new gateway without security must not serve its own file in place of the
// configuration that it is told to share.
func TestNewGatewayWithoutTheSharedDatabaseIsNotReady(t *testing.T) {
	t.Parallel()
	upstream := gatewaytest.StartBackend(t)
	file := filepath.Join(t.TempDir(), "patchbay.yaml")
	gatewaytest.WriteFile(t, file, gatewaytest.PoolYAML(upstream))
	g := serving(t, "--config", file, "--data-dir", t.TempDir(), "--set", "store.config=postgres://patchbay@"+waittest.Nobody(t)+"/postgres")
	for path, want := range map[string]int{"/actuator/health/readiness": 503, "/v1/models": 503, "/api/models": 503, "/actuator/health/liveness": 200} {
		if got := g.ask(http.MethodGet, path, ""); got.Status != want {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
	}
	if len(upstream.Requests()) > 0 {
		t.Error("a request was served")
	}
}

func TestCredentialVerbsOfASharedConfiguration(t *testing.T) {
	db := storetest.Postgres(t)
	shared := []string{"--set", "store.config=" + db.URL, "--set", "security.enabled=true"}
	verb := func(dir string, args ...string) string {
		t.Helper()
		code, stdout, stderr := runHere(t, append(append(args, "--json", "--data-dir", dir), shared...)...)
		if code != exitOK {
			t.Fatalf("%v: %d %s", args, code, stderr)
		}
		return stdout
	}
	// Before the first start the data directory keeps them for the log.
	dir := t.TempDir()
	admin := gatewaytest.DecodeObject(t, verb(dir, "tokens", "issue", "--name", "root", "--role", "admin"))["token"].(string)
	g := serving(t, append([]string{"--data-dir", dir}, shared...)...)
	g.apiAs(admin, http.MethodGet, "/api/auth/tokens", "").Is(t, 200, `"name":"root"`, `"createdBy":"command line"`)
	// Later they go to the log, also while gateways run.
	elsewhere := t.TempDir()
	key := gatewaytest.DecodeObject(t, verb(elsewhere, "keys", "create", "--id", "k"))["key"].(string)
	gatewaytest.Eventually(t, "the running gateway knows the key", func() bool { return g.askAs(key, http.MethodGet, "/v1/models", "").Status == http.StatusOK })
	if list := verb(elsewhere, "tokens", "list"); !strings.Contains(list, `"root"`) {
		t.Error(list)
	}
	verb(elsewhere, "tokens", "revoke", "root")
	gatewaytest.Eventually(t, "the running gateway refuses the token", func() bool { return g.askAs(admin, http.MethodGet, "/api/models", "").Status/100 == 4 })
	db.Kill()
	if code, _, stderr := runHere(t, append([]string{"keys", "list", "--data-dir", elsewhere}, shared...)...); code != exitFailed || strings.Contains(stderr, db.URL) {
		t.Errorf("without the database: %d %s", code, stderr)
	}
}
