package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// Pages of other sites may read health, info, the scrape and what is not management, on
// every path, known or not, and with every method; and management if they are named.
func TestPagesOfOtherSites(t *testing.T) {
	const evil, named = "https://evil.example", "https://dashboard.example"
	open := gatewaytest.Start(t, "")
	naming := gatewaytest.Start(t, "server: {cors-origins: ['*', '"+named+"']}\n")
	paths := map[string]bool{"/api/nothing": false, "/actuator/nothing": false, "/api": false, "//api//nothing": false, "/apiary": true, "/actuator/health/": true, "//actuator//info": true, "/actuator/metrics/": false, "/v1/nothing": true}
	for _, route := range open.Routes {
		if method, path, _ := strings.Cut(route.Pattern, " "); method == http.MethodGet {
			paths[gatewaytest.PathParameter.ReplaceAllString(path, "none")] = route.Permission == access.Anyone || route.Permission == access.ByKey && !isStored(path)
		}
	}
	for path, isFree := range paths {
		for _, test := range []struct {
			r       *gatewaytest.Gateway
			origin  string
			allowed string
		}{
			{open, evil, map[bool]string{true: "*"}[isFree]},
			{open, named, map[bool]string{true: "*"}[isFree]},
			{naming, evil, map[bool]string{true: "*"}[isFree]},
			{naming, named, map[bool]string{true: "*", false: named}[isFree]},
		} {
			page := []string{"Origin", test.origin, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}
			for _, method := range []string{http.MethodGet, http.MethodOptions} {
				got := headOf(test.r.Open(gatewaytest.Deadline(t), method, path, "", append(page, "Access-Control-Request-Method", http.MethodGet)...))
				if allowed := got.Header.Get("Access-Control-Allow-Origin"); allowed != test.allowed {
					t.Errorf("%s %s of %s: allowed is %q, want %q", method, path, test.origin, allowed, test.allowed)
				}
				if isRefused := got.Status == http.StatusForbidden; method == http.MethodGet && isRefused != (test.allowed == "" && !strings.Contains(path, "nothing") && path != "/api" || isOfPeople(path)) {
					t.Errorf("%s of %s: %d %s", path, test.origin, got.Status, got.Body)
				}
			}
		}
	}
}

// isOfPeople reports whether a path is for people who signed in, and refuses everybody else.
func isOfPeople(path string) bool { return strings.HasPrefix(path, "/api/me/") }

// isStored reports whether a path leads to files, batches or kept responses.
func isStored(path string) bool {
	return strings.HasPrefix(path, "/v1/files") || strings.HasPrefix(path, "/v1/batches") || strings.HasPrefix(path, "/v1/messages/batches") || strings.Contains(path, "/responses/{id}")
}

// While no key is needed, pages of other sites do not reach what is stored, by any method, at
// any alias, by any name; with keys, and for all that stores nothing, nothing is refused.
func TestPagesOfOtherSitesDoNotReachWhatAnOpenGatewayStores(t *testing.T) {
	t.Parallel()
	const own, named, keyText = "https://evil.example", "https://dashboard.example", "a-key"
	settings := "batches: {enabled: true}\nserver: {cors-origins: ['*', '" + named + "']}\n" + gatewaytest.PoolYAML(gatewaytest.StartBackend(t))
	open := gatewaytest.Start(t, settings)
	keyed := gatewaytest.Start(t, settings+"security: {enabled: true, keys: [{id: a, key-sha256: "+gatewaytest.HashOf(keyText)+"}]}\n")
	for _, route := range open.Routes {
		method, pattern, _ := strings.Cut(route.Pattern, " ")
		if route.Permission != access.ByKey || strings.Contains(pattern, "realtime") || strings.HasPrefix(pattern, "/ollama/") {
			continue
		}
		path, stored := gatewaytest.PathParameter.ReplaceAllString(pattern, "none"), isStored(pattern)
		for name, test := range map[string]struct {
			gateway *gatewaytest.Gateway
			head    string
			refused bool
			allowed string
		}{
			"page":          {open, "Host: localhost\r\nOrigin: " + own + "\r\nSec-Fetch-Site: cross-site\r\n", stored, map[bool]string{false: "*"}[stored]},
			"old browser":   {open, "Host: localhost\r\nOrigin: " + own + "\r\n", stored, map[bool]string{false: "*"}[stored]},
			"image":         {open, "Host: localhost\r\nSec-Fetch-Site: cross-site\r\n", stored, map[bool]string{false: "*"}[stored]},
			"rebound name":  {open, "Host: evil.example\r\n", stored, map[bool]string{false: "*"}[stored]},
			"named page":    {open, "Host: localhost\r\nOrigin: " + named + "\r\nSec-Fetch-Site: cross-site\r\n", false, map[bool]string{true: named, false: "*"}[stored]},
			"own page":      {open, "Host: localhost\r\nSec-Fetch-Site: same-origin\r\n", false, map[bool]string{false: "*"}[stored]},
			"program":       {open, "Host: localhost\r\n", false, map[bool]string{false: "*"}[stored]},
			"page with key": {keyed, "Host: evil.example\r\nOrigin: " + own + "\r\nSec-Fetch-Site: cross-site\r\nAuthorization: Bearer " + keyText + "\r\n", false, "*"},
		} {
			got := test.gateway.SendRaw(method + " " + path + " HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n" + test.head + "\r\n")
			if isRefused := got.Status == http.StatusForbidden; isRefused != test.refused || got.Header.Get("Access-Control-Allow-Origin") != test.allowed {
				t.Errorf("%s: %s %s: %d, allowed %q: %s", name, method, path, got.Status, got.Header.Get("Access-Control-Allow-Origin"), got.Body)
			}
			before := test.gateway.SendRaw("OPTIONS " + path + " HTTP/1.1\r\nConnection: close\r\nAccess-Control-Request-Method: " + method + "\r\n" + test.head + "\r\n")
			if before.Status != http.StatusNoContent || before.Header.Get("Access-Control-Allow-Origin") != test.allowed {
				t.Errorf("%s: preflight of %s: %d, allowed %q", name, path, before.Status, before.Header.Get("Access-Control-Allow-Origin"))
			}
		}
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

// The health of an open gateway shows its parts to nobody who may not manage it.
func TestHealthShowsPagesOfOtherSitesItsStatusAlone(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, "")
	for name, test := range map[string]struct {
		headers []string
		parts   bool
	}{
		"nobody's":  {nil, true},
		"own":       {[]string{"Sec-Fetch-Site", "same-origin"}, true},
		"another's": {[]string{"Sec-Fetch-Site", "cross-site"}, false},
		"old":       {[]string{"Origin", "https://evil.example"}, false},
	} {
		if got := r.Do(http.MethodGet, "/actuator/health", "", test.headers...).Succeeds(t); strings.Contains(got.Body, "components") != test.parts {
			t.Errorf("%s page: %s", name, got.Body)
		}
	}
	if got := r.SendRaw("GET /actuator/health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"); got.Status != 200 || strings.Contains(got.Body, "components") {
		t.Errorf("by another name: %d %s", got.Status, got.Body)
	}
}
