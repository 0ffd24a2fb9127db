package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

const (
	twoHi    = `{"model":"m","n":2,"messages":[{"role":"user","content":"hi"}]}`
	tokenIDs = `{"model":"m","input":[[1,2],[3]]}`
)

// A request that the backend's dialect cannot express reaches nobody and costs
// nothing: no attempt, no place in the rate limit, none in the ledger.
func TestWhatADialectCannotExpressCostsNothing(t *testing.T) {
	for _, scope := range []string{"service", "model", "instance"} {
		t.Run(scope, func(t *testing.T) {
			b := startBackend(t)
			policy := "rate-limit: {algorithm: sliding-window, capacity: 100, refill-rate: 1, scope: " + scope + "}, " + quietOnes
			one := instance("m", b.URL(), "adapter: ollama")
			r := startGateway(t, fmt.Sprintf("services: {chat: {%s, instances: [%s]}, embedding: {%s, instances: [%s]}}\n", policy, one, policy, one)+quotaOn)
			for path, body := range map[string]string{"/v1/chat/completions": twoHi, "/v1/embeddings": tokenIDs} {
				for range 5 {
					answer := r.post(path, body)
					if answer.status != http.StatusBadRequest || faultOf(t, answer.body).Code != "invalid_value" {
						t.Fatalf("%s: %d %s", path, answer.status, answer.body)
					}
					if got := answer.header.Get("X-Router-Attempts"); got != "0" {
						t.Errorf("%s: %s attempts", path, got)
					}
				}
			}
			r.hasCounted(0, 0, "")
			for _, service := range []schema.ServiceType{schema.Chat, schema.Embedding} {
				i := r.serving(service)[0]
				if left := r.Current.Load().Service(service).LimitSnapshot(time.Now(), 0).Remaining; left != 100 {
					t.Errorf("%s: %v of 100 are left", service, left)
				}
				if success, failed, cancelled := outcomes(i); i.Calls() != 0 || success+failed+cancelled != 0 {
					t.Errorf("%s: %d calls, outcomes %d %d %d", service, i.Calls(), success, failed, cancelled)
				}
			}
			if got := b.Stats().Arrived; got != 0 {
				t.Errorf("the backend got %d requests", got)
			}
			r.chat(plainHi).succeeds(t)
			if left := r.Current.Load().Service(schema.Chat).LimitSnapshot(time.Now(), 0).Remaining; left != 99 {
				t.Errorf("%v of 100 are left after a request that was answered", left)
			}
		})
	}
}

// Whom the limit refuses had no turn at the balancer: the one that is served next
// goes to the other instance.
func TestRefusedRequestsTakeNoTurn(t *testing.T) {
	a, b := startBackend(t), startBackend(t)
	r := startGateway(t, policyYAML("rate-limit: {algorithm: sliding-window, capacity: 60, refill-rate: 1}, "+quietOnes, instance("m", a.URL()), instance("m", b.URL())))
	r.chat(plainHi).succeeds(t)
	for r.line().Service.Limiter.Allow(netip.Addr{}, time.Now()).Allowed {
	}
	r.chat(plainHi).isOverLimit(t)
	r.revise(func(chat *config.Service) { chat.RateLimit.Enabled = false })
	r.chat(plainHi).succeeds(t)
	if a.Stats().Arrived != 1 || b.Stats().Arrived != 1 {
		t.Errorf("%d and %d requests", a.Stats().Arrived, b.Stats().Arrived)
	}
}

// Where one model has instances of several dialects, the request goes to one that
// can express it, in the first place and after a failure.
func TestInstancesWithoutWordsForARequestArePassedOver(t *testing.T) {
	for _, strategy := range []string{"round-robin", "random", "least-connections", "ip-hash"} {
		t.Run(strategy, func(t *testing.T) {
			foreign, plain := startBackend(t), startBackend(t)
			r := startGateway(t, policyYAML("load-balancer: "+strategy+", "+quietOnes,
				instance("m", foreign.URL(), "adapter: ollama"), instance("m", plain.URL())))
			for range 10 {
				if got := r.chat(twoHi).succeeds(t).header.Get("X-Router-Attempts"); got != "1" {
					t.Errorf("%s attempts", got)
				}
			}
			if got := foreign.Stats().Arrived; got != 0 {
				t.Errorf("the foreign backend got %d requests", got)
			}
			plain.ScriptForever(simulator.Step{Status: http.StatusInternalServerError})
			answer := r.chat(twoHi)
			answer.failsWith(t, http.StatusInternalServerError, "api_error", "upstream_error", "")
			if got := answer.header.Get("X-Router-Attempts"); got != "1" {
				t.Errorf("%s attempts", got)
			}
		})
	}
}

// As long as one that could express it may come back, the request is not at
// fault; when nobody is left but those that cannot, it is.
func TestWhoCannotExpressARequestIsNoSubstitute(t *testing.T) {
	foreign, plain := startBackend(t), startBackend(t)
	r := startGateway(t, policyYAML("rate-limit: {capacity: 100}, circuit-breaker: {failure-threshold: 1}, "+noChecks,
		instance("m", foreign.URL(), "adapter: ollama"), instance("m", plain.URL())))
	plain.Script(simulator.Step{Status: http.StatusInternalServerError})
	r.chat(twoHi).failsWith(t, http.StatusInternalServerError, "api_error", "upstream_error", "")
	answer := r.chat(twoHi)
	answer.failsWith(t, http.StatusServiceUnavailable, "circuit_breaker_open", "circuit_breaker_open", "")
	if got := answer.header.Get("X-Router-Attempts"); got != "0" {
		t.Errorf("%s attempts", got)
	}
	_, remaining, _ := r.chat(plainHi).succeeds(t).limitOf(t)
	if remaining != 98 {
		t.Errorf("%d are left of 100 after one call that failed and one that did not", remaining)
	}
	r.revise(func(chat *config.Service) { chat.Instances[1].Enabled = false })
	r.chat(twoHi).failsWith(t, http.StatusBadRequest, invalidRequest, "invalid_value", "n")
}

// Who waits for the one instance that can express its request does not keep
// others from those that cannot.
func TestWhoWaitsForOneDialectHoldsNobodyUp(t *testing.T) {
	foreign, g := startBackend(t), startGate(t)
	r := startGateway(t, policyYAML("queue: {size: 10, timeout: 1h}, "+quietOnes,
		instance("m", g.url, "max-concurrency: 1"), instance("m", foreign.URL(), "adapter: ollama", "max-concurrency: 1")))
	const twoStreamed = `{"model":"m","n":2,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
	running := r.later(deadline(t), twoStreamed)
	<-g.entered
	waits := []<-chan reply{r.later(deadline(t), twoStreamed), r.later(deadline(t), twoStreamed)}
	eventually(t, "two wait", func() bool { return r.line().Queue.Len() == 2 })
	for range 2 {
		r.chat(plainHi).succeeds(t)
	}
	if got := foreign.Stats().Arrived; got != 2 {
		t.Errorf("the foreign backend got %d requests", got)
	}
	close(g.open)
	for _, answer := range append(waits, running) {
		if events := eventsOf(t, (<-answer).succeeds(t).body); textOf(t, events) != "first last" {
			t.Errorf("events %q", events)
		}
	}
}

// deepAudio is a request whose fault lies in a part of a message, which is found
// when the request is written in the backend's dialect.
const deepAudio = `{"model":"m","messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"","format":"wav"}}]}]}`

// What is found only while the request is written costs nothing either, and
// another instance that has words for it gets the request.
func TestWhatIsFoundWhileWritingCostsNothing(t *testing.T) {
	foreign, plain := startBackend(t), startBackend(t)
	r := startGateway(t, policyYAML("rate-limit: {algorithm: sliding-window, capacity: 100, refill-rate: 1}, "+quietOnes,
		instance("m", foreign.URL(), "adapter: ollama", "max-concurrency: 1"))+quotaOn)
	for range 5 {
		answer := r.chat(deepAudio)
		answer.failsWith(t, http.StatusBadRequest, invalidRequest, "invalid_value", "messages[0].content[0].type")
		if got := answer.header.Get("X-Router-Attempts"); got != "0" {
			t.Errorf("%s attempts", got)
		}
	}
	r.hasCounted(0, 0, "")
	i := r.serving(schema.Chat)[0]
	if left := r.Current.Load().Service(schema.Chat).LimitSnapshot(time.Now(), 0).Remaining; left != 100 || i.InFlight() != 0 || i.Calls() != 0 {
		t.Errorf("%v of 100 are left, %d in flight, %d calls", left, i.InFlight(), i.Calls())
	}
	r.revise(func(chat *config.Service) {
		one := chat.Instances[0]
		one.BaseURL, one.Adapter = plain.URL(), "openai"
		chat.Instances = append(chat.Instances, one)
	})
	for range 4 {
		if got := r.chat(deepAudio).succeeds(t).header.Get("X-Router-Attempts"); got != "1" {
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
	b := startBackend(t)
	r := startGateway(t, policyYAML("rate-limit: {algorithm: sliding-window, capacity: 60, refill-rate: 1}, "+quietOnes, instance("m", b.URL(), "adapter: ollama")))
	for r.line().Service.Limiter.Allow(netip.Addr{}, time.Now()).Allowed {
	}
	r.chat(deepAudio).isOverLimit(t) // writing it would have told that it cannot be sent
	r.chat(twoHi).failsWith(t, http.StatusBadRequest, invalidRequest, "invalid_value", "n")
}
