package v1_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const (
	twoHi    = `{"model":"m","n":2,"messages":[{"role":"user","content":"hi"}]}`
	tokenIDs = `{"model":"m","input":[[1,2],[3]]}`
)

// A request that the backend's dialect cannot express reaches nobody and costs
// nothing: no attempt, no place in the rate limit, none in the ledger.
func TestWhatADialectCannotExpressCostsNothing(t *testing.T) {
	t.Parallel()
	for _, scope := range []string{"service", "model", "instance"} {
		t.Run(scope, func(t *testing.T) {
			b := gatewaytest.StartBackend(t)
			policy := "rate-limit: {algorithm: sliding-window, capacity: 100, refill-rate: 1, scope: " + scope + "}, " + gatewaytest.NoBreakerNoChecks
			one := gatewaytest.Instance("m", b.URL(), "adapter: ollama")
			r := gatewaytest.Start(t, fmt.Sprintf("services: {chat: {%s, instances: [%s]}, embedding: {%s, instances: [%s]}}\n", policy, one, policy, one)+gatewaytest.QuotaOn)
			for path, body := range map[string]string{"/v1/chat/completions": twoHi, "/v1/embeddings": tokenIDs} {
				for range 5 {
					answer := r.Post(path, body)
					if answer.Status != http.StatusBadRequest || gatewaytest.ErrorOf(t, answer.Body).Code != "invalid_value" {
						t.Fatalf("%s: %d %s", path, answer.Status, answer.Body)
					}
					if got := answer.Header.Get("X-Router-Attempts"); got != "0" {
						t.Errorf("%s: %s attempts", path, got)
					}
				}
			}
			r.HasCounted(0, 0, "")
			for _, service := range []schema.ServiceType{schema.Chat, schema.Embedding} {
				i := serving(r, service)[0]
				if left := r.Current.Load().Service(service).LimitSnapshot(time.Now(), 0).Remaining; left != 100 {
					t.Errorf("%s: %v of 100 are left", service, left)
				}
				if success, failed, cancelled := gatewaytest.Outcomes(i); i.Calls() != 0 || success+failed+cancelled != 0 {
					t.Errorf("%s: %d calls, outcomes %d %d %d", service, i.Calls(), success, failed, cancelled)
				}
			}
			if got := b.Stats().Arrived; got != 0 {
				t.Errorf("the backend got %d requests", got)
			}
			r.Chat(gatewaytest.PlainHi).Succeeds(t)
			if left := r.Current.Load().Service(schema.Chat).LimitSnapshot(time.Now(), 0).Remaining; left != 99 {
				t.Errorf("%v of 100 are left after a request that was answered", left)
			}
		})
	}
}

// A request that the limit refuses takes no turn of the balancer: the next request
// that is served goes to the other instance.
func TestRefusedRequestsTakeNoRoundRobinTurn(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {algorithm: sliding-window, capacity: 60, refill-rate: 1}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("m", b.URL())))
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	for r.ChatPool().Service.Limiter.Allow(netip.Addr{}, time.Now()).Allowed {
	}
	r.Chat(gatewaytest.PlainHi).IsOverLimit(t)
	r.ChangeChat(func(chat *config.Service) { chat.RateLimit.Enabled = false })
	r.Chat(gatewaytest.PlainHi).Succeeds(t)
	if a.Stats().Arrived != 1 || b.Stats().Arrived != 1 {
		t.Errorf("%d and %d requests", a.Stats().Arrived, b.Stats().Arrived)
	}
}

// Where one model has instances of several dialects, the request goes to one that
// can express it, in the first place and after a failure.
func TestInstancesThatCannotExpressARequestAreSkipped(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"round-robin", "random", "least-connections", "ip-hash"} {
		t.Run(strategy, func(t *testing.T) {
			foreign, plain := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: "+strategy+", "+gatewaytest.NoBreakerNoChecks,
				gatewaytest.Instance("m", foreign.URL(), "adapter: ollama"), gatewaytest.Instance("m", plain.URL())))
			for range 10 {
				if got := r.Chat(twoHi).Succeeds(t).Header.Get("X-Router-Attempts"); got != "1" {
					t.Errorf("%s attempts", got)
				}
			}
			if got := foreign.Stats().Arrived; got != 0 {
				t.Errorf("the foreign backend got %d requests", got)
			}
			plain.ScriptForever(simulator.Step{Status: http.StatusInternalServerError})
			answer := r.Chat(twoHi)
			answer.FailsWith(t, http.StatusInternalServerError, "api_error", "upstream_error", "")
			if got := answer.Header.Get("X-Router-Attempts"); got != "1" {
				t.Errorf("%s attempts", got)
			}
		})
	}
}

// As long as an unavailable instance could express the request, the reply is 503. Once
// only instances are left that cannot express it, it is 400.
func TestUnavailableInstancesThatCouldExpressARequestMakeIt503(t *testing.T) {
	t.Parallel()
	foreign, plain := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {algorithm: sliding-window, capacity: 100, refill-rate: 1}, circuit-breaker: {failure-threshold: 1}, "+gatewaytest.NoChecks,
		gatewaytest.Instance("m", foreign.URL(), "adapter: ollama"), gatewaytest.Instance("m", plain.URL())))
	plain.Script(simulator.Step{Status: http.StatusInternalServerError})
	r.Chat(twoHi).FailsWith(t, http.StatusInternalServerError, "api_error", "upstream_error", "")
	answer := r.Chat(twoHi)
	answer.FailsWith(t, http.StatusServiceUnavailable, "circuit_breaker_open", "circuit_breaker_open", "")
	if got := answer.Header.Get("X-Router-Attempts"); got != "0" {
		t.Errorf("%s attempts", got)
	}
	_, remaining, _ := r.Chat(gatewaytest.PlainHi).Succeeds(t).LimitOf(t)
	if remaining != 98 {
		t.Errorf("%d are left of 100 after one call that failed and one that did not", remaining)
	}
	r.ChangeChat(func(chat *config.Service) { chat.Instances[1].Enabled = false })
	r.Chat(twoHi).FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, "invalid_value", "n")
}

// A request that waits for the only instance that can express it does not keep other
// requests from the remaining instances.
func TestWaitingForOneDialectDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	foreign, g := gatewaytest.StartBackend(t), gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("queue: {size: 10, timeout: 1h}, "+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", g.URL, "max-concurrency: 1"), gatewaytest.Instance("m", foreign.URL(), "adapter: ollama", "max-concurrency: 1")))
	const twoStreamed = `{"model":"m","n":2,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	running := r.ChatLater(gatewaytest.Deadline(t), twoStreamed)
	<-g.Entered
	waits := []<-chan gatewaytest.Reply{r.ChatLater(gatewaytest.Deadline(t), twoStreamed), r.ChatLater(gatewaytest.Deadline(t), twoStreamed)}
	gatewaytest.Eventually(t, "two wait", func() bool { return r.ChatPool().Queue.Len() == 2 })
	for range 2 {
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	if got := foreign.Stats().Arrived; got != 2 {
		t.Errorf("the foreign backend got %d requests", got)
	}
	close(g.Open)
	for _, answer := range append(waits, running) {
		if events := gatewaytest.EventsOf(t, (<-answer).Succeeds(t).Body); gatewaytest.TextOf(t, events) != "first last" {
			t.Errorf("events %q", events)
		}
	}
}

// deepAudio is a request whose fault lies in a part of a message, which is found
// when the request is written in the backend's dialect.
const deepAudio = `{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"","format":"wav"}}]}]}`

// What is found only while the request is written costs nothing either, and
// another instance that has words for it gets the request.
func TestErrorsOfTranslationReturnWhatTheLimitsTook(t *testing.T) {
	t.Parallel()
	foreign, plain := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {algorithm: sliding-window, capacity: 100, refill-rate: 1}, "+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", foreign.URL(), "adapter: ollama", "max-concurrency: 1"))+gatewaytest.QuotaOn)
	for range 5 {
		answer := r.Chat(deepAudio)
		answer.FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, "invalid_value", "messages[0].content[0].type")
		if got := answer.Header.Get("X-Router-Attempts"); got != "0" {
			t.Errorf("%s attempts", got)
		}
	}
	r.HasCounted(0, 0, "")
	i := serving(r, schema.Chat)[0]
	if left := r.Current.Load().Service(schema.Chat).LimitSnapshot(time.Now(), 0).Remaining; left != 100 || i.InFlight() != 0 || i.Calls() != 0 {
		t.Errorf("%v of 100 are left, %d in flight, %d calls", left, i.InFlight(), i.Calls())
	}
	r.ChangeChat(func(chat *config.Service) {
		one := chat.Instances[0]
		one.BaseURL, one.Adapter = plain.URL(), "openai"
		chat.Instances = append(chat.Instances, one)
	})
	for range 4 {
		if got := r.Chat(deepAudio).Succeeds(t).Header.Get("X-Router-Attempts"); got != "1" {
			t.Errorf("%s attempts", got)
		}
	}
	if foreign.Stats().Arrived != 0 || plain.Stats().Arrived != 4 {
		t.Errorf("%d and %d requests", foreign.Stats().Arrived, plain.Stats().Arrived)
	}
}

// A request that the limit refuses is not written in the dialect of a backend,
// and one that the dialect has no words for is a 400 before the limit.
func TestNothingIsTranslatedBeforeTheLimit(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("rate-limit: {algorithm: sliding-window, capacity: 60, refill-rate: 1}, "+gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL(), "adapter: ollama")))
	for r.ChatPool().Service.Limiter.Allow(netip.Addr{}, time.Now()).Allowed {
	}
	r.Chat(deepAudio).IsOverLimit(t) // writing it would have told that it cannot be sent
	r.Chat(twoHi).FailsWith(t, http.StatusBadRequest, gatewaytest.InvalidRequest, "invalid_value", "n")
}
