package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestKeysOfTheUnifiedAPI(t *testing.T) {
	t.Parallel()
	const everything, narrow, other, old = "key-for-everything", "key-for-m2", "key-for-rerank", "key-of-the-past"
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("m2", b.URL()))+fmt.Sprintf(`
security:
  enabled: true
  keys:
    - {id: all, key-sha256: %s}
    - {id: narrow, key-sha256: %s, models: [m2]}
    - {id: other, key-sha256: %s, services: [rerank]}
    - {id: old, key-sha256: %s, expires-at: "2020-01-01T00:00:00Z"}
`, gatewaytest.HashOf(everything), gatewaytest.HashOf(narrow), gatewaytest.HashOf(other), gatewaytest.HashOf(old)))
	const m2 = `{"model":"m2",` + gatewaytest.SomeMessages + `}`
	t.Run("without a good key", func(t *testing.T) {
		for _, headers := range [][]string{
			nil, {"Authorization", "Bearer wrong"}, {"Authorization", "Bearer "}, {"Authorization", everything}, {"Authorization", "Basic " + everything},
			{"X-Api-Key", "wrong"}, {"Api-Key", ""}, {"Authorization", "Bearer " + old}, {"Authorization", "Bearer " + gatewaytest.HashOf(everything)},
		} {
			r.Chat(gatewaytest.PlainHi, headers...).FailsWith(t, 401, "authentication_error", "invalid_api_key", "")
		}
		r.Do(http.MethodGet, "/v1/models", "").FailsWith(t, 401, "authentication_error", "invalid_api_key", "")
		r.Do(http.MethodGet, "/v1/models/m", "").FailsWith(t, 401, "authentication_error", "invalid_api_key", "")
		r.Chat("not even JSON").FailsWith(t, 401, "authentication_error", "invalid_api_key", "")
		if b.Stats().Arrived != 0 {
			t.Errorf("the backend got %d requests", b.Stats().Arrived)
		}
	})
	t.Run("with a key for something else", func(t *testing.T) {
		r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer "+narrow).FailsWith(t, 403, "permission_error", "permission_denied", "")
		r.Chat(m2, "Authorization", "Bearer "+other).FailsWith(t, 403, "permission_error", "permission_denied", "")
		r.Chat(`{"model":"unknown",`+gatewaytest.SomeMessages+`}`, "X-Api-Key", narrow).FailsWith(t, 403, "permission_error", "permission_denied", "")
		if b.Stats().Arrived != 0 {
			t.Errorf("the backend got %d requests", b.Stats().Arrived)
		}
	})
	t.Run("with a good key", func(t *testing.T) {
		for _, headers := range [][]string{
			{"Authorization", "Bearer " + everything}, {"Authorization", "bearer " + everything}, {"X-API-Key", everything}, {"api-key", everything},
		} {
			r.Chat(gatewaytest.PlainHi, headers...).Succeeds(t)
			r.Do(http.MethodGet, "/v1/models", "", headers...).Succeeds(t)
		}
		r.Chat(m2, "Authorization", "Bearer "+narrow).Succeeds(t)
	})
	t.Run("no key is passed on or logged", func(t *testing.T) {
		for _, request := range b.Requests() {
			gatewaytest.ContainsNone(t, fmt.Sprint(request.Header), everything, narrow)
		}
		gatewaytest.ContainsNone(t, r.Logs.String(), everything, narrow, other, old)
	})
	t.Run("what needs no key", func(t *testing.T) {
		r.Do(http.MethodGet, "/actuator/health/readiness", "").Succeeds(t)
		if answer := r.Do(http.MethodOptions, "/v1/chat/completions", "", "Origin", "https://page.example"); answer.Status != 204 {
			t.Errorf("a preflight: %d", answer.Status)
		}
	})
}

func TestSecurityWithoutKeysClosesTheUnifiedAPI(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	yaml := gatewaytest.PoolYAML(b) + gatewaytest.SecuredYAML()
	t.Run("closed", func(t *testing.T) {
		r := gatewaytest.Start(t, strings.Replace(yaml, "allow-keyless: true, ", "", 1))
		for n := range 30 { // more than an address may present wrong keys
			header := []string{}
			if n%2 == 0 {
				header = []string{"Authorization", "Bearer any"}
			}
			refused := r.Do(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, header...)
			if refused.Status != 401 || !strings.Contains(refused.Body, "patchbay keys create") ||
				!strings.Contains(refused.Body, "invalid_api_key") {
				t.Fatalf("%d %s", refused.Status, refused.Body)
			}
		}
		if gatewaytest.CountLines(r.Logs.String(), "/v1 refuses every request", "patchbay keys create --data-dir") != 1 {
			t.Errorf("the log does not say what to do:\n%s", r.Logs.String())
		}
		issued := gatewaytest.DataOf[struct {
			Key string `json:"key"`
		}](t,
			r.API(http.MethodPost, "/api/auth/keys", `{"id": "first"}`, "Authorization", "Bearer admin-token"))
		r.Do(http.MethodPost, "/v1/chat/completions", gatewaytest.PlainHi, "Authorization", "Bearer "+issued.Key).Succeeds(t)
	})
	t.Run("opened until the first key", func(t *testing.T) {
		r := gatewaytest.Start(t, yaml)
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
		r.API(http.MethodPost, "/api/auth/keys", `{"id": "first"}`, "Authorization", "Bearer admin-token").Is(t, 201)
		if refused := r.Chat(gatewaytest.PlainHi); refused.Status != 401 || strings.Contains(refused.Body, "has none") {
			t.Errorf("%d %s", refused.Status, refused.Body)
		}
	})
}
