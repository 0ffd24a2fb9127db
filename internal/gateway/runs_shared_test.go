// This file belongs to the wing runs.

package gateway_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/storetest"
)

// inRedis is the configuration of gateways that share what they count.
func inRedis(redis *storetest.Server) string {
	return fmt.Sprintf("redis: {url: %s}\nquota: {distributed: {enabled: true, timeout: 2s}}\n", gatewaytest.Quote(redis.URL))
}

// team starts gateways with one configuration that know each other.
func team(t *testing.T, count int, yaml string) (all []*gatewaytest.Gateway) {
	t.Helper()
	for range count {
		all = append(all, gatewaytest.Start(t, yaml))
	}
	for _, r := range all {
		gatewaytest.Eventually(t, "the gateways know each other", func() bool { return r.Shared.Members() == count })
	}
	return all
}

// Gateways that share nothing but the limits of runs count a run together, and divide the rest while
// their Redis is away.
func TestGatewaysThatShareOnlyRunsCountThemTogether(t *testing.T) {
	t.Parallel()
	redis := storetest.Redis(t)
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(answer(15, 5))
	all := team(t, 3, governed(b, "limits: {requests: 9}")+inRedis(redis))
	for n := range 6 {
		turn(all[n%3], "task", small).Succeeds(t)
	}
	for _, r := range all {
		gatewaytest.Eventually(t, "each gateway knows of all requests", func() bool {
			return listRuns(t, r, "?search=task")[0].Used.Requests == 6
		})
	}
	redis.Kill()
	var passed atomic.Int64
	for _, r := range all {
		gatewaytest.Eventually(t, "the outage is noticed", r.Shared.IsAway)
		for range 3 {
			if turn(r, "task", small).Status == http.StatusOK {
				passed.Add(1)
			}
		}
	}
	if got := passed.Load(); got != 3 {
		t.Errorf("%d of the last 3 requests passed while Redis was away", got)
	}
}
