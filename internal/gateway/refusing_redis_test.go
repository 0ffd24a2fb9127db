package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// sharesEverything is a gateway that shares in a Redis all that gateways can. Key has more
// settings of its key.
func sharesEverything(url, key string, instances ...string) string {
	return fmt.Sprintf(`
services:
  chat:
    load-balancer: least-time
    rate-limit: {capacity: 100000, refill-rate: 100000, shared: true}
    circuit-breaker: {enabled: false}
    health-check: {enabled: false}
    instances: [%s]
redis: {url: %s}
quota: {enabled: true, distributed: {enabled: true, timeout: 1s}}
responses: {shared: true}
answer-cache: {services: [chat], shared: true}
security:
  enabled: true
  shared-limits: true
  tokens: [{name: admin, role: ADMIN, token-sha256: %s}]
  keys: [{id: k, key-sha256: %s, %s budgets: {day: {requests: 100000}, total: {tokens: 100000000}}}]
`, strings.Join(instances, ", "), gatewaytest.Quote(url), gatewaytest.HashOf("admin"), gatewaytest.HashOf("secret"), key)
}

// TestARedisThatRefusesWritesRefusesNoRequests: with a Redis that answers and takes no
// writes, or whose keys somebody has overwritten, requests pass as in an outage, and
// everything is shared again afterwards.
func TestARedisThatRefusesWritesRefusesNoRequests(t *testing.T) {
	t.Parallel()
	faults := storetest.RefuseWrites()
	faults["keys of a wrong type"] = func(t testing.TB, s *storetest.Server) func() {
		for _, line := range strings.Split(storetest.RedisCommand(t, s, "KEYS *"), "\r\n") {
			if strings.HasPrefix(line, "patchbay:") {
				storetest.RedisCommand(t, s, fmt.Sprintf("SET %q x", line))
			}
		}
		return func() {}
	}
	for name, refuse := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := storetest.Redis(t)
			b := gatewaytest.StartBackend(t)
			limits := "" // those of keys are sliding windows, whose share comes a minute later
			if strings.Contains(name, "type") {
				limits = "limits: {requests-per-minute: 100000, tokens-per-minute: 100000000},"
			}
			r := gatewaytest.Start(t, sharesEverything(redis.URL, limits, gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("m", gatewaytest.StartBackend(t).URL())))
			auth := []string{"Authorization", "Bearer secret"}
			sent := 0
			pass := func() string {
				sent++
				for path, body := range map[string]string{
					"/v1/chat/completions": fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"%d"}]}`, sent),
					"/v1/responses":        fmt.Sprintf(`{"model":"m","input":"%d"}`, sent),
				} {
					if reply := r.Do(http.MethodPost, path, body, auth...); reply.Status != http.StatusOK {
						return fmt.Sprintf("%s: %d %s", path, reply.Status, reply.Body)
					}
				}
				return ""
			}
			healthy := func() bool {
				for _, component := range []string{"sharedLimits", "budgets", "quota"} {
					body := r.Do(http.MethodGet, "/actuator/health/"+component, "", "Authorization", "Bearer admin").Body
					if strings.Contains(body, "DEGRADED") || strings.Contains(body, "DOWN") {
						return false
					}
				}
				return r.Shared.Err() == nil && r.Shared.IsSettled()
			}
			gatewaytest.Eventually(t, "the gateway works", func() bool { return pass() == "" && healthy() })
			end := refuse(t, redis)
			if !strings.Contains(name, "type") {
				gatewaytest.Eventually(t, "the outage is noticed", func() bool { pass(); return r.Shared.Err() != nil })
			}
			last, row := "", 0
			gatewaytest.Eventually(t, "requests pass", func() bool {
				if last = pass(); last != "" {
					row = 0
				}
				row++
				return row > 20
			})
			if t.Failed() {
				t.Log(last)
			}
			end()
			gatewaytest.Eventually(t, "all is shared again", func() bool { return pass() == "" && healthy() })
		})
	}
}
