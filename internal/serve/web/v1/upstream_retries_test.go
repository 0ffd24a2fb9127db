package v1_test

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// A client that repeats a request says so; the instance that failed it is not
// charged twice for the same one.
func TestRetriesThatNameThemselvesCountOnce(t *testing.T) {
	t.Parallel()
	const retry = "X-Stainless-Retry-Count"
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Status: 500, Body: simulator.ErrorText("something broke")})
	r := gatewaytest.Start(t, unwatchedYAML("chat", gatewaytest.Instance("m", b.URL())))
	i := r.Instances("m")[0]
	failures := func(want int) {
		t.Helper()
		gatewaytest.Eventually(t, "nothing is in flight", func() bool { return i.InFlight() == 0 })
		if got := i.Breaker.Snapshot().FailureCount; got != want {
			t.Errorf("%d failures in a row, want %d", got, want)
		}
	}
	for _, count := range []string{"0", "1", "2", "1", "2", "3", "4"} {
		r.Chat(gatewaytest.PlainHi, retry, count).FailsWith(t, 500, "api_error", "upstream_error", "")
	}
	failures(1)
	// Another request counts, also where a client calls it a retry.
	r.Chat(gatewaytest.StreamHi, retry, "1").FailsWith(t, 500, "api_error", "upstream_error", "")
	failures(2)
	// So does the same one that does not call itself a retry.
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 500, "api_error", "upstream_error", "")
	r.Chat(gatewaytest.PlainHi, retry, "0").FailsWith(t, 500, "api_error", "upstream_error", "")
	r.Chat(gatewaytest.PlainHi, retry, "x").FailsWith(t, 500, "api_error", "upstream_error", "")
	failures(5)
	if state := i.Breaker.Snapshot().State; state != breaker.Open {
		t.Errorf("the breaker is %s after five failures", state)
	}
}
