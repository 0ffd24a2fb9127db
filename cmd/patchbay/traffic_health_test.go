package main

import (
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// restart starts a backend where one was before.
func restart(t *testing.T, url string) *simulator.Backend {
	t.Helper()
	var b *simulator.Backend
	eventually(t, "the address is free again", func() (ok bool) {
		started, err := simulator.Start(simulator.Options{Addr: strings.TrimPrefix(url, "http://"), Record: true})
		b = started
		return err == nil
	})
	t.Cleanup(b.Close)
	return b
}

// A refused connection takes an instance out at once, without waiting for a
// check; when it is back it gets traffic again, and nothing was restarted.
func TestRefusedConnectionMarksAtOnce(t *testing.T) {
	gone, sibling := startBackend(t), startBackend(t)
	// So many failed checks never happen here: the mark is the traffic's.
	r := startGateway(t, policyYAML(noBreaker+", health-check: {interval: 200ms, unhealthy-threshold: 1000}",
		instance("m", gone.URL()), instance("m", sibling.URL())))
	if err := gone.WaitProbes(deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	i := r.instances("m")[0]
	gone.Close()
	for n := range 10 {
		answer := r.chat(plainHi).succeeds(t)
		if attempts := answer.header.Get("X-Router-Attempts"); n > 1 && attempts != "1" {
			t.Errorf("request %d took %s attempts", n, attempts)
		}
	}
	if s := i.Health.Snapshot(); s.Status.String() != "UNHEALTHY" || s.Cause != "connection_refused" {
		t.Errorf("%v: %s", s.Status, s.Cause)
	}
	back := restart(t, gone.URL())
	eventually(t, "the instance is back", func() bool { return i.Health.Healthy() })
	for range 4 {
		r.chat(plainHi).succeeds(t)
	}
	if got := back.Stats().Arrived; got != 2 {
		t.Errorf("after its return it got %d of 4", got)
	}
}

// With nobody left the caller learns why, for each instance, without addresses.
func TestUnhealthyInstancesAreExplained(t *testing.T) {
	warming, broken := startBackend(t), startBackend(t)
	warming.SetProbe(simulator.Step{Status: 503, Body: `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`})
	broken.SetProbe(simulator.Step{Status: 500})
	r := startGateway(t, policyYAML(noBreaker+", health-check: {interval: 100ms, unhealthy-threshold: 1}",
		instance("m", warming.URL()), instance("m", broken.URL())))
	for _, i := range r.instances("m") {
		eventually(t, "both are found out", func() bool { return !i.Health.Healthy() })
	}
	answer := r.chat(streamHi)
	fault := answer.failsWith(t, 503, "service_unavailable", "service_unavailable", "")
	for _, part := range []string{`"warming up"`, `"unhealthy: status 500"`} {
		if !strings.Contains(string(fault.Details), part) {
			t.Errorf("no %s in %s", part, fault.Details)
		}
	}
	if wait := answer.retryOf(t); wait < 500*time.Millisecond || wait > 6*time.Second || answer.header.Get("X-Should-Retry") != "" {
		t.Errorf("headers %v", answer.header)
	}
	noneOf(t, answer.body, warming.URL(), broken.URL())
	if warming.Stats().Arrived+broken.Stats().Arrived != 0 {
		t.Error("an unhealthy instance got a request")
	}
	// What was loading is there after the first good check.
	warming.SetProbe(simulator.Step{})
	eventually(t, "the model is loaded", func() bool { return r.instances("m")[0].Health.Healthy() })
	r.chat(plainHi).succeeds(t)
}

// Checks look and never ask for work, and what runs is none of their business.
func TestChecksNeverTouchLiveTraffic(t *testing.T) {
	held := startBackend(t, simulator.Step{Stop: simulator.StopStall, After: 2})
	r := startGateway(t, policyYAML(noBreaker+", health-check: {interval: 100ms}", instance("m", held.URL(), "max-concurrency: 1")))
	stream := r.stream(deadline(t), streamHi)
	if _, err := stream.next(); err != nil {
		t.Fatal(err)
	}
	if err := held.WaitProbes(deadline(t), len(held.Probes())+3); err != nil {
		t.Fatal(err)
	}
	if i := r.instances("m")[0]; i.InFlight() != 1 || held.Stats().Arrived != 1 {
		t.Errorf("%d in flight, %d requests", i.InFlight(), held.Stats().Arrived)
	}
	for _, probe := range held.Probes() {
		if probe.Method != "GET" || probe.BodyLength > 0 {
			t.Errorf("a check was %s %s", probe.Method, probe.Path)
		}
	}
}

// onlyTraffic are checks that never decide: what is marked is marked by traffic,
// and what is well again is well by traffic.
const onlyTraffic = "health-check: {interval: 200ms, unhealthy-threshold: 1000, healthy-threshold: 1000}"

// The only instance is tried although traffic found nobody there, so that its
// breaker learns of it and opens; monitoring tells of it from the first refusal.
func TestOnlyInstanceThatIsMarkedIsStillTried(t *testing.T) {
	r := startGateway(t, policyYAML("circuit-breaker: {failure-threshold: 3}, "+onlyTraffic, instance("m", simulator.DownURL)))
	i := r.instances("m")[0]
	r.isWatched()
	for range 3 {
		r.chat(plainHi).failsWith(t, 502, "api_error", "upstream_error", "")
		if s := i.Health.Snapshot(); s.Status.String() != "UNHEALTHY" || s.Cause != "connection_refused" {
			t.Errorf("%v: %s", s.Status, s.Cause)
		}
		for path, word := range map[string]string{
			"/actuator/health": `"DOWN"`, "/api/monitoring/instances": `"UNHEALTHY"`,
		} {
			if view := r.do("GET", path, ""); !strings.Contains(view.body, word) {
				t.Errorf("%s says nothing of it: %d %s", path, view.status, view.body)
			}
		}
	}
	refused := r.chat(streamHi)
	refused.failsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
	if wait := refused.retryOf(t); wait > 5*time.Second { // until the next check, not the 30 s of the breaker
		t.Errorf("wait %v", wait)
	}
}

// A sole backend that restarts is served again when a check finds it, long before
// the recovery timeout of its breaker; until then callers are told to wait for the
// next check.
func TestSoleBackendThatRestartsIsBackSoon(t *testing.T) {
	b := startBackend(t)
	r := startGateway(t, policyYAML("circuit-breaker: {failure-threshold: 2, recovery-timeout: 1h, success-threshold: 1}, health-check: {interval: 1h}", instance("m", b.URL())))
	r.isWatched()
	r.chat(plainHi).succeeds(t)
	b.Close()
	for range 2 {
		r.chat(plainHi).failsWith(t, 502, "api_error", "upstream_error", "")
	}
	refused := r.chat(plainHi)
	refused.failsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
	if refused.header.Get("X-Should-Retry") != "" || refused.retryOf(t) >= 30*time.Second {
		t.Errorf("headers %v", refused.header)
	}
	restart(t, b.URL())
	eventually(t, "it is served again", func() bool { return r.chat(plainHi).status == 200 })
	if state := r.breakerState(); state != breaker.Closed {
		t.Errorf("the breaker is %v", state)
	}
}

// isWatched waits until the checker has taken the instances up.
func (r *rig) isWatched() {
	r.t.Helper()
	for _, i := range r.instances("m") {
		eventually(r.t, "the checker looks at it", func() bool { return !i.Health.Snapshot().LastCheck.IsZero() })
	}
}

// Once the checks have confirmed that nobody is there, nothing is sent there any
// more; where the breaker is open as well, that is what callers are told.
func TestConfirmedAbsenceEndsTheTries(t *testing.T) {
	const confirmed = "health-check: {interval: 100ms, unhealthy-threshold: 1}"
	for name, row := range map[string]struct{ breaker, kind, code string }{
		"breaker closed": {"failure-threshold: 100", "service_unavailable", "service_unavailable"},
		"breaker open":   {"failure-threshold: 1", "circuit_breaker_open", "circuit_breaker_open"},
	} {
		t.Run(name, func(t *testing.T) {
			b := startBackend(t, simulator.Step{Reset: true})
			r := startGateway(t, policyYAML("circuit-breaker: {"+row.breaker+"}, "+confirmed, instance("m", b.URL())))
			r.chat(plainHi).failsWith(t, 502, "api_error", "upstream_error", "")
			b.Close()
			i := r.instances("m")[0]
			eventually(t, "the checks have confirmed it", i.Health.Out)
			answer := r.chat(plainHi)
			fault := answer.failsWith(t, 503, row.kind, row.code, "")
			if !strings.Contains(string(fault.Details), "unhealthy: connection refused") || answer.header.Get("Retry-After") == "" {
				t.Errorf("details %s, headers %v", fault.Details, answer.header)
			}
			if success, failed, _ := outcomes(i); success != 0 || failed != 1 {
				t.Errorf("%d successes and %d failures", success, failed)
			}
		})
	}
}

// An instance that is marked is passed over while another one is well, also while
// that one is busy, and explained so; an answer of its own takes the mark back.
func TestMarkedInstanceIsTheLastResort(t *testing.T) {
	gone, sibling := startBackend(t), startBackend(t)
	r := startGateway(t, policyYAML(noBreaker+", queue: {size: 5, timeout: 200ms}, "+onlyTraffic,
		instance("m", gone.URL()), instance("m", sibling.URL(), "max-concurrency: 1")))
	r.isWatched()
	marked, other := r.instances("m")[0], r.instances("m")[1]
	gone.Close()
	eventually(t, "traffic has found out", func() bool {
		r.chat(plainHi).succeeds(t)
		return marked.Health.Marked()
	})
	explained := r.do("GET", "/api/route/explain?service=chat&model=m", "").body
	if !strings.Contains(explained, `"unhealthy: connection refused"`) {
		t.Errorf("explained as %s", explained)
	}
	permit, _ := other.Acquire(time.Now()) // waiting for it in vain is better than what is known to fail
	r.chat(plainHi).failsWith(t, 429, "rate_limit_exceeded", "concurrency_limit_reached", "")
	other.Release(permit, breaker.Cancelled, time.Now())
	other.Breaker.Force(breaker.ForcedOpen, "", time.Now())
	r.chat(plainHi).failsWith(t, 502, "api_error", "upstream_error", "") // better than nothing
	back := restart(t, gone.URL())
	r.chat(plainHi).succeeds(t)
	if marked.Health.Marked() || back.Stats().Arrived != 1 {
		t.Errorf("still marked after %d answers", back.Stats().Arrived)
	}
}
