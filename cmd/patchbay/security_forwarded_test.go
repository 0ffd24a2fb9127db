package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Management that is open because it listens on loopback is not for clients of a
// proxy on this machine.
func TestForwardedRequestsDoNotReachOpenManagement(t *testing.T) {
	b := startBackend(t)
	yaml := chatYAML(fmt.Sprintf("{name: m, base-url: '%s', api-key: sk-the-stored-key}", b.URL()))
	r, allowed, secured := startGateway(t, yaml), startGateway(t, yaml+"security: {allow-open: true}\n"), startGateway(t, securedYAML())
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
			got := r.do(http.MethodGet, path, "", header...)
			if test.forwarded && (got.status != 403 || !strings.Contains(got.body, "security.enabled")) || !test.forwarded && got.status != 200 {
				t.Errorf("%s: %s of %s: %d %s", test.name, test.value, path, got.status, got.body)
			}
			if got := allowed.do(http.MethodGet, path, "", header...); got.status != 200 || test.forwarded && strings.Contains(got.body, "sk-the-stored-key") {
				t.Errorf("%s: %s of %s with allow-open: %d %s", test.name, test.value, path, got.status, got.body)
			}
		}
		r.do(http.MethodGet, "/actuator/info", "", header...).succeeds(t)
		r.do(http.MethodGet, "/actuator/prometheus", "", header...).succeeds(t)
		r.chat(plainHi, header...).succeeds(t)
		if health := r.do(http.MethodGet, "/actuator/health", "", header...).succeeds(t); test.forwarded == strings.Contains(health.body, "components") {
			t.Errorf("%s: %s: health %s", test.name, test.value, health.body)
		}
		secured.do(http.MethodGet, "/api/models", "", append(header, "Authorization", "Bearer viewer-token")...).succeeds(t)
	}
	if got := r.do(http.MethodPost, "/api/config/type/reset", "", "X-Forwarded-For", "203.0.113.7"); got.status != 403 {
		t.Errorf("a write: %d", got.status)
	}
}
