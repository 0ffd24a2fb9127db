package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// Management that is open because it listens on loopback is not for clients of a
// proxy on this machine.
func TestForwardedRequestsDoNotReachOpenManagement(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	yaml := gatewaytest.ChatYAML(fmt.Sprintf("{name: m, base-url: '%s', api-key: sk-the-stored-key}", b.URL()))
	r, allowed, secured := gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml+"security: {allow-open: true}\n"), gatewaytest.Start(t, gatewaytest.SecuredYAML())
	for _, test := range []struct {
		name, value string
		forwarded   bool
	}{
		{"X-Forwarded-For", "203.0.113.7", true}, {"X-Forwarded-For", "127.0.0.1", false}, {"X-Forwarded-For", "::1", false},
		{"X-Forwarded-For", "203.0.113.7, 127.0.0.1", true}, {"X-Forwarded-For", "127.0.0.1, 203.0.113.7", true}, {"X-Forwarded-For", "10.0.0.1", true},
		{"X-Forwarded-For", "127.0.0.1:4711, [::1]:80", false}, {"X-Forwarded-For", "unknown", true}, {"X-Forwarded-For", "", false},
		{"X-Real-IP", "203.0.113.7", true}, {"X-Real-IP", "127.0.0.1", false}, {"X-Real-IP", "::ffff:127.0.0.1", false},
		{"Forwarded", "for=203.0.113.7", true}, {"Forwarded", `proto=https;For="[2001:db8::7]:4711"`, true}, {"Forwarded", "for=127.0.0.1;proto=https", false},
		{"Forwarded", "for=127.0.0.1, for=203.0.113.7", true}, {"Forwarded", "for=unknown", true}, {"Forwarded", "for=_hidden", true}, {"Forwarded", "proto=https", false},
		{"Via", "1.1 proxy.example", false},
	} {
		header := []string{test.name, test.value}
		for _, path := range []string{"/api/config/instance/type/chat", "/api/auth/keys", "/actuator/env", "/actuator/health/detailed", "/api/monitoring/calls"} {
			got := r.Do(http.MethodGet, path, "", header...)
			if test.forwarded && (got.Status != 403 || !strings.Contains(got.Body, "security.enabled")) || !test.forwarded && got.Status != 200 {
				t.Errorf("%s: %s of %s: %d %s", test.name, test.value, path, got.Status, got.Body)
			}
			if got := allowed.Do(http.MethodGet, path, "", header...); got.Status != 200 || test.forwarded && strings.Contains(got.Body, "sk-the-stored-key") {
				t.Errorf("%s: %s of %s with allow-open: %d %s", test.name, test.value, path, got.Status, got.Body)
			}
		}
		r.Do(http.MethodGet, "/actuator/info", "", header...).Succeeds(t)
		r.Do(http.MethodGet, "/actuator/prometheus", "", header...).Succeeds(t)
		r.Chat(gatewaytest.PlainHi, header...).Succeeds(t)
		if health := r.Do(http.MethodGet, "/actuator/health", "", header...).Succeeds(t); test.forwarded == strings.Contains(health.Body, "components") {
			t.Errorf("%s: %s: health %s", test.name, test.value, health.Body)
		}
		secured.Do(http.MethodGet, "/api/models", "", append(header, "Authorization", "Bearer viewer-token")...).Succeeds(t)
	}
	if got := r.Do(http.MethodPost, "/api/config/type/reset", "", "X-Forwarded-For", "203.0.113.7"); got.Status != 403 {
		t.Errorf("a write: %d", got.Status)
	}
}
