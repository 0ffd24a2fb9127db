package gateway_test

import (
	"net/http"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// TestAStoppedRequestIsSettled: what a request reserved is given back when an operator stops
// it, and what it may have used at its backend is counted, as when its client leaves.
func TestAStoppedRequestIsSettled(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Hang: true})
	r := gatewaytest.Start(t, gatewaytest.PoolYAML(b)+"security: {enabled: true, keys: [{id: k, key-sha256: "+gatewaytest.HashOf("secret")+", budgets: {day: {tokens: 100000}}}], "+
		"tokens: [{name: o, role: OPERATOR, token-sha256: "+gatewaytest.HashOf("operator-token")+"}]}\n")
	const operator = "Bearer operator-token"
	budget := func() map[string]any {
		return gatewaytest.At(t, r.GetObject("/api/monitoring/budgets", "Authorization", operator), "budgets/0").(map[string]any)
	}
	reply := r.ChatLater(t.Context(), gatewaytest.PlainHi, "Authorization", "Bearer secret", "X-Request-Id", "slow")
	gatewaytest.Eventually(t, "it runs", func() bool {
		return r.GetObject("/api/monitoring/running", "Authorization", operator)["total"] == 1.0 && budget()["reserved"].(float64) > 0
	})
	gatewaytest.Eventually(t, "the backend has it", func() bool { return len(b.Requests()) == 1 })
	r.Do(http.MethodPost, "/api/monitoring/running/slow/stop", "{}", "Authorization", operator).Succeeds(t)
	if got := (<-reply).Status; got != http.StatusServiceUnavailable {
		t.Errorf("%d", got)
	}
	gatewaytest.Eventually(t, "it is settled", func() bool {
		now := budget()
		return now["reserved"] == 0.0 && now["used"].(float64) > 0
	})
}
