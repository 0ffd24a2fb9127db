package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// signedBudgets is a gateway with a budget of requests a day that it shares in a Redis.
func signedBudgets(t *testing.T, redis *storetest.Server, more string) string {
	t.Helper()
	return gatewaytest.PoolYAML(gatewaytest.StartBackend(t)) + fmt.Sprintf(`
redis: {url: %s}
quota: {distributed: {enabled: true, timeout: 5s}}
security:
  enabled: true
  tokens: [{name: admin, role: ADMIN, token-sha256: %s}]
  keys: [{id: k, key-sha256: %s, budgets: {total: {requests: 10}}}]
%s`, gatewaytest.Quote(redis.URL), gatewaytest.HashOf("admin"), gatewaytest.HashOf("secret"), more)
}

const forgedSheet = "patchbay:quota:budget:{key/k}:BUDGET_TOTAL:all"

// noRun is the end of a total that belongs to no run.
const noRun = " 0 0 0 0 0 0 0 0 0 0 0"

// TestWhoWritesToRedisDoesNotChangeBudgets: totals that cannot be true are refused by every
// gateway, and with a master key all that were not signed with it.
func TestWhoWritesToRedisDoesNotChangeBudgets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		more, forge string
	}{
		"negative":                          {"", "x \"9999 -100 0 -100000 0 0 0 0 0" + noRun + "\""},
		"negative, with a master key":       {"  master-key: 0123456789abcdef0123456789abcdef\n", "x \"9999 -100 0 -100000 0 0 0 0 0" + noRun + "\""},
		"exhausting, with a master key":     {"  master-key: 0123456789abcdef0123456789abcdef\n", "x \"9999 1000 0 99999999 0 0 0 0 0" + noRun + "\""},
		"of the gateway, with a master key": {"  master-key: 0123456789abcdef0123456789abcdef\n", "OWN \"9999 0 0 0 0 0 0 0 0" + noRun + "\""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := storetest.Redis(t)
			r := gatewaytest.Start(t, signedBudgets(t, redis, test.more))
			used := func() string {
				return r.Do(http.MethodGet, "/api/monitoring/budgets", "", "Authorization", "Bearer admin").Succeeds(t).Body
			}
			for range 6 {
				r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer secret").Succeeds(t)
			}
			own := ""
			gatewaytest.Eventually(t, "the total is told", func() bool {
				for _, field := range strings.Split(storetest.RedisCommand(t, redis, "HKEYS "+forgedSheet), "\r\n") {
					if len(field) == 13 {
						own = field
					}
				}
				return own != "" && strings.Contains(used(), `"used":6`)
			})
			storetest.RedisCommand(t, redis, "HSET "+forgedSheet+" "+strings.ReplaceAll(test.forge, "OWN", own))
			storetest.RedisCommand(t, redis, "INCR patchbay:{tally}:changes")
			gatewaytest.Eventually(t, "the total is refused", func() bool { return r.Scrape()["model_router_budget_refused_totals_total"] > 0 })
			if body := used(); !strings.Contains(body, `"used":6`) {
				t.Errorf("%s", body)
			}
			for n := range 6 {
				if reply := r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer secret"); (reply.Status == http.StatusOK) != (n < 4) {
					t.Errorf("request %d: %d %s", n, reply.Status, reply.Body)
				}
			}
			if !strings.Contains(r.Logs.String(), "totals of a budget that are in Redis are refused") {
				t.Error("the log does not say so")
			}
		})
	}
}
