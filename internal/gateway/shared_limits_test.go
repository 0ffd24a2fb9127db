package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/store/tally"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// sharedLimitYAML is a gateway with a chat limit that it shares in a Redis.
func sharedLimitYAML(instances, redis, limit string) string {
	return fmt.Sprintf("services: {chat: {rate-limit: {%s, shared: true}, circuit-breaker: {enabled: false}, health-check: {enabled: false}, instances: [%s]}}\n"+
		"redis: {url: %s}\nquota: {distributed: {timeout: 5s}}\n", limit, instances, gatewaytest.Quote(redis))
}

// TestSharedLimitOverThreeGateways: 25 requests that a load balancer spreads over three
// gateways get no more than a limit of 10 allows, and each reply says so.
func TestSharedLimitOverThreeGateways(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]string{
		"service": "capacity: 10, refill-rate: 1, algorithm: sliding-window",
		"model":   "capacity: 10, refill-rate: 1, algorithm: sliding-window, scope: model",
		"client":  "capacity: 10, refill-rate: 1, algorithm: sliding-window, client-ip-enable: true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := storetest.Redis(t)
			b := gatewaytest.StartBackend(t)
			var all []*gatewaytest.Gateway
			for range 3 {
				all = append(all, gatewaytest.Start(t, sharedLimitYAML(gatewaytest.Instance("m", b.URL()), redis.URL, limit)))
			}
			gatewaytest.Eventually(t, "the gateways know each other", func() bool {
				return all[0].Shared.Stats().Gateways == 3 && all[1].Shared.Stats().Gateways == 3
			})
			<-time.After(tally.ProbationTime) // the store is new
			began, allowed := time.Now(), 0
			for n := range 25 {
				reply := all[n%3].Chat(gatewaytest.PlainHi)
				if reply.Header.Get("x-ratelimit-limit-requests") != "10" || reply.Header.Get("x-ratelimit-remaining-requests") == "" {
					t.Errorf("%v", reply.Header)
				}
				switch reply.Status {
				case http.StatusOK:
					allowed++
				case http.StatusTooManyRequests:
					if reply.Header.Get("Retry-After") == "" {
						t.Errorf("%v", reply.Header)
					}
				default:
					t.Fatalf("%d %s", reply.Status, reply.Body)
				}
			}
			if allowed < 10 || allowed > 10 && time.Since(began) < 10*time.Second {
				t.Errorf("%d of 25 were let in", allowed)
			}
		})
	}
}

// TestSharedLimitWithoutRedisIsDivided: a gateway without Redis says that it takes its
// share, in health, metrics and the log, and stays in rotation; afterwards it says that
// the limit is exact again.
func TestSharedLimitWithoutRedisIsDivided(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, sharedLimitYAML(gatewaytest.Instance("m", b.URL()), redis.URL, "capacity: 1000, refill-rate: 1000"))
	component := func() string { return r.Do(http.MethodGet, "/actuator/health/sharedLimits", "").Body }
	if health := component(); !strings.Contains(health, `"UP"`) {
		t.Errorf("%s", health)
	}
	redis.Kill()
	gatewaytest.Eventually(t, "the outage shows", func() bool { return strings.Contains(component(), `"DEGRADED"`) })
	gatewaytest.Eventually(t, "the share grows", func() bool { return r.Chat(gatewaytest.PlainHi).Status == http.StatusOK })
	metrics := r.Do(http.MethodGet, "/actuator/prometheus", "").Succeeds(t).Body
	if !strings.Contains(metrics, "model_router_shared_limits_healthy 0") || strings.Contains(metrics, "model_router_shared_limits_divided_requests_total 0\n") {
		t.Error("the metrics do not say that the limit is divided")
	}
	r.Do(http.MethodGet, "/actuator/health/readiness", "").Succeeds(t)
	redis.Start()
	gatewaytest.Eventually(t, "the limit is exact again", func() bool { return strings.Contains(component(), `"UP"`) })
	for _, line := range []string{"what gateways share cannot be reached; this gateway takes its part of what is left", "what gateways share is exact again"} {
		if n := strings.Count(r.Logs.String(), line); n != 1 {
			t.Errorf("%d lines say %q", n, line)
		}
	}
}

// TestLimitIsSharedAndNotByEdits: an edit makes a limit a shared one and back, and a
// gateway that shares nothing has no connection.
func TestLimitIsSharedAndNotByEdits(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, strings.ReplaceAll(sharedLimitYAML(gatewaytest.Instance("m", b.URL()), redis.URL, "capacity: 1000, refill-rate: 1000"), "shared: true", "shared: false"))
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if s := r.Shared.Stats(); s.Limits != 0 || s.Exchanges != 0 {
		t.Errorf("%+v", s)
	}
	r.ChangeChat(func(s *config.Service) { s.RateLimit.Shared = true })
	gatewaytest.Eventually(t, "the limit is shared", func() bool {
		return r.Chat(gatewaytest.PlainHi).Status == http.StatusOK && r.Shared.Stats().Exchanges > 0
	})
	if reply := r.Do(http.MethodGet, "/api/monitoring/rate-limit", "").Succeeds(t); !strings.Contains(reply.Body, `"shared":true`) {
		t.Errorf("%s", reply.Body)
	}
	r.ChangeChat(func(s *config.Service) { s.RateLimit.Shared = false })
	if s := r.Shared.Stats(); s.Limits != 0 {
		t.Errorf("%+v", s)
	}
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
}

// TestSharedLimitsOfKeys: a key has its requests a minute over all gateways together,
// and another key notices nothing.
func TestSharedLimitsOfKeys(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	b := gatewaytest.StartBackend(t)
	yaml := gatewaytest.PoolYAML(b) + fmt.Sprintf(`
redis: {url: %s}
quota: {distributed: {timeout: 5s}}
security:
  enabled: true
  shared-limits: true
  keys:
    - {id: a, key-sha256: %s, limits: {requests-per-minute: 10}}
    - {id: b, key-sha256: %s, limits: {requests-per-minute: 10}}
`, gatewaytest.Quote(redis.URL), gatewaytest.HashOf("key-a"), gatewaytest.HashOf("key-b"))
	var all []*gatewaytest.Gateway
	for range 3 {
		all = append(all, gatewaytest.Start(t, yaml))
	}
	gatewaytest.Eventually(t, "the gateways know each other", func() bool {
		return all[0].Shared.Stats().Gateways == 3 && all[1].Shared.Stats().Gateways == 3 && all[2].Shared.Stats().Gateways == 3
	})
	<-time.After(tally.ProbationTime) // the store is new
	allowed := 0
	for n := range 25 {
		reply := all[n%3].Chat(gatewaytest.PlainHi, "Authorization", "Bearer key-a")
		if reply.Status == http.StatusOK {
			allowed++
		} else if reply.Status != http.StatusTooManyRequests || !strings.Contains(reply.Body, "key_rate_limited") {
			t.Fatalf("%d %s", reply.Status, reply.Body)
		}
	}
	if allowed != 10 {
		t.Errorf("%d of 25 were let in", allowed)
	}
	all[0].Chat(gatewaytest.PlainHi, "Authorization", "Bearer key-b").Succeeds(t)
}

// TestIdleGatewaySendsThreeCommandsASecond to Redis at most, whatever it shares: limits,
// limits of keys, budgets, the ledger, the list of gateways and what is known about the
// fleet.
func TestIdleGatewaySendsThreeCommandsASecond(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	b := gatewaytest.StartBackend(t)
	yaml := sharedLimitYAML(gatewaytest.Instance("m", b.URL()), redis.URL, "capacity: 100, refill-rate: 100") +
		fmt.Sprintf("security: {enabled: true, shared-limits: true, keys: [{id: k, key-sha256: %s, limits: {tokens-per-minute: 100000}, budgets: {day: {tokens: 1000000}}}]}\n",
			gatewaytest.HashOf("secret"))
	yaml = strings.Replace(yaml, "chat: {", "chat: {load-balancer: least-time, ", 1)
	yaml = strings.Replace(yaml, "quota: {distributed: {timeout: 5s}}", "quota: {enabled: true, flush-interval-seconds: 5, distributed: {enabled: true, timeout: 5s}}", 1)
	all := []*gatewaytest.Gateway{gatewaytest.Start(t, yaml), gatewaytest.Start(t, yaml)}
	for _, g := range all {
		g.Chat(gatewaytest.PlainHi, bearer("secret")...).Succeeds(t)
	}
	gatewaytest.Eventually(t, "the gateways exchange what they know", func() bool {
		return all[0].Exchange.Stats().Others == 1 && all[1].Exchange.Stats().Others == 1
	})
	const long = 10 * time.Second
	most := len(all) * 3 * int(long.Seconds())
	gatewaytest.Eventually(t, "the gateways rest", func() bool {
		count := 0
		for name, n := range storetest.RedisCommands(t, redis, long) {
			count += n
			t.Logf("%.1f %s a second of each gateway", float64(n)/long.Seconds()/float64(len(all)), name)
		}
		return count > 0 && count <= most
	})
}
