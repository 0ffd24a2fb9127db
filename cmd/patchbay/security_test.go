package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"
)

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func TestKeysOfTheUnifiedAPI(t *testing.T) {
	const everything, narrow, other, old = "key-for-everything", "key-for-m2", "key-for-rerank", "key-of-the-past"
	b := startBackend(t)
	r := startGateway(t, chatYAML(instance("m", b.URL()), instance("m2", b.URL()))+fmt.Sprintf(`
security:
  enabled: true
  keys:
    - {id: all, key-sha256: %s}
    - {id: narrow, key-sha256: %s, models: [m2]}
    - {id: other, key-sha256: %s, services: [rerank]}
    - {id: old, key-sha256: %s, expires-at: "2020-01-01T00:00:00Z"}
`, hashOf(everything), hashOf(narrow), hashOf(other), hashOf(old)))
	const m2 = `{"model":"m2",` + someMessages + `}`
	t.Run("without a good key", func(t *testing.T) {
		for _, headers := range [][]string{
			nil, {"Authorization", "Bearer wrong"}, {"Authorization", "Bearer "}, {"Authorization", everything}, {"Authorization", "Basic " + everything},
			{"X-Api-Key", "wrong"}, {"Api-Key", ""}, {"Authorization", "Bearer " + old}, {"Authorization", "Bearer " + hashOf(everything)},
		} {
			r.chat(plainHi, headers...).failsWith(t, 401, "authentication_error", "invalid_api_key", "")
		}
		r.do(http.MethodGet, "/v1/models", "").failsWith(t, 401, "authentication_error", "invalid_api_key", "")
		r.do(http.MethodGet, "/v1/models/m", "").failsWith(t, 401, "authentication_error", "invalid_api_key", "")
		r.chat("not even JSON").failsWith(t, 401, "authentication_error", "invalid_api_key", "")
		if b.Stats().Arrived != 0 {
			t.Errorf("the backend got %d requests", b.Stats().Arrived)
		}
	})
	t.Run("with a key for something else", func(t *testing.T) {
		r.chat(plainHi, "Authorization", "Bearer "+narrow).failsWith(t, 403, "permission_error", "permission_denied", "")
		r.chat(m2, "Authorization", "Bearer "+other).failsWith(t, 403, "permission_error", "permission_denied", "")
		r.chat(`{"model":"unknown",`+someMessages+`}`, "X-Api-Key", narrow).failsWith(t, 403, "permission_error", "permission_denied", "")
		if b.Stats().Arrived != 0 {
			t.Errorf("the backend got %d requests", b.Stats().Arrived)
		}
	})
	t.Run("with a good key", func(t *testing.T) {
		for _, headers := range [][]string{
			{"Authorization", "Bearer " + everything}, {"Authorization", "bearer " + everything}, {"X-API-Key", everything}, {"api-key", everything},
		} {
			r.chat(plainHi, headers...).succeeds(t)
			r.do(http.MethodGet, "/v1/models", "", headers...).succeeds(t)
		}
		r.chat(m2, "Authorization", "Bearer "+narrow).succeeds(t)
	})
	t.Run("no key is passed on or logged", func(t *testing.T) {
		for _, request := range b.Requests() {
			noneOf(t, fmt.Sprint(request.Header), everything, narrow)
		}
		noneOf(t, r.logs.String(), everything, narrow, other, old)
	})
	t.Run("what needs no key", func(t *testing.T) {
		r.do(http.MethodGet, "/actuator/health/readiness", "").succeeds(t)
		if answer := r.do(http.MethodOptions, "/v1/chat/completions", "", "Origin", "https://page.example"); answer.status != 204 {
			t.Errorf("a preflight: %d", answer.status)
		}
	})
}

func TestSecurityWithoutKeysLeavesTheUnifiedAPIOpen(t *testing.T) {
	b := startBackend(t)
	r := startGateway(t, poolYAML(b)+"security: {enabled: true}\n")
	r.chat(plainHi).succeeds(t)
}
