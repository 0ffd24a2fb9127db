package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/simulator"
	"github.com/patchbay-ai/patchbay/internal/transport"
	"github.com/patchbay-ai/patchbay/internal/web/openapi"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

func TestEveryRouteHasAPermissionAndADescription(t *testing.T) {
	r := startGateway(t, "")
	for _, route := range r.Routes {
		isUnified := !regexp.MustCompile(`^\w+ /(api|actuator|docs|openapi|metrics|$)`).MatchString(route.Pattern)
		switch {
		case !route.Permission.Valid():
			t.Errorf("%s has no permission", route.Pattern)
		case isUnified != (route.Permission == access.ByKey):
			t.Errorf("%s is %s", route.Pattern, route.Permission)
		case strings.Contains(route.Pattern, " /api/") && route.Permission == access.Anyone:
			t.Errorf("%s is for anyone", route.Pattern)
		case strings.HasPrefix(route.Pattern, "GET /api/") != strings.HasSuffix(string(route.Permission), ":read") && strings.Contains(route.Pattern, " /api/") && route.Permission != access.ManageKeys && route.Permission != access.ManageTokens:
			t.Errorf("%s needs %s", route.Pattern, route.Permission)
		}
	}
	for _, err := range openapi.Check(r.Routes) {
		t.Error(err)
	}
	var document struct {
		OpenAPI string                               `json:"openapi"`
		Paths   map[string]map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(r.do("GET", "/openapi.json", "").succeeds(t).body), &document); err != nil || document.OpenAPI != "3.1.0" {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for path, item := range document.Paths {
		for method, operation := range item {
			id, _ := operation["operationId"].(string)
			if ids[id] || id == "" {
				t.Errorf("%s %s has the id %q of another", method, path, id)
			}
			ids[id] = true
		}
	}
	for _, path := range []string{"/docs/api", "/docs/api/viewer.js", "/docs/api/viewer.css"} {
		page := r.do("GET", path, "").succeeds(t)
		if strings.Contains(page.body, "https://") || strings.Contains(page.body, "innerHTML") || !strings.Contains(page.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s is not self-contained: %v", path, page.header)
		}
	}
	r.api("GET", "/docs/api/pages.go", "").is(t, 404)
}

// securedYAML has a token for each role.
func securedYAML() string {
	return fmt.Sprintf("security: {enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: %s}, {name: o, role: OPERATOR, token-sha256: %s}, {name: v, role: VIEWER, token-sha256: %s}]}\n",
		hashOf("admin-token"), hashOf("operator-token"), hashOf("viewer-token"))
}

var pathParameter = regexp.MustCompile(`{\w+(\.\.\.)?}`)

// Every route is asked by everybody: refused or not by the permission that its
// line says, whatever else the answer is.
func TestRolesAndRoutes(t *testing.T) {
	secured, open := startGateway(t, securedYAML()), startGateway(t, "")
	for n, route := range secured.Routes {
		method, path, _ := strings.Cut(route.Pattern, " ")
		path = pathParameter.ReplaceAllString(path, "none-of-them") + "?dryRun=true"
		isWrite := method != http.MethodGet
		isOpen := route.Permission == access.Anyone || route.Permission == access.ByKey
		for _, mode := range []struct {
			name    string
			r       *rig
			headers []string
			want    int // 0: not refused
		}{
			{"open", open, nil, 0},
			{"open, same origin", open, []string{"Origin", open.url, "Sec-Fetch-Site", "same-origin"}, 0},
			{"open, cross-site", open, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, when(isWrite && !isOpen, 403)},
			{"open, old browser", open, []string{"Origin", "https://evil.example"}, when(isWrite && !isOpen, 403)},
			{"nobody", secured, nil, when(!isOpen, 401)},
			{"wrong token", secured, []string{"Authorization", "Bearer wrong", "X-Forwarded-For", fmt.Sprint("192.0.2.", n)}, when(!isOpen, 401)},
			{"VIEWER", secured, []string{"Authorization", "Bearer viewer-token"}, when(!isOpen && !access.Viewer.Holds(route.Permission), 403)},
			{"OPERATOR", secured, []string{"Authorization", "Bearer operator-token"}, when(!isOpen && !access.Operator.Holds(route.Permission), 403)},
			{"ADMIN", secured, []string{"Authorization", "Bearer admin-token"}, 0},
			{"ADMIN, cross-site", secured, []string{"Authorization", "Bearer admin-token", "Sec-Fetch-Site", "cross-site"}, when(isWrite && !isOpen, 403)},
		} {
			a := headOf(mode.r.open(deadline(t), method, path, "{", mode.headers...))
			if refused := a.status == 401 || a.status == 403; mode.want != 0 && a.status != mode.want || mode.want == 0 && refused || a.status == 500 {
				t.Errorf("%s by %s: %d, want %d: %s", route.Pattern, mode.name, a.status, mode.want, a.body)
			}
			if a.status == 401 && a.header.Get("Www-Authenticate") != "Bearer" {
				t.Errorf("%s: no challenge", route.Pattern)
			}
		}
	}
	if secured.Control.Version() != 1 || open.Control.Version() != 1 {
		t.Error("something was changed")
	}
}

// headOf reads an answer, but no stream, which would not end.
func headOf(response *http.Response) reply {
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		_ = response.Body.Close()
		return reply{status: response.StatusCode, header: response.Header}
	}
	return drain(response)
}

func when(condition bool, status int) int {
	if condition {
		return status
	}
	return 0
}

// The key of a backend is shown as stored to those who may see it, in every
// read that has it.
func TestWhoSeesTheKeysOfBackends(t *testing.T) {
	const key, mask = "sk-the-stored-key", "****-key"
	yaml := chatYAML(instance("m", simulator.DownURL, "api-key: "+key, `headers: {X-Secret: a-secret-header}`))
	open, secured := startGateway(t, yaml), startGateway(t, yaml+securedYAML())
	for _, mode := range []struct {
		name    string
		r       *rig
		headers []string
		sees    bool
	}{
		{"open loopback", open, nil, true},
		{"open loopback, own page", open, []string{"Sec-Fetch-Site", "same-origin"}, true},
		{"open loopback, cross-site", open, []string{"Sec-Fetch-Site", "cross-site"}, false},
		{"open loopback, same site but another origin", open, []string{"Sec-Fetch-Site", "same-site"}, false},
		{"open loopback, old browser", open, []string{"Origin", "https://evil.example"}, false},
		{"ADMIN", secured, []string{"Authorization", "Bearer admin-token"}, true},
		{"OPERATOR", secured, []string{"Authorization", "Bearer operator-token"}, false},
		{"VIEWER", secured, []string{"Authorization", "Bearer viewer-token"}, false},
	} {
		for _, path := range []string{"/api/config/type", types + "chat", instList + "chat", "/api/config/instance/info/chat?modelName=m&baseUrl=" + simulator.DownURL, vers + "/1"} {
			body := mode.r.api("GET", path, "", mode.headers...).is(t, 200).body
			if strings.Contains(body, key) != mode.sees || strings.Contains(body, mask) == mode.sees || strings.Contains(body, "a-secret-header") != mode.sees {
				t.Errorf("%s, %s: %s", mode.name, path, body)
			}
		}
	}
	// Who cannot see the key cannot send it elsewhere either.
	move := func(token, more string) answer {
		return secured.api("PUT", instUp+"chat", `{"instanceId":"m@`+simulator.DownURL+`","instance":{"baseUrl":"http://10.6.6.6"`+more+`}}`, "Authorization", "Bearer "+token)
	}
	move("operator-token", "").is(t, 400, "instance.apiKey")
	move("operator-token", `,"apiKey":"`+mask+`"`).is(t, 400, "instance.apiKey")
	move("operator-token", `,"apiKey":"a-new-key","headers":{"X-Secret":"****ader"}`).is(t, 400, "instance.headers")
	move("admin-token", "").is(t, 200)
}

func TestHostNamesOfAnOpenGateway(t *testing.T) {
	r := startGateway(t, "security: {allowed-hosts: [gateway.local]}\n")
	secured := startGateway(t, securedYAML())
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:1": 200, "127.0.0.1": 200, "[::1]:80": 200, "127.8.8.8": 200, "gateway.local:8080": 200, "localhost.": 200,
		"evil.example": 403, "evil.example:80": 403, "127.0.0.1.evil.example": 403, "10.0.0.1": 403,
	} {
		raw := func(r *rig, path, more string) int {
			return r.sendRaw("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + more + "Connection: close\r\n\r\n").status
		}
		if got := raw(r, "/api/models", ""); got != want {
			t.Errorf("%s: %d", host, got)
		}
		if raw(r, "/v1/models", "") != 200 || raw(r, "/actuator/health/liveness", "") != 200 || raw(secured, "/api/models", "Authorization: Bearer viewer-token\r\n") != 200 {
			t.Errorf("%s: what is no open management is refused", host)
		}
	}
}

func TestKeysIssuedAtRunTime(t *testing.T) {
	b := startBackend(t)
	dir := t.TempDir()
	r := startWith(t, setup{yaml: poolYAML(b) + securedYAML(), dataDir: dir})
	admin := []string{"Authorization", "Bearer admin-token"}
	type issued struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	}
	r.chat(plainHi).succeeds(t) // no key is configured
	all := read[issued](t, r.api("POST", "/api/auth/keys", `{"id":"all","tenant":"acme"}`, admin...).is(t, 201))
	narrow := read[issued](t, r.api("POST", "/api/auth/keys", `{"services":["rerank"],"models":["x"]}`, admin...).is(t, 201))
	r.chat(plainHi).failsWith(t, 401, "authentication_error", "invalid_api_key", "")
	r.chat(plainHi, "Authorization", "Bearer "+all.Key).succeeds(t)
	r.chat(plainHi, "Authorization", "Bearer "+narrow.Key).failsWith(t, 403, "permission_error", "permission_denied", "")
	listed := r.api("GET", "/api/auth/keys", "", admin...).is(t, 200, `"id":"all"`, `"status":"ACTIVE"`, `"createdBy":"a"`)
	noneOf(t, listed.body+r.logs.String()+string(mustRead(t, dir+"/keys.json")), all.Key, narrow.Key)
	noneOf(t, listed.body, hashOf(all.Key))
	r.api("POST", "/api/auth/keys", `{"id":"all"}`, admin...).is(t, 400, "exists already")
	r.halt()

	r = startWith(t, setup{yaml: poolYAML(b) + securedYAML(), dataDir: dir})
	r.chat(plainHi, "Authorization", "Bearer "+all.Key).succeeds(t)
	r.api("DELETE", "/api/auth/keys/all", "", admin...).is(t, 200)
	r.chat(plainHi, "Authorization", "Bearer "+all.Key).failsWith(t, 401, "authentication_error", "invalid_api_key", "")
	r.api("DELETE", "/api/auth/keys/all", "", admin...).is(t, 200, `"changed":false`)
	r.api("DELETE", "/api/auth/keys/"+narrow.ID, "", admin...).is(t, 200)
	r.chat(plainHi).failsWith(t, 401, "authentication_error", "invalid_api_key", "") // the last key is gone; the door stays shut
}

func TestKeysVerb(t *testing.T) {
	dir := t.TempDir()
	verb := func(args ...string) (int, string, string) {
		return runHere(t, append([]string{"keys"}, args...)...)
	}
	code, stdout, stderr := verb("create", "--data-dir", dir, "--id", "team-a", "--service", "chat", "--expires", "24h")
	key := regexp.MustCompile(`pb-[\w-]{43}`).FindString(stdout)
	if code != exitOK || key == "" {
		t.Fatalf("%d %s %s", code, stdout, stderr)
	}
	r := startWith(t, setup{dataDir: dir, yaml: securedYAML()})
	if code, _, stderr := verb("list", "--data-dir", dir); code != exitFailed || !strings.Contains(stderr, "--url") {
		t.Errorf("while the gateway runs: %d %s", code, stderr)
	}
	remote := []string{"--url", r.url, "--token", "admin-token"}
	if code, stdout, stderr := verb(append([]string{"list"}, remote...)...); code != exitOK || !strings.Contains(stdout, "team-a") || !strings.Contains(stdout, "ACTIVE") {
		t.Errorf("list: %d %s %s", code, stdout, stderr)
	}
	if code, stdout, stderr := verb(append([]string{"create", "--id", "team-b"}, remote...)...); code != exitOK || !strings.Contains(stdout, "pb-") {
		t.Errorf("create: %d %s %s", code, stdout, stderr)
	}
	if code, _, stderr := verb(append([]string{"revoke", "team-a"}, remote...)...); code != exitOK {
		t.Errorf("revoke: %d %s", code, stderr)
	}
	if code, _, stderr := verb("revoke", "team-b", "--url", r.url, "--token", "viewer-token"); code != exitFailed || !strings.Contains(stderr, "403") {
		t.Errorf("revoke by a viewer: %d %s", code, stderr)
	}
	if code, _, stderr := verb("create", "--expires", "soon"); code != exitUsage || !strings.Contains(stderr, "--expires") {
		t.Errorf("bad expiry: %d %s", code, stderr)
	}
	if code, _, stderr := verb("revoke", "nobody", "--data-dir", t.TempDir()); code != exitFailed || !strings.Contains(stderr, "does not exist") {
		t.Errorf("revoke nobody: %d %s", code, stderr)
	}
	if code, stdout, _ := verb("--help"); code != exitOK || !strings.Contains(stdout, "Examples:\n  patchbay keys") {
		t.Errorf("help: %d %s", code, stdout)
	}
}

func TestBackendsThatTurnIntoMetadataServicesAreNotDialled(t *testing.T) {
	r := startGateway(t, chatYAML(instance("m", "http://10.0.0.1")))
	if err := refusedByDialer(r); err == nil || !strings.Contains(err.Error(), "metadata") {
		t.Errorf("the address was dialled: %v", err)
	}
}

// refusedByDialer sends a call where no configuration would let it go.
func refusedByDialer(r *rig) error {
	to, err := transport.ParseOrigin("http://169.254.169.254")
	if err != nil {
		return err
	}
	_, err = r.Transport.Send(deadline(r.t), to, &wire.Call{Method: "GET", Path: "/"}, transport.Timeouts{Connect: within})
	return err
}
