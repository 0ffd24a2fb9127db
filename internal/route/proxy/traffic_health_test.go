package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// restart starts a backend where one was before.
func restart(t *testing.T, url string) *simulator.Backend {
	t.Helper()
	var b *simulator.Backend
	gatewaytest.Eventually(t, "the address is free again", func() (ok bool) {
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
	t.Parallel()
	gone, sibling := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	// So many failed checks never happen here: the mark is the traffic's.
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreaker+", health-check: {interval: 200ms, unhealthy-threshold: 1000}",
		gatewaytest.Instance("m", gone.URL()), gatewaytest.Instance("m", sibling.URL())))
	if err := gone.WaitProbes(gatewaytest.Deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	i := r.Instances("m")[0]
	gatewaytest.TakeAway(t, gone)
	for n := range 10 {
		answer := r.Chat(gatewaytest.PlainHi).Succeeds(t)
		if attempts := answer.Header.Get("X-Router-Attempts"); n > 1 && attempts != "1" {
			t.Errorf("request %d took %s attempts", n, attempts)
		}
	}
	if s := i.Health.Snapshot(); s.Status.String() != "UNHEALTHY" || s.Cause != "connection_refused" {
		t.Errorf("%v: %s", s.Status, s.Cause)
	}
	back := restart(t, gone.URL())
	gatewaytest.Eventually(t, "the instance is back", func() bool { return i.Health.Healthy() })
	for range 4 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	if got := back.Stats().Arrived; got != 2 {
		t.Errorf("after its return it got %d of 4", got)
	}
}

// With nobody left the caller learns why, for each instance, without addresses.
func TestUnhealthyInstancesAreExplained(t *testing.T) {
	t.Parallel()
	warming, broken := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	warming.SetProbe(simulator.Step{Status: 503, Body: `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`})
	broken.SetProbe(simulator.Step{Status: 502})
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreaker+", health-check: {interval: 100ms, unhealthy-threshold: 1}",
		gatewaytest.Instance("m", warming.URL()), gatewaytest.Instance("m", broken.URL())))
	for _, i := range r.Instances("m") {
		gatewaytest.Eventually(t, "both are found out", func() bool { return !i.Health.Healthy() })
	}
	answer := r.Chat(gatewaytest.StreamHi)
	fault := answer.FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	for _, part := range []string{`"warming up"`, `"unhealthy: status 502"`} {
		if !strings.Contains(string(fault.Details), part) {
			t.Errorf("no %s in %s", part, fault.Details)
		}
	}
	if wait := answer.RetryOf(t); wait < 500*time.Millisecond || wait > 6*time.Second || answer.Header.Get("X-Should-Retry") != "" {
		t.Errorf("headers %v", answer.Header)
	}
	gatewaytest.ContainsNone(t, answer.Body, warming.URL(), broken.URL())
	if warming.Stats().Arrived+broken.Stats().Arrived != 0 {
		t.Error("an unhealthy instance got a request")
	}
	// What was loading is there after the first good check.
	warming.SetProbe(simulator.Step{})
	gatewaytest.Eventually(t, "the model is loaded", func() bool { return r.Instances("m")[0].Health.Healthy() })
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
}

// Checks look and never ask for work, and what runs is none of their business.
func TestChecksNeverTouchLiveTraffic(t *testing.T) {
	t.Parallel()
	held := gatewaytest.StartBackend(t, simulator.Step{Stop: simulator.StopStall, After: 2})
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreaker+", health-check: {interval: 100ms}", gatewaytest.Instance("m", held.URL(), "max-concurrency: 1")))
	stream := r.Stream(gatewaytest.Deadline(t), gatewaytest.StreamHi)
	if _, err := stream.Next(); err != nil {
		t.Fatal(err)
	}
	if err := held.WaitProbes(gatewaytest.Deadline(t), len(held.Probes())+3); err != nil {
		t.Fatal(err)
	}
	if i := r.Instances("m")[0]; i.InFlight() != 1 || held.Stats().Arrived != 1 {
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
	t.Parallel()
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("circuit-breaker: {failure-threshold: 3}, "+onlyTraffic, gatewaytest.Instance("m", simulator.DownURL)))
	i := r.Instances("m")[0]
	isWatched(r)
	for range 3 {
		r.Chat(gatewaytest.PlainHi).FailsWith(t, 502, "api_error", "upstream_error", "")
		if s := i.Health.Snapshot(); s.Status.String() != "UNHEALTHY" || s.Cause != "connection_refused" {
			t.Errorf("%v: %s", s.Status, s.Cause)
		}
		for path, word := range map[string]string{
			"/actuator/health": `"DOWN"`, "/api/monitoring/instances": `"UNHEALTHY"`,
		} {
			if view := r.Do("GET", path, ""); !strings.Contains(view.Body, word) {
				t.Errorf("%s says nothing of it: %d %s", path, view.Status, view.Body)
			}
		}
	}
	refused := r.Chat(gatewaytest.StreamHi)
	refused.FailsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
	if wait := refused.RetryOf(t); wait > 5*time.Second { // until the next check, not the 30 s of the breaker
		t.Errorf("wait %v", wait)
	}
}

// A sole backend that restarts is served again when a check finds it, long before
// the recovery timeout of its breaker; until then callers are told to wait for the
// next check.
func TestSoleBackendThatRestartsIsBackSoon(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("circuit-breaker: {failure-threshold: 2, recovery-timeout: 1h, success-threshold: 1}, health-check: {interval: 1h}", gatewaytest.Instance("m", b.URL())))
	isWatched(r)
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	gatewaytest.TakeAway(t, b)
	for range 2 {
		r.Chat(gatewaytest.PlainHi).FailsWith(t, 502, "api_error", "upstream_error", "")
	}
	refused := r.Chat(gatewaytest.PlainHi)
	refused.FailsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
	if refused.Header.Get("X-Should-Retry") != "" || refused.RetryOf(t) >= 30*time.Second {
		t.Errorf("headers %v", refused.Header)
	}
	restart(t, b.URL())
	gatewaytest.Eventually(t, "it is served again", func() bool { return r.Chat(gatewaytest.PlainHi).Status == 200 })
	if state := breakerState(r); state != breaker.Closed {
		t.Errorf("the breaker is %v", state)
	}
}

// isWatched waits until the checker has taken the instances up.
func isWatched(r *gatewaytest.Gateway) {
	r.T.Helper()
	for _, i := range r.Instances("m") {
		gatewaytest.Eventually(r.T, "the checker looks at it", func() bool { return !i.Health.Snapshot().LastCheck.IsZero() })
	}
}

// Once the checks have confirmed that nothing listens at an instance's address, it gets
// no requests. Where the breaker is open as well, callers are told that.
func TestInstanceConfirmedUnreachableIsNotCalled(t *testing.T) {
	t.Parallel()
	const confirmed = "health-check: {interval: 100ms, unhealthy-threshold: 1}"
	for name, row := range map[string]struct{ breaker, kind, code string }{
		"breaker closed": {"failure-threshold: 100", "service_unavailable", "service_unavailable"},
		"breaker open":   {"failure-threshold: 1", "circuit_breaker_open", "circuit_breaker_open"},
	} {
		t.Run(name, func(t *testing.T) {
			// A good check would end the pause after a reset, and not the one after a 500.
			b := gatewaytest.StartBackend(t, simulator.Step{Status: 500})
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML("circuit-breaker: {"+row.breaker+"}, "+confirmed, gatewaytest.Instance("m", b.URL())))
			r.Chat(gatewaytest.PlainHi).FailsWith(t, 500, "api_error", "upstream_error", "")
			gatewaytest.TakeAway(t, b)
			i := r.Instances("m")[0]
			// A check that was under way when the backend closed has another reason.
			gatewaytest.Eventually(t, "the checks have confirmed it", func() bool {
				return i.Health.Out() && strings.Contains(i.Health.Reason().String(), "connection refused")
			})
			answer := r.Chat(gatewaytest.PlainHi)
			fault := answer.FailsWith(t, 503, row.kind, row.code, "")
			if !strings.Contains(string(fault.Details), "unhealthy: connection refused") || answer.Header.Get("Retry-After") == "" {
				t.Errorf("details %s, headers %v", fault.Details, answer.Header)
			}
			if success, failed, _ := gatewaytest.Outcomes(i); success != 0 || failed != 1 {
				t.Errorf("%d successes and %d failures", success, failed)
			}
		})
	}
}

// An instance that is marked is passed over while another one is well, also while
// that one is busy, and explained so; an answer of its own takes the mark back.
func TestMarkedInstanceIsTheLastResort(t *testing.T) {
	t.Parallel()
	gone, sibling := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreaker+", queue: {size: 5, timeout: 200ms}, "+onlyTraffic,
		gatewaytest.Instance("m", gone.URL()), gatewaytest.Instance("m", sibling.URL(), "max-concurrency: 1")))
	isWatched(r)
	marked, other := r.Instances("m")[0], r.Instances("m")[1]
	gatewaytest.TakeAway(t, gone)
	gatewaytest.Eventually(t, "traffic has found out", func() bool {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
		return marked.Health.Marked()
	})
	explained := r.Do("GET", "/api/route/explain?service=chat&model=m", "").Body
	if !strings.Contains(explained, `"unhealthy: connection refused"`) {
		t.Errorf("explained as %s", explained)
	}
	permit, _ := other.Acquire(time.Now()) // waiting for it in vain is better than what is known to fail
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 429, "rate_limit_exceeded", "concurrency_limit_reached", "")
	other.Release(permit, breaker.Cancelled, time.Now())
	other.Breaker.Force(breaker.ForcedOpen, breaker.Hold{}, time.Now())
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 502, "api_error", "upstream_error", "") // better than nothing
	back := restart(t, gone.URL())
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if marked.Health.Marked() || back.Stats().Arrived != 1 {
		t.Errorf("still marked after %d answers", back.Stats().Arrived)
	}
}

// An engine that serves requests and fails to list its models is found unhealthy, and is used
// all the same where there is no other. A request that it answers counts for more than checks.
func TestABackendThatOnlyFailsToListItsModelsIsUsed(t *testing.T) {
	t.Parallel()
	engine := gatewaytest.StartBackend(t)
	engine.SetProbe(simulator.Step{Status: 500})
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("health-check: {interval: 100ms}", gatewaytest.Instance("m", engine.URL())))
	i := r.Instances("m")[0]
	gatewaytest.Eventually(t, "the checks have failed", func() bool { return i.Health.Snapshot().Status.String() == "UNHEALTHY" })
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if got := i.Health.Snapshot(); got.Status.String() != "HEALTHY" {
		t.Errorf("%+v after an answer", got)
	}
	other := gatewaytest.StartBackend(t)
	r = gatewaytest.Start(t, gatewaytest.PolicyYAML("health-check: {interval: 100ms}", gatewaytest.Instance("m", engine.URL()), gatewaytest.Instance("m", other.URL())))
	i = r.Instances("m")[0]
	gatewaytest.Eventually(t, "the checks have failed", func() bool { return i.Health.Snapshot().Status.String() == "UNHEALTHY" })
	before := engine.Stats().Arrived
	for range 4 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	if got := engine.Stats().Arrived; got != before {
		t.Errorf("it got %d of 4 requests, beside an instance that is well", got-before)
	}
}
