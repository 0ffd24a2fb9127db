package web_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// The bearer of a key sees the models that the key is good for.
func TestModelsAreListedByWhatTheKeyMayUse(t *testing.T) {
	t.Parallel()
	r := gatewaytest.Start(t, fmt.Sprintf(`
services:
  chat: {instances: [{name: a, base-url: %[1]s}, {name: b, base-url: %[1]s}]}
  embedding: {instances: [{name: b, base-url: %[1]s}, {name: c/d, base-url: %[1]s}]}
security:
  enabled: true
  keys:
    - {id: all, key-sha256: %[2]s}
    - {id: model, key-sha256: %[3]s, models: [a]}
    - {id: service, key-sha256: %[4]s, services: [embedding]}
    - {id: both, key-sha256: %[5]s, services: [chat], models: [c/d, b]}
    - {id: none, key-sha256: %[6]s, models: [elsewhere]}
`, simulator.DownURL, gatewaytest.HashOf("all"), gatewaytest.HashOf("model"), gatewaytest.HashOf("service"), gatewaytest.HashOf("both"), gatewaytest.HashOf("none")))
	for key, want := range map[string][]string{"all": {"a", "b", "c/d"}, "model": {"a"}, "service": {"b", "c/d"}, "both": {"b"}, "none": nil} {
		for _, path := range []string{"/v1/models", "/models"} {
			if got := gatewaytest.Models(t, r.Do(http.MethodGet, path, "", "Authorization", "Bearer "+key)); !slices.Equal(got, want) {
				t.Errorf("%s of %s: %v, want %v", path, key, got, want)
			}
		}
		for _, model := range []string{"a", "b", "c/d"} {
			answer := r.Do(http.MethodGet, "/v1/models/"+model, "", "Authorization", "Bearer "+key)
			if slices.Contains(want, model) {
				answer.Succeeds(t)
				continue
			}
			answer.FailsWith(t, 404, "not_found_error", "model_not_found", "model")
		}
	}
}

// Who listens beyond loopback without security is told so, in the health too.
func TestHealthWarnsOfAnOpenGateway(t *testing.T) {
	t.Parallel()
	type component struct {
		Status  string `json:"status"`
		Details struct {
			Warning string `json:"warning"`
		} `json:"details"`
	}
	read := func(r *gatewaytest.Gateway, path string, to any) {
		t.Helper()
		if err := json.Unmarshal([]byte(r.Do(http.MethodGet, path, "").Succeeds(t).Body), to); err != nil {
			t.Fatal(err)
		}
	}
	for yaml, warns := range map[string]bool{"": false, "security: {allow-open: true}\n": true, "security: {allow-open: true, enabled: true}\n": false} {
		r := gatewaytest.Start(t, yaml)
		var health struct {
			component
			Components map[string]component `json:"components"`
		}
		read(r, "/actuator/health", &health)
		if got := health.Components["security"]; health.Status != "UP" || (got.Details.Warning != "") != warns || warns && got.Status != "UP" {
			t.Errorf("%q: %+v", yaml, health)
		}
		if warns {
			var one component
			read(r, "/actuator/health/security", &one)
			if one.Details.Warning == "" {
				t.Errorf("%q: %+v", yaml, one)
			}
		}
	}
}

// Browsers always send a host, so a request without one cannot be an attack by DNS
// rebinding.
func TestRequestsWithoutAHostAreAccepted(t *testing.T) {
	t.Parallel()
	const key = "sk-the-stored-key"
	open := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", simulator.DownURL, "api-key: "+key)))
	secured := gatewaytest.Start(t, gatewaytest.SecuredYAML())
	get := func(r *gatewaytest.Gateway, head string) gatewaytest.Reply {
		return r.SendRaw("GET /api/config/instance/type/chat HTTP/1.0\r\n" + head + "\r\n")
	}
	gatewaytest.EnvelopeOf(t, get(open, "")).Is(t, 200, key)
	gatewaytest.EnvelopeOf(t, get(open, "Sec-Fetch-Site: cross-site\r\n")).Is(t, 403)
	gatewaytest.EnvelopeOf(t, get(open, "Host: evil.example\r\n")).Is(t, 403)
	gatewaytest.EnvelopeOf(t, get(secured, "")).Is(t, 401)
}
