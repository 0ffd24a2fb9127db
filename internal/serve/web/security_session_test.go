package web_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// logIn exchanges a token for a session, and returns the cookie as a browser
// sends it and as the gateway set it.
func logIn(t *testing.T, r *gatewaytest.Gateway, token string, headers ...string) (cookie string, set *http.Cookie) {
	t.Helper()
	answer := r.Do("POST", "/api/auth/session", "", append([]string{"Authorization", "Bearer " + token}, headers...)...)
	cookies := (&http.Response{Header: answer.Header}).Cookies()
	if answer.Status != 201 || len(cookies) != 1 || strings.Contains(answer.Body, cookies[0].Value) {
		t.Fatalf("%d %v %s", answer.Status, answer.Header, answer.Body)
	}
	return cookies[0].Name + "=" + cookies[0].Value, cookies[0]
}

func TestSessionStandsForItsToken(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	cookie, set := logIn(t, r, "viewer-token")
	if !set.HttpOnly || set.SameSite != http.SameSiteStrictMode || set.Secure || set.Path != "/" || set.Domain != "" || set.Expires.IsZero() || strings.Contains(set.Value, "viewer") {
		t.Errorf("%+v", set)
	}
	if _, set := logIn(t, r, "viewer-token", "X-Forwarded-Proto", "https"); !set.Secure {
		t.Errorf("over TLS: %+v", set)
	}
	for _, path := range []string{"/api/config/type", "/api/monitoring/config", "/actuator/env", "/api/auth/me"} {
		r.Do("GET", path, "", "Cookie", cookie, "Sec-Fetch-Site", "same-origin").Succeeds(t)
	}
	if answer := r.Do("POST", "/api/config/type/reset", "", "Cookie", cookie); answer.Status != 403 {
		t.Errorf("a viewer writes: %d", answer.Status)
	}
	if answer := r.Do("POST", "/api/auth/session", "", "Cookie", cookie); answer.Status != 400 || answer.Header.Get("Set-Cookie") != "" {
		t.Errorf("a session is made longer with itself: %d %v", answer.Status, answer.Header)
	}
	if answer := r.Do("GET", "/v1/models", "", "Cookie", cookie); answer.Status != 200 { // no key is configured
		t.Errorf("%d", answer.Status)
	}
	gatewaytest.ContainsNone(t, r.Logs.String(), set.Value, "viewer-token")
}

// Browsers send cookies for whoever asks them to. Only pages of the gateway itself
// have their requests count as those of the person.
func TestSessionCountsForPagesOfTheGatewayOnly(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	cookie, _ := logIn(t, r, "admin-token")
	for _, foreign := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"}, {"Origin", "null"},
		{"Origin", strings.Replace(r.URL, "127.0.0.1", "localhost", 1)},
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			path := map[string]string{"GET": "/api/auth/keys", "POST": "/api/config/type/reset", "PUT": "/api/config/quota", "DELETE": "/api/config/version/1"}[method]
			if answer := r.Do(method, path, "", append([]string{"Cookie", cookie}, foreign...)...); answer.Status != 401 && answer.Status != 403 {
				t.Errorf("%v %s: %d", foreign, method, answer.Status)
			}
		}
		if answer := r.Do("POST", "/api/auth/session", "", append([]string{"Authorization", "Bearer admin-token"}, foreign...)...); answer.Status != 403 || answer.Header.Get("Set-Cookie") != "" {
			t.Errorf("%v logs in: %d", foreign, answer.Status)
		}
	}
	r.Do("POST", "/api/config/type/reset", "", "Cookie", cookie, "Origin", r.URL, "Sec-Fetch-Site", "same-origin").Succeeds(t)
}

func TestSessionDiesWithItsToken(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	cookie, _ := logIn(t, r, "operator-token")
	r.Do("GET", "/api/config/type", "", "Cookie", cookie).Succeeds(t)
	r.Do("DELETE", "/api/auth/tokens/o", "", "Authorization", "Bearer admin-token").Succeeds(t)
	for range 100 { // an old cookie is no attempt to guess a token
		if answer := r.Do("GET", "/api/config/type", "", "Cookie", cookie); answer.Status != 401 {
			t.Fatalf("%d", answer.Status)
		}
	}
	logIn(t, r, "admin-token")
}

func TestLoggingOutForgetsTheSession(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	cookie, _ := logIn(t, r, "viewer-token")
	answer := r.Do("DELETE", "/api/auth/session", "", "Cookie", cookie).Succeeds(t)
	cookies := (&http.Response{Header: answer.Header}).Cookies()
	if len(cookies) != 1 || cookies[0].MaxAge >= 0 || cookies[0].Value != "" {
		t.Errorf("%v", answer.Header)
	}
	for _, token := range []string{"", "wrong"} {
		if answer := r.Do("POST", "/api/auth/session", "", "Authorization", "Bearer "+token); answer.Status != 401 || answer.Header.Get("Set-Cookie") != "" {
			t.Errorf("%q logs in: %d", token, answer.Status)
		}
	}
}

func TestCallersCanReadTheirOwnIdentity(t *testing.T) {
	t.Parallel()
	secured, open := gatewaytest.Start(t, gatewaytest.SecuredYAML()), gatewaytest.Start(t, "")
	for _, test := range []struct {
		r               *gatewaytest.Gateway
		token           string
		name, role, may string
		mayNot          string
		isSecured       bool
	}{
		{secured, "admin-token", "a", "ADMIN", "auth:key:manage", "", true},
		{secured, "operator-token", "o", "OPERATOR", "config:type:write", "auth:key:manage", true},
		{secured, "viewer-token", "v", "VIEWER", "auth:session:use", "config:type:write", true},
		{open, "any", "open", "ADMIN", "auth:key:manage", "", false},
	} {
		var me struct {
			Name, Role      string
			Permissions     []string
			SecurityEnabled bool
		}
		data := test.r.API("GET", "/api/auth/me", "", "Authorization", "Bearer "+test.token).Is(t, 200).Data
		if err := json.Unmarshal(data, &me, json.MatchCaseInsensitiveNames(true)); err != nil || me.Name != test.name || me.Role != test.role || me.SecurityEnabled != test.isSecured ||
			!slices.Contains(me.Permissions, test.may) || slices.Contains(me.Permissions, test.mayNot) {
			t.Errorf("%s: %+v %v", test.token, me, err)
		}
		for _, route := range test.r.Routes {
			if code := string(route.Permission); me.Role == "ADMIN" && strings.Contains(code, ":") && !slices.Contains(me.Permissions, code) {
				t.Errorf("%s needs %s, which is not listed", route.Pattern, code)
			}
		}
	}
	var roles []struct {
		Role        string
		Permissions []string
	}
	data := secured.API("GET", "/api/auth/roles", "", "Authorization", "Bearer viewer-token").Is(t, 200).Data
	if err := json.Unmarshal(data, &roles, json.MatchCaseInsensitiveNames(true)); err != nil || len(roles) != 3 ||
		roles[0].Role != "VIEWER" || slices.Contains(roles[0].Permissions, "config:type:write") ||
		roles[1].Role != "OPERATOR" || !slices.Contains(roles[1].Permissions, "config:type:write") ||
		roles[2].Role != "ADMIN" || !slices.Contains(roles[2].Permissions, "auth:token:manage") {
		t.Errorf("roles: %+v %v", roles, err)
	}
	if answer := secured.Do("GET", "/api/auth/me", ""); answer.Status != 401 {
		t.Errorf("nobody: %d", answer.Status)
	}
	if answer := open.Do("POST", "/api/auth/session", "", "Authorization", "Bearer any"); answer.Status != 400 || answer.Header.Get("Set-Cookie") != "" {
		t.Errorf("a session of an open gateway: %d", answer.Status)
	}
}

// Over https the cookie of a session has a name that browsers take from this host only, and the name of
// http is not accepted: another host of the same domain may have set such a cookie.
func TestCookiesOverHTTPSBelongToThisHost(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what, settings string
		headers        []string
		name           string
	}{
		{"http", "", nil, "patchbay_session"},
		{"http, a public URL of http", "server: {public-url: 'http://ai.example.com'}\n", nil, "patchbay_session"},
		{"a proxy with https", "", []string{"X-Forwarded-Proto", "https"}, "__Host-patchbay_session"},
		{"a public URL of https", "server: {public-url: 'HTTPS://ai.example.com'}\n", nil, "__Host-patchbay_session"},
	} {
		r := gatewaytest.Start(t, gatewaytest.SecuredYAML()+test.settings)
		_, set := logIn(t, r, "viewer-token", test.headers...)
		isSecure := strings.HasPrefix(test.name, "__Host-")
		if set.Name != test.name || set.Secure != isSecure || set.Path != "/" || set.Domain != "" {
			t.Errorf("%s: got cookie %s, want %s", test.what, set, test.name)
		}
		for name, want := range map[string]int{"patchbay_session": 401, "__Host-patchbay_session": 401, "__host-patchbay_session": 401, test.name: 200} {
			if got := r.Do("GET", "/api/auth/me", "", append([]string{"Cookie", name + "=" + set.Value}, test.headers...)...).Status; got != want {
				t.Errorf("%s, with cookie %s: got %d, want %d", test.what, name, got, want)
			}
		}
		planted := append([]string{"Cookie", "patchbay_session=planted; __Host-patchbay_session=" + set.Value + "; patchbay_session=planted"}, test.headers...)
		if got := r.Do("GET", "/api/auth/me", "", planted...).Status; isSecure && got != 200 {
			t.Errorf("%s, beside a cookie of another host: got %d, want 200", test.what, got)
		}
		ended := r.Do("DELETE", "/api/auth/session", "", append([]string{"Cookie", test.name + "=" + set.Value}, test.headers...)...).Succeeds(t)
		if cookies := (&http.Response{Header: ended.Header}).Cookies(); len(cookies) != 1 || cookies[0].Name != test.name || cookies[0].MaxAge >= 0 {
			t.Errorf("%s, the end: got cookies %v, want %s to be forgotten", test.what, cookies, test.name)
		}
		if got := r.Do("GET", "/api/auth/me", "", append([]string{"Cookie", test.name + "=" + set.Value}, test.headers...)...).Status; got != 401 {
			t.Errorf("%s, after the end: got %d, want 401", test.what, got)
		}
	}
}
