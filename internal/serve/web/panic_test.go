package web_test

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// A panic while an answer is read is a 500 for one client and nothing to the
// others: neither slot nor trial is lost, and it is no failure of the instance.
func TestPanicInTheProxyLosesNothing(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("circuit-breaker: {failure-threshold: 1, recovery-timeout: 1ms, success-threshold: 1}, queue: {size: 0}, "+gatewaytest.NoChecks,
		gatewaytest.Instance("m", b.URL(), "max-concurrency: 1")))
	i := r.Instances("m")[0]
	permit, _ := i.Acquire(time.Now())
	i.Release(permit, breaker.Failure, time.Now())
	gatewaytest.Eventually(t, "the breaker allows a trial", func() bool { return i.Breaker.Ready(time.Now()) })
	sound := i.Target.Adapter
	panicking := *sound
	panicking.Reply = func(*schema.Request, dialect.Answer, *dialect.Reply) error { panic("a fault of ours") }
	i.Target.Adapter = &panicking
	for range 3 {
		r.Chat(gatewaytest.PlainHi).FailsWith(t, 500, "internal_error", "internal_error", "")
	}
	if s := i.Breaker.Snapshot(); i.InFlight() != 0 || s.State != breaker.HalfOpen || s.FailureCount != 1 {
		t.Errorf("%d in flight, %v with %d failures", i.InFlight(), s.State, s.FailureCount)
	}
	i.Target.Adapter = sound
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if gatewaytest.CountLines(r.Logs.String(), "handler panicked", "a fault of ours") != 3 {
		t.Error("the log does not say what panicked")
	}
}
