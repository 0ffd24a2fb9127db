package main

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// panicking is an adapter that panics when it reads an answer.
type panicking struct{ dialect.Adapter }

func (panicking) Reply(*schema.Request, dialect.Answer, *dialect.Reply) error {
	panic("a fault of ours")
}

// A panic while an answer is read is a 500 for one client and nothing to the
// others: neither slot nor trial is lost, and it is no failure of the instance.
func TestPanicInTheProxyLosesNothing(t *testing.T) {
	b := startBackend(t)
	r := startGateway(t, policyYAML("circuit-breaker: {failure-threshold: 1, recovery-timeout: 1ms, success-threshold: 1}, queue: {size: 0}, "+noChecks,
		instance("m", b.URL(), "max-concurrency: 1")))
	i := r.instances("m")[0]
	permit, _ := i.Acquire(time.Now())
	i.Release(permit, breaker.Failure, time.Now())
	eventually(t, "the breaker allows a trial", func() bool { return i.Breaker.Ready(time.Now()) })
	sound := i.Target.Speak
	i.Target.Speak = panicking{sound}
	for range 3 {
		r.chat(plainHi).failsWith(t, 500, "internal_error", "internal_error", "")
	}
	if s := i.Breaker.Snapshot(); i.InFlight() != 0 || s.State != breaker.HalfOpen || s.FailureCount != 1 {
		t.Errorf("%d in flight, %v with %d failures", i.InFlight(), s.State, s.FailureCount)
	}
	i.Target.Speak = sound
	r.chat(plainHi).succeeds(t)
	if countLines(r.logs.String(), "handler panicked", "a fault of ours") != 3 {
		t.Error("the log does not say what panicked")
	}
}
