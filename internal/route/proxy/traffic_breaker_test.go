package proxy_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// breakerState returns the state of the first instance's breaker.
func breakerState(r *gatewaytest.Gateway) breaker.State {
	return r.Instances("m")[0].Breaker.Snapshot().State
}

func TestBreakerOpensAfterFailuresInARow(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.BreakerYAML("failure-threshold: 3", b))
	bad, good := simulator.Step{Status: 500}, simulator.Step{}
	b.Script(bad, bad, good, bad, bad, bad) // a success in between starts the count anew
	for n, want := range []int{500, 500, 200, 500, 500, 500, 503, 503} {
		if got := r.Chat(gatewaytest.PlainHi).Status; got != want {
			t.Fatalf("request %d: status %d, want %d", n, got, want)
		}
	}
	refused := r.Chat(gatewaytest.StreamHi)
	fault := refused.FailsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
	if wait := refused.RetryOf(t); wait < 25*time.Second || wait > 30*time.Second || refused.Header.Get("X-Should-Retry") != "" {
		t.Errorf("wait %v, x-should-retry %q", wait, refused.Header.Get("X-Should-Retry"))
	}
	if !strings.Contains(string(fault.Details), "circuit breaker open, next trial in") || !strings.Contains(string(fault.Details), r.Instances("m")[0].Handle) {
		t.Errorf("details %s", fault.Details)
	}
	if got := b.Stats().Arrived; got != 6 || refused.Header.Get("X-Router-Attempts") != "0" {
		t.Errorf("the backend got %d requests, attempts %q", got, refused.Header.Get("X-Router-Attempts"))
	}
	// An edit of something else leaves it open.
	r.ChangeChat(func(s *config.Service) { s.Instances[0].Weight = 5 })
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
}

// A wait beyond 30 s is cut, and the caller is told not to try.
func TestLongBreakerPauseIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t, simulator.Step{Status: 500})
	r := gatewaytest.Start(t, gatewaytest.BreakerYAML("failure-threshold: 1, recovery-timeout: 10m", b))
	r.Chat(gatewaytest.PlainHi)
	refused := r.Chat(gatewaytest.PlainHi)
	if wait := refused.RetryOf(t); wait != 30*time.Second || refused.Header.Get("X-Should-Retry") != "false" {
		t.Errorf("wait %v, x-should-retry %q", wait, refused.Header.Get("X-Should-Retry"))
	}
}

// What is held against an instance and what is not. The threshold is one, so
// that a single failure shows.
func TestWhatCountsAsAFailure(t *testing.T) {
	counts := map[string]simulator.Step{
		"500":                  {Status: 500},
		"501":                  {Status: 501},
		"503":                  {Status: 503},
		"reset":                {Reset: true},
		"no head in time":      {Hang: true},
		"garbage":              {Raw: "hello\r\n\r\n"},
		"an error in a 200":    {Body: simulator.ErrorObject("no", "t", "c")},
		"cut body":             {Stop: simulator.StopClose},
		"cut stream":           {Stop: simulator.StopReset, After: 3},
		"truncated stream":     {Stop: simulator.StopEnd, After: 3},
		"silence in a stream":  {Stop: simulator.StopStall, After: 3},
		"an error in a stream": {Inject: simulator.ErrorEvent("no", "t", "c"), After: 3},
	}
	counted := func(t *testing.T, step simulator.Step, body string) breaker.State {
		b := gatewaytest.StartBackend(t, step)
		r := gatewaytest.Start(t, gatewaytest.BreakerYAML("failure-threshold: 1", b)+gatewaytest.ShortTimeouts(step))
		r.Chat(body)
		gatewaytest.Eventually(t, "the call is settled", func() bool { return r.Instances("m")[0].InFlight() == 0 })
		return breakerState(r)
	}
	for name, step := range counts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gatewaytest.Both(t, func(t *testing.T, body string) {
				if step.After > 0 && body == gatewaytest.PlainHi {
					return // a matter of streams
				}
				if got := counted(t, step, body); got != breaker.Open {
					t.Errorf("the breaker is %v", got)
				}
			})
		})
	}
	for _, status := range []int{400, 401, 403, 404, 408, 413, 422, 429} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			gatewaytest.Both(t, func(t *testing.T, body string) {
				if got := counted(t, simulator.Step{Status: status}, body); got != breaker.Closed {
					t.Errorf("the breaker is %v", got)
				}
			})
		})
	}
}

// Fifty clients that leave and fifty bad requests say nothing about a backend.
func TestClientsThatLeaveDoNotCount(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.BreakerYAML("failure-threshold: 2", b))
	for n, step := range []simulator.Step{{Hang: true}, {Stop: simulator.StopStall, After: 2}} {
		b.ScriptForever(step)
		ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
		var all []<-chan gatewaytest.Reply
		for range 25 {
			all = append(all, r.ChatLater(ctx, gatewaytest.StreamHi))
		}
		if err := b.WaitRequests(gatewaytest.Deadline(t), 25*(n+1)); err != nil {
			t.Fatal(err)
		}
		cancel()
		for _, done := range all {
			<-done
		}
	}
	b.ScriptForever(simulator.Step{Status: 400})
	for range 50 {
		r.Chat(gatewaytest.PlainHi)
	}
	gatewaytest.Eventually(t, "nothing is in flight", func() bool { return r.Instances("m")[0].InFlight() == 0 })
	if s := r.Instances("m")[0].Breaker.Snapshot(); s.State != breaker.Closed || s.FailureCount != 0 {
		t.Errorf("%v with %d failures", s.State, s.FailureCount)
	}
}

// A thousand callers at the moment of recovery: the backend sees as many as the
// breaker permits and not one more, and the others are told to come back.
func TestHalfOpenAdmitsTheTrialsAndNoMore(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t, simulator.Step{Status: 500})
	r := gatewaytest.Start(t, gatewaytest.BreakerYAML("failure-threshold: 1, recovery-timeout: 100ms, success-threshold: 3", b))
	r.Chat(gatewaytest.PlainHi)
	i := r.Instances("m")[0]
	gatewaytest.Eventually(t, "the pause is over", func() bool { return i.Breaker.Ready(time.Now()) })
	b.ScriptForever(simulator.Step{Hang: true}) // a trial ends when its client leaves
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	defer cancel()
	replies := make(chan gatewaytest.Reply, 1000)
	for range cap(replies) {
		go func() { replies <- r.TryChat(ctx, gatewaytest.PlainHi) }()
	}
	for range cap(replies) - 3 {
		refused := <-replies
		if refused.Status != 503 || !strings.Contains(refused.Body, `"circuit_breaker_open"`) || refused.Header.Get("Retry-After") == "" {
			t.Fatalf("status %d, %v: %s", refused.Status, refused.Err, refused.Body)
		}
	}
	stats := b.Stats()
	if stats.InFlight != 3 || stats.PeakInFlight != 3 || stats.Arrived != 1+3 {
		t.Errorf("the backend saw %+v", stats)
	}
	// Trials that are given up are given back; then three successes close it.
	cancel()
	for range 3 {
		<-replies
	}
	gatewaytest.Eventually(t, "the trials are back", func() bool { return i.InFlight() == 0 })
	b.Script()
	for n := range 3 {
		if got := i.Breaker.Snapshot().State; got != breaker.HalfOpen {
			t.Fatalf("%v after %d successes", got, n)
		}
		r.Chat(gatewaytest.StreamHi).Succeeds(t)
		gatewaytest.Eventually(t, "the trial is settled", func() bool { return i.InFlight() == 0 })
	}
	if i.Breaker.Snapshot().State != breaker.Closed {
		t.Error("not closed after three successes")
	}
}

// Streams that go on for long do not keep a backend out that has recovered: a
// trial has succeeded when its first event is there. What breaks later is a
// failure of the closed breaker.
func TestLongStreamsDoNotKeepARecoveredBackendOut(t *testing.T) {
	t.Parallel()
	held := gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("circuit-breaker: {failure-threshold: 5, recovery-timeout: 10ms, success-threshold: 3}, "+gatewaytest.NoChecks, gatewaytest.Instance("m", held.URL)))
	i := r.Instances("m")[0]
	for range 5 {
		permit, _ := i.Acquire(time.Now())
		i.Release(permit, breaker.Failure, time.Now())
	}
	gatewaytest.Eventually(t, "the pause is over", func() bool { return i.Breaker.Ready(time.Now()) })
	var streams []*gatewaytest.EventReader
	for range 3 {
		streams = append(streams, r.Stream(gatewaytest.Deadline(t), gatewaytest.StreamHi))
		<-held.Entered
	}
	if s := i.Breaker.Snapshot(); s.State != breaker.Closed || i.InFlight() != 3 {
		t.Fatalf("%v with %d streams in flight", s.State, i.InFlight())
	}
	streams = append(streams, r.Stream(gatewaytest.Deadline(t), gatewaytest.StreamHi))
	<-held.Entered
	_ = held.Server.Close() // cuts them all
	for _, stream := range streams {
		if events, _ := stream.Rest(); len(events) == 0 || !strings.Contains(events[len(events)-1], "upstream_stream_truncated") {
			t.Errorf("a stream that was cut ended with %v", events)
		}
	}
	gatewaytest.Eventually(t, "all are settled", func() bool { return i.InFlight() == 0 })
	if s := i.Breaker.Snapshot(); s.State != breaker.Closed || s.FailureCount != 4 {
		t.Errorf("%v with %d failures after four cut streams, threshold 5", s.State, s.FailureCount)
	}
}

func TestFailedTrialOpensAgain(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Status: 500})
	r := gatewaytest.Start(t, gatewaytest.BreakerYAML("failure-threshold: 1, recovery-timeout: 150ms", b))
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 500, "api_error", "upstream_error", "")
	i := r.Instances("m")[0]
	opened := i.Breaker.Snapshot().NextRetry
	gatewaytest.Eventually(t, "the pause is over", func() bool { return i.Breaker.Ready(time.Now()) })
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 500, "api_error", "upstream_error", "")
	if s := i.Breaker.Snapshot(); s.State != breaker.Open || s.NextRetry.Sub(opened) < 150*time.Millisecond {
		t.Errorf("%v, the next trial %v after the first", s.State, s.NextRetry.Sub(opened))
	}
	if got := b.Stats().Arrived; got != 2 {
		t.Errorf("the backend got %d requests", got)
	}
}

// An open breaker of one instance is the other one's traffic.
func TestOpenBreakerLeavesTheOthers(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	a.ScriptForever(simulator.Step{Status: 503})
	r := gatewaytest.Start(t, gatewaytest.BreakerYAML("failure-threshold: 2", a, b))
	for range 20 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	if got := a.Stats().Arrived; got != 2 || b.Stats().Arrived != 20 {
		t.Errorf("requests %d and %d, want 2 and 20", got, b.Stats().Arrived)
	}
}

// An operator's word is above what the breaker thinks, until it is taken back.
func TestOperatorForcesABreaker(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.BreakerYAML("failure-threshold: 2", b))
	force := func(state string) {
		t.Helper()
		r.API(http.MethodPost, "/api/config/instance/circuit-breaker/chat", fmt.Sprintf(`{"instanceId":"m@%s","state":%q}`, b.URL(), state)).Is(t, 200)
	}
	force("OPEN")
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
	force("AUTO")
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	force("CLOSED")
	b.ScriptForever(simulator.Step{Status: 500})
	for range 10 {
		r.Chat(gatewaytest.PlainHi).FailsWith(t, 500, "api_error", "upstream_error", "")
	}
	if got := b.Stats().Arrived; got != 11 {
		t.Errorf("the backend got %d requests", got)
	}
	force("AUTO") // it starts closed and clean, and thinks for itself again
	for n, want := range []int{500, 500, 503} {
		if got := r.Chat(gatewaytest.PlainHi).Status; got != want {
			t.Errorf("request %d: status %d, want %d", n, got, want)
		}
	}
}

// A breaker that an operator holds open promises no trial: callers, explain and
// monitoring say who holds it and since when.
func TestBreakerHeldOpenSaysSo(t *testing.T) {
	t.Parallel()
	b, other := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, fmt.Sprintf("security: {enabled: true, allow-keyless: true, tokens: [{name: nightshift, role: OPERATOR, token-sha256: %s}]}\n", gatewaytest.HashOf("the-ops-token"))+
		gatewaytest.BreakerYAML("failure-threshold: 1", b, other))
	ops := []string{"Authorization", "Bearer the-ops-token"}
	hold := func(b *simulator.Backend, state string) {
		t.Helper()
		r.API("POST", "/api/config/instance/circuit-breaker/chat", fmt.Sprintf(`{"instanceId":"m@%s","state":%q}`, b.URL(), state), ops...).Is(t, 200)
	}
	hold(b, "OPEN")
	hold(other, "OPEN")
	since := r.Instances("m")[0].Breaker.Snapshot().Hold.Since.UTC().Format(time.RFC3339)
	held := "held open by nightshift since " + since

	refused := r.Chat(gatewaytest.PlainHi)
	fault := refused.FailsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
	if !strings.Contains(fault.Message, held) || strings.Count(string(fault.Details), held) < 1 || strings.Contains(refused.Body, "trial") {
		t.Errorf("the reply says %s", refused.Body)
	}
	if refused.Header.Get("X-Should-Retry") != "false" || refused.Header.Get("Retry-After")+refused.Header.Get("Retry-After-Ms") != "" {
		t.Errorf("headers %v", refused.Header)
	}
	r.API("GET", "/api/route/explain?service=chat&model=m", "", ops...).Is(t, 200, `"reason":"circuit breaker `+held+`"`, `"retryAfterMs":0`)
	if view := r.Do("GET", "/api/monitoring/circuit-breaker", "", ops...); !strings.Contains(view.Body, `"heldBy":"nightshift","heldSince":"`) || !strings.Contains(view.Body, `"nextRetry":null`) {
		t.Errorf("monitoring says %s", view.Body)
	}

	// Beside an instance that recovers by itself, the wait is that one's.
	hold(other, "AUTO")
	other.Script(simulator.Step{Status: 500})
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 500, "api_error", "upstream_error", "")
	refused = r.Chat(gatewaytest.PlainHi)
	fault = refused.FailsWith(t, 503, "circuit_breaker_open", "circuit_breaker_open", "")
	if wait := refused.RetryOf(t); wait < 20*time.Second || refused.Header.Get("X-Should-Retry") != "" || !strings.Contains(string(fault.Details), held) {
		t.Errorf("wait %v, %s", wait, refused.Body)
	}
}
