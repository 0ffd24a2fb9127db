package main

import (
	"testing"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// A client that repeats a request says so; the instance that failed it is not
// charged twice for the same one.
func TestRetriesThatNameThemselvesCountOnce(t *testing.T) {
	const retry = "X-Stainless-Retry-Count"
	b := startBackend(t)
	b.ScriptForever(simulator.Step{Status: 500, Body: simulator.ErrorText("something broke")})
	r := startGateway(t, unwatchedYAML("chat", instance("m", b.URL())))
	i := r.instances("m")[0]
	failures := func(want int) {
		t.Helper()
		eventually(t, "nothing is in flight", func() bool { return i.InFlight() == 0 })
		if got := i.Breaker.Snapshot().FailureCount; got != want {
			t.Errorf("%d failures in a row, want %d", got, want)
		}
	}
	for _, count := range []string{"0", "1", "2", "1", "2", "3", "4"} {
		r.chat(plainHi, retry, count).failsWith(t, 500, "api_error", "upstream_error", "")
	}
	failures(1)
	// Another request counts, also where a client calls it a retry.
	r.chat(streamHi, retry, "1").failsWith(t, 500, "api_error", "upstream_error", "")
	failures(2)
	// So does the same one that does not call itself a retry.
	r.chat(plainHi).failsWith(t, 500, "api_error", "upstream_error", "")
	r.chat(plainHi, retry, "0").failsWith(t, 500, "api_error", "upstream_error", "")
	r.chat(plainHi, retry, "x").failsWith(t, 500, "api_error", "upstream_error", "")
	failures(5)
	if state := i.Breaker.Snapshot().State; state != breaker.Open {
		t.Errorf("the breaker is %s after five failures", state)
	}
}
