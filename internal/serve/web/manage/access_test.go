package manage_test

import (
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func TestEveryRouteHasAPermissionAndADescription(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	// What only administrators may do, they need one permission for, to read too.
	forAdministrators := map[access.Permission]bool{access.ManageKeys: true, access.ManageTokens: true, access.ManageSessions: true, access.ManageContents: true, access.ByMembership: true, "audit:record:manage": true}
	for _, route := range r.Routes {
		// What the document does not list are pages and their files, and what clients of
		// Ollama's API ask of every server of it.
		isUnified := (!route.Undescribed || isOllamas(route.Pattern)) && !regexp.MustCompile(`^\w+ /(api|actuator|auth|docs|openapi|metrics|$)`).MatchString(route.Pattern)
		switch {
		case !route.Permission.Valid():
			t.Errorf("%s has no permission", route.Pattern)
		case isUnified != (route.Permission == access.ByKey):
			t.Errorf("%s is %s", route.Pattern, route.Permission)
		case strings.Contains(route.Pattern, " /api/") && route.Permission == access.Anyone:
			t.Errorf("%s is for anyone", route.Pattern)
		case route.Pattern == "GET /api/config/export": // it has what only operators see
		case strings.HasPrefix(route.Pattern, "GET /api/") != strings.HasSuffix(string(route.Permission), ":read") && strings.Contains(route.Pattern, " /api/") && !forAdministrators[route.Permission]:
			t.Errorf("%s needs %s", route.Pattern, route.Permission)
		case !route.Undescribed && (route.Summary == "" || route.Tag == "" || route.Reply == nil && route.Media == nil && route.Status != http.StatusNoContent):
			t.Errorf("%s has no summary, no tag or no reply; complete its entry in the table of routes", route.Pattern)
		}
	}
	var document struct {
		OpenAPI string                               `json:"openapi"`
		Paths   map[string]map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(r.Do("GET", "/openapi.json", "").Succeeds(t).Body), &document); err != nil || document.OpenAPI != "3.1.0" {
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
	for _, path := range []string{"/docs/api"} {
		page := r.Do("GET", path, "").Succeeds(t)
		if strings.Contains(page.Body, "https://") || strings.Contains(page.Body, "innerHTML") || !strings.Contains(page.Header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s is not self-contained: %v", path, page.Header)
		}
	}
	if answer := r.Do("GET", "/docs/api/pages.go", ""); answer.Status != 404 {
		t.Errorf("a file that is no page: %d", answer.Status)
	}
}

// isOllamas reports whether a route is one of Ollama's API.
func isOllamas(pattern string) bool {
	_, path, _ := strings.Cut(pattern, " ")
	return path == "/ollama" || strings.HasPrefix(path, "/ollama/")
}

// Every route is asked by everybody: refused or not by the permission that its
// line says, whatever else the answer is.
func TestRolesAndRoutes(t *testing.T) {
	t.Parallel()
	secured, open := gatewaytest.Start(t, gatewaytest.SecuredYAML()), gatewaytest.Start(t, "")
	for n, route := range secured.Routes {
		if route.Undescribed && isOllamas(route.Pattern) {
			continue // whoever asks, models are not pulled, made or deleted here
		}
		method, path, _ := strings.Cut(route.Pattern, " ")
		path = gatewaytest.PathParameter.ReplaceAllString(path, "none-of-them") + "?dryRun=true"
		isOpen := route.Permission == access.Anyone || route.Permission == access.ByKey
		// What is stored is not for pages of other sites while no key is needed.
		isForPages := isOpen && !strings.HasPrefix(path, "/v1/files") && !strings.HasPrefix(path, "/v1/batches") && !strings.HasPrefix(path, "/v1/messages/batches") && !strings.Contains(path, "/responses/none")
		// An open gateway gives nobody a token, or another role; to issue one needs a body besides.
		// Those of members are for nobody else.
		isForMembers := route.Permission == access.ByMembership
		makesToken := isForMembers || route.Pattern == "POST /api/auth/tokens/{name}/rotate" || route.Pattern == "PUT /api/auth/tokens/{name}" ||
			route.Pattern == "POST /api/auth/tokens/{name}/enable"
		for _, mode := range []struct {
			name    string
			r       *gatewaytest.Gateway
			headers []string
			want    int // 0: not refused
		}{
			{"open", open, nil, when(makesToken, 403)},
			{"open, same origin", open, []string{"Origin", open.URL, "Sec-Fetch-Site", "same-origin"}, when(makesToken, 403)},
			{"open, cross-site", open, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, when(!isForPages, 403)},
			{"open, same site", open, []string{"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"}, when(!isForPages, 403)},
			{"open, old browser", open, []string{"Origin", "https://evil.example"}, when(!isForPages, 403)},
			{"nobody", secured, nil, when(!isOpen, 401)},
			{"wrong token", secured, []string{"Authorization", "Bearer wrong", "X-Forwarded-For", fmt.Sprintf("10.0.%d.%d", n/256, n%256)}, when(!isOpen, 401)},
			{"VIEWER", secured, []string{"Authorization", "Bearer viewer-token"}, when(!isOpen && !access.Viewer.Holds(route.Permission), 403)},
			{"OPERATOR", secured, []string{"Authorization", "Bearer operator-token"}, when(!isOpen && !access.Operator.Holds(route.Permission), 403)},
			{"ADMIN", secured, []string{"Authorization", "Bearer admin-token"}, when(isForMembers, 403)},
			{"ADMIN, cross-site", secured, []string{"Authorization", "Bearer admin-token", "Sec-Fetch-Site", "cross-site"}, when(!isForPages, 403)},
		} {
			a := headOf(mode.r.Open(gatewaytest.Deadline(t), method, path, "{", mode.headers...))
			if refused := a.Status == 401 || a.Status == 403; mode.want != 0 && a.Status != mode.want || mode.want == 0 && refused || a.Status == 500 {
				t.Errorf("%s by %s: %d, want %d: %s", route.Pattern, mode.name, a.Status, mode.want, a.Body)
			}
			if a.Status == 401 && a.Header.Get("Www-Authenticate") != "Bearer" {
				t.Errorf("%s: no challenge", route.Pattern)
			}
		}
	}
	if secured.Control.Version() != 1 || open.Control.Version() != 1 {
		t.Error("something was changed")
	}
}

// headOf reads an answer, but no stream, which would not end.
func headOf(response *http.Response) gatewaytest.Reply {
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		_ = response.Body.Close()
		return gatewaytest.Reply{Status: response.StatusCode, Header: response.Header}
	}
	return gatewaytest.ReadReply(response)
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
	t.Parallel()
	const key, mask = "sk-the-stored-key", "****-key"
	yaml := gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL, "api-key: "+key, `headers: {X-Secret: a-secret-header}`))
	open, secured := gatewaytest.Start(t, yaml+"server: {cors-origins: ['https://dashboard.example']}\n"), gatewaytest.Start(t, yaml+gatewaytest.SecuredYAML())
	for _, mode := range []struct {
		name    string
		r       *gatewaytest.Gateway
		headers []string
		sees    bool
	}{
		{"open loopback", open, nil, true},
		{"open loopback, own page", open, []string{"Sec-Fetch-Site", "same-origin"}, true},
		{"open loopback, a page that is allowed", open, []string{"Origin", "https://dashboard.example", "Sec-Fetch-Site", "cross-site"}, false},
		{"ADMIN", secured, []string{"Authorization", "Bearer admin-token"}, true},
		{"OPERATOR", secured, []string{"Authorization", "Bearer operator-token"}, false},
		{"VIEWER", secured, []string{"Authorization", "Bearer viewer-token"}, false},
	} {
		for _, path := range []string{"/api/config/type", gatewaytest.TypesPath + "chat", gatewaytest.InstancesPath + "chat", "/api/config/instance/info/chat?modelName=m&baseUrl=" + simulator.DownURL, gatewaytest.VersionsPath + "/1"} {
			body := mode.r.API("GET", path, "", mode.headers...).Is(t, 200).Body
			if strings.Contains(body, key) != mode.sees || strings.Contains(body, mask) == mode.sees || strings.Contains(body, "a-secret-header") != mode.sees {
				t.Errorf("%s, %s: %s", mode.name, path, body)
			}
		}
	}
	// Who cannot see the key cannot send it elsewhere either.
	move := func(token, more string) gatewaytest.ManagementReply {
		return secured.API("PUT", gatewaytest.UpdateInstancePath+"chat", `{"instanceId":"m@`+simulator.DownURL+`","instance":{"baseUrl":"http://10.6.6.6"`+more+`}}`, "Authorization", "Bearer "+token)
	}
	move("operator-token", "").Is(t, 400, "instance.apiKey")
	move("operator-token", `,"apiKey":"`+mask+`"`).Is(t, 400, "instance.apiKey")
	move("operator-token", `,"apiKey":"a-new-key","headers":{"X-Secret":"****ader"}`).Is(t, 400, "instance.headers")
	move("admin-token", "").Is(t, 200)
}

func TestHostNamesOfAnOpenGateway(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "security: {allowed-hosts: [gateway.local]}\n")
	secured := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:1": 200, "127.0.0.1": 200, "[::1]:80": 200, "127.8.8.8": 200, "gateway.local:8080": 200, "localhost.": 200,
		"evil.example": 403, "evil.example:80": 403, "127.0.0.1.evil.example": 403, "10.0.0.1": 403,
	} {
		raw := func(r *gatewaytest.Gateway, path, more string) int {
			return r.SendRaw("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + more + "Connection: close\r\n\r\n").Status
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
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	dir := t.TempDir()
	r := gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.PoolYAML(b) + gatewaytest.SecuredYAML(), DataDir: dir})
	admin := []string{"Authorization", "Bearer admin-token"}
	type issued struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	}
	r.Chat(gatewaytest.PlainHi).Succeeds(t) // no key is configured
	all := gatewaytest.DataOf[issued](t, r.API("POST", "/api/auth/keys", `{"id":"all","tenant":"acme"}`, admin...).Is(t, 201))
	narrow := gatewaytest.DataOf[issued](t, r.API("POST", "/api/auth/keys", `{"services":["rerank"],"models":["x"]}`, admin...).Is(t, 201))
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 401, "authentication_error", "invalid_api_key", "")
	r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer "+all.Key).Succeeds(t)
	r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer "+narrow.Key).FailsWith(t, 403, "permission_error", "permission_denied", "")
	listed := r.API("GET", "/api/auth/keys", "", admin...).Is(t, 200, `"id":"all"`, `"status":"ACTIVE"`, `"createdBy":"a"`)
	gatewaytest.ContainsNone(t, listed.Body+r.Logs.String()+string(gatewaytest.ReadFile(t, dir+"/keys.json")), all.Key, narrow.Key)
	gatewaytest.ContainsNone(t, listed.Body, gatewaytest.HashOf(all.Key))
	r.API("POST", "/api/auth/keys", `{"id":"all"}`, admin...).Is(t, 400, "exists already")
	r.Halt()

	r = gatewaytest.StartWith(t, gatewaytest.Setup{YAML: gatewaytest.PoolYAML(b) + gatewaytest.SecuredYAML(), DataDir: dir})
	r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer "+all.Key).Succeeds(t)
	r.API("DELETE", "/api/auth/keys/all", "", admin...).Is(t, 200)
	r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer "+all.Key).FailsWith(t, 401, "authentication_error", "invalid_api_key", "")
	r.API("DELETE", "/api/auth/keys/all", "", admin...).Is(t, 200, `"changed":false`)
	r.API("DELETE", "/api/auth/keys/"+narrow.ID, "", admin...).Is(t, 200)
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 401, "authentication_error", "invalid_api_key", "") // the last key is gone; the door stays shut
}

// Every field of a key is set when it is issued, changed by an edit, and shown. A field that keys get one
// day needs a value here.
func TestEveryFieldOfAKeyIsSetAndChanged(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	admin := []string{"Authorization", "Bearer admin-token"}
	values := map[string]string{
		"tenant": `"red"`, "userHeader": `"X-User"`, "services": `["chat"]`, "models": `["m"]`, "instances": `["m@http://a"]`,
		"addresses": `["10.0.0.0/8"]`, "expiresAt": `"2099-01-01T00:00:00Z"`, "priority": `"batch"`,
		"limits":  `{"requestsPerMinute":1,"tokensPerMinute":2,"concurrentRequests":3}`,
		"budgets": `{"day":{"requests":1},"month":{"tokens":2},"total":{"cost":3}}`,
		"runs":    `{"cost":1,"tokens":2,"requests":3,"time":"1h","concurrency":4}`,
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[access.Key]()) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous || name == "id" || name == "keySha256" {
			continue
		}
		if values[name] == "" {
			t.Errorf("field %s of a key has no value in this test", name)
			continue
		}
		shown := func(data []byte) string {
			var members map[string]jsontext.Value
			if err := json.Unmarshal(data, &members); err != nil {
				t.Fatal(err)
			}
			return string(members[name])
		}
		body := `{"` + name + `":` + values[name] + `}`
		issued := shown(r.API("POST", "/api/auth/keys", body, admin...).Is(t, 201).Data)
		before := shown(r.API("POST", "/api/auth/keys", `{"id":"k-`+name+`"}`, admin...).Is(t, 201).Data)
		edited := shown(r.API("PUT", "/api/auth/keys/k-"+name, body, admin...).Is(t, 200).Data)
		if issued != edited || edited == before {
			t.Errorf("field %s: issued with %s, edited from %s to %s, want %s", name, issued, before, edited, values[name])
		}
	}
}

func TestBackendsThatTurnIntoMetadataServicesAreNotDialled(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", "http://10.0.0.1")))
	if err := refusedByDialer(r); err == nil || !strings.Contains(err.Error(), "metadata") {
		t.Errorf("the address was dialled: %v", err)
	}
}

// refusedByDialer sends a call where no configuration would let it go.
func refusedByDialer(r *gatewaytest.Gateway) error {
	to, err := transport.ParseOrigin("http://169.254.169.254")
	if err != nil {
		return err
	}
	_, err = r.Transport.Send(gatewaytest.Deadline(r.T), &to, &wire.Call{Method: "GET", Path: "/"}, transport.Timeouts{Connect: gatewaytest.Timeout})
	return err
}

// The list of keys says which are in use, also after their terms have changed.
func TestUseOfKeysIsShown(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+gatewaytest.SecuredYAML())
	issued := gatewaytest.DataOf[struct {
		Key string `json:"key"`
	}](t, r.API("POST", "/api/auth/keys", `{"id":"used"}`, admin()...).Is(t, 201))
	r.API("POST", "/api/auth/keys", `{"id":"idle"}`, admin()...).Is(t, 201)
	r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer "+issued.Key).Succeeds(t)
	r.API("PUT", "/api/auth/keys/used", `{"limits":{"requestsPerMinute":50}}`, admin()...).Is(t, 200)
	r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer "+issued.Key).Succeeds(t)
	for _, key := range gatewaytest.DataOf[[]struct {
		ID         string    `json:"id"`
		LastUsedAt time.Time `json:"lastUsedAt"`
		CallsToday int64     `json:"callsToday"`
	}](t, r.API("GET", "/api/auth/keys", "", admin()...).Is(t, 200)) {
		switch {
		case key.ID == "idle" && (key.CallsToday != 0 || !key.LastUsedAt.IsZero()):
			t.Errorf("a key that nobody used: %+v", key)
		case key.ID == "used" && (key.CallsToday < 1 || key.LastUsedAt.IsZero()): // the day may have changed between the calls
			t.Errorf("a key that was used: %+v", key)
		}
	}
}
