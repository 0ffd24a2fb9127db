package proxy_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// fallbackYAML has the model m with these instances, and n that takes over from it.
func fallbackYAML(policy, spare string, urls ...string) string {
	var list []string
	for _, url := range urls {
		list = append(list, gatewaytest.Instance("m", url))
	}
	list = append(list, gatewaytest.Instance("n", spare))
	return gatewaytest.PolicyYAML("fallbacks: {m: [n]}, "+policy+gatewaytest.NoBreakerNoChecks, list...)
}

func servedBy(t *testing.T, reply gatewaytest.Reply, model, attempts string) {
	t.Helper()
	reply.Succeeds(t)
	if got := reply.Header.Get("X-Router-Model"); got != model {
		t.Errorf("x-router-model %q, want %q", got, model)
	}
	if got := reply.Header.Get("X-Router-Attempts"); got != attempts {
		t.Errorf("%s attempts, want %s", got, attempts)
	}
	if !strings.Contains(reply.Body, `"model":"m"`) {
		t.Errorf("the reply has not the name that was asked for: %s", reply.Body)
	}
}

// A model whose instances all fail is served by its fallback, after as many attempts as
// one model may have; the ledger and the metrics count what served.
func TestFallbackTakesOverWhenEveryInstanceFails(t *testing.T) {
	t.Parallel()
	a, b, spare := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, fallbackYAML("", spare.URL(), a.URL(), b.URL())+"quota: {enabled: true}\n")
	servedBy(t, r.Chat(gatewaytest.PlainHi), "", "1")
	a.ScriptForever(simulator.Step{Status: 503})
	b.ScriptForever(simulator.Step{Reset: true})
	servedBy(t, r.Chat(gatewaytest.PlainHi), "n", "3")
	if sent := string(spare.Requests()[0].Body); !strings.Contains(sent, `"model":"n"`) {
		t.Errorf("the fallback got %s", sent)
	}
	events, err := r.Stream(gatewaytest.Deadline(t), gatewaytest.StreamHi).Rest()
	if err != nil || !strings.Contains(events[0], `"model":"m"`) {
		t.Errorf("a stream: %v %v", events, err)
	}
	for model, want := range map[string]int64{"m": 1, "n": 2} {
		if got, _ := gatewaytest.Counted(t, func() gatewaytest.Reply { return r.Do(http.MethodGet, gatewaytest.LongAgo+"&model="+model, "") }); got != want {
			t.Errorf("the ledger has %d requests of %s, want %d", got, model, want)
		}
	}
	samples := r.Scrape()
	if got := gatewaytest.Sum(samples, "model_router_fallbacks_total", `reason="unavailable"`); got != 2 {
		t.Errorf("%v fallbacks are counted", got)
	}
	label := `instance="n@` + strings.TrimPrefix(spare.URL(), "http://") + `"`
	if got := gatewaytest.Sum(samples, "model_router_requests_total", label, `status="success"`); got != 2 {
		t.Errorf("%v successes of the fallback are counted", got)
	}
	// Where the fallback fails as well, the reply has the last failure, and the request is
	// counted once.
	spare.ScriptForever(simulator.Step{Status: 500})
	reply := r.Chat(gatewaytest.PlainHi)
	reply.FailsWith(t, 500, "api_error", "upstream_error", "")
	if reply.Header.Get("X-Router-Model") != "n" {
		t.Errorf("headers %v", reply.Header)
	}
	if all, _ := gatewaytest.Counted(t, func() gatewaytest.Reply { return r.Do(http.MethodGet, gatewaytest.LongAgo, "") }); all != 4 {
		t.Errorf("the ledger has %d requests, want 4", all)
	}
}

func TestFallbackTakesOverFromAModelWithoutInstancesThatAreReady(t *testing.T) {
	t.Parallel()
	a, spare := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, fallbackYAML("", spare.URL(), a.URL()))
	r.ChangeChat(func(s *config.Service) { s.Instances[0].Enabled = false })
	servedBy(t, r.Chat(gatewaytest.PlainHi), "n", "1")
	x := gatewaytest.DataOf[any](t, r.API(http.MethodGet, "/api/route/explain?service=chat&model=m", ""))
	if gatewaytest.At(t, x, "servedModel") != "n" || gatewaytest.At(t, x, "passedOver/0/model") != "m" || gatewaytest.At(t, x, "refusal") != nil {
		t.Errorf("explain: %v", x)
	}
	r.ChangeChat(func(s *config.Service) { s.Instances[1].Enabled = false })
	reply := r.Chat(gatewaytest.PlainHi)
	reply.FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
	if !strings.Contains(reply.Body, `the model \"m\"`) || reply.Header.Get("X-Router-Model") != "" {
		t.Errorf("the error is not that of the model that was asked for: %v %s", reply.Header, reply.Body)
	}
	r.ChangeChat(func(s *config.Service) { s.Instances[1].Enabled, s.FallbackOn = true, nil })
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 503, "service_unavailable", "service_unavailable", "")
}

// A full model hands over at once; where the fallback is full too, the request waits for
// the model that was asked for.
func TestFallbackTakesOverFromAFullModelBeforeAnybodyQueues(t *testing.T) {
	t.Parallel()
	held, spare := gatewaytest.StartHeldBackend(t), gatewaytest.StartHeldBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("fallbacks: {m: [n]}, queue: {size: 5, timeout: 10m}, "+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", held.URL, "max-concurrency: 1"), gatewaytest.Instance("n", spare.URL, "max-concurrency: 1")))
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	defer cancel()
	var all []<-chan gatewaytest.Reply
	all = append(all, r.ChatLater(ctx, gatewaytest.StreamHi))
	<-held.Entered
	all = append(all, r.ChatLater(ctx, gatewaytest.StreamHi))
	<-spare.Entered
	all = append(all, r.ChatLater(ctx, gatewaytest.StreamHi, "X-Request-Id", "the-one-that-waits"))
	gatewaytest.Eventually(t, "the third one waits for the model", func() bool { return r.ChatPool().Queue.Len() == 1 })
	held.Open <- struct{}{}
	if id := <-held.Entered; id != "the-one-that-waits" {
		t.Errorf("the slot went to %q", id)
	}
	cancel()
	for _, done := range all {
		<-done
	}
	if got := gatewaytest.Sum(r.Scrape(), "model_router_fallbacks_total", `reason="overloaded"`); got != 1 {
		t.Errorf("%v fallbacks for want of room", got)
	}
	if got := gatewaytest.Sum(r.Scrape(), "model_router_shed_requests_total"); got != 0 {
		t.Errorf("%v requests are counted as shed", got)
	}
}

// A request that is too long for a model goes to the fallback, if the setting says so, and
// is no failure of the instance. Any other 4xx does not.
func TestFallbackTakesOverWhenTheContextIsTooLong(t *testing.T) {
	t.Parallel()
	tooLong := simulator.Step{Status: 400, Body: `{"error":{"message":"too many tokens","type":"invalid_request_error","code":"context_length_exceeded"}}`}
	a, spare := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, fallbackYAML("", spare.URL(), a.URL()))
	a.ScriptForever(tooLong)
	for range 30 { // more than the retry budget would allow
		servedBy(t, r.Chat(gatewaytest.PlainHi), "n", "2")
	}
	if _, failures, _ := gatewaytest.Outcomes(r.Instances("m")[0]); failures != 0 {
		t.Errorf("%d failures of an instance that is well", failures)
	}
	spare.ScriptForever(tooLong)
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 400, "invalid_request_error", "context_length_exceeded", "")
	spare.ScriptForever(simulator.Step{})
	a.ScriptForever(simulator.Step{Status: 400, Body: `{"error":{"message":"no such tool"}}`})
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 400, "invalid_request_error", "upstream_error", "")
	r.API(http.MethodPut, "/api/config/type/services/chat", `{"fallbackOn":["unavailable","overloaded"]}`).Is(t, 200)
	a.ScriptForever(tooLong)
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 400, "invalid_request_error", "context_length_exceeded", "")
}

// A backend that says it has too much to do is overloaded, not unavailable.
func TestFallbackReasonsAreToldApart(t *testing.T) {
	t.Parallel()
	a, spare := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, fallbackYAML("fallback-on: [overloaded], ", spare.URL(), a.URL()))
	a.ScriptForever(simulator.Step{Status: 429})
	servedBy(t, r.Chat(gatewaytest.PlainHi), "n", "2")
	a.ScriptForever(simulator.Step{Status: 500})
	r.Chat(gatewaytest.PlainHi).FailsWith(t, 500, "api_error", "upstream_error", "")
}

func TestFallbacksThatAKeyMayNotUseAreSkipped(t *testing.T) {
	t.Parallel()
	a, b, c := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	a.ScriptForever(simulator.Step{Status: 503})
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("fallbacks: {m: [n, o]}, "+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", a.URL()), gatewaytest.Instance("n", b.URL()), gatewaytest.Instance("o", c.URL()))+
		keysYAML("all", `"*"`, "some", "m, o", "one", "m"))
	for key, want := range map[string]string{"all": "n", "some": "o"} {
		if got := r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer "+key).Succeeds(t).Header.Get("X-Router-Model"); got != want {
			t.Errorf("the key %s is served by %q, want %q", key, got, want)
		}
	}
	r.Chat(gatewaytest.PlainHi, "Authorization", "Bearer one").FailsWith(t, 503, "api_error", "upstream_error", "")
}

// Fallbacks do not multiply the load of an outage: once every instance has failed, second
// attempts are kept in proportion to the traffic, whichever model they are at.
func TestTotalOutageIsNotAmplifiedByFallbacks(t *testing.T) {
	t.Parallel()
	const callers = 100
	each, isMeasured := callsInAnOutage()
	var all []*simulator.Backend
	var list []string
	for _, model := range []string{"m", "m", "n", "n", "o", "o"} {
		b := gatewaytest.StartBackend(t)
		all = append(all, b)
		list = append(list, gatewaytest.Instance(model, b.URL()))
	}
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("fallbacks: {m: [n, o]}, "+gatewaytest.NoBreakerNoChecks, list...))
	for range 200 { // before the outage all was well
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
	}
	before := 0
	for _, b := range all {
		before += b.Stats().Arrived
		b.ScriptForever(simulator.Step{Status: 503})
	}
	first := r.Chat(gatewaytest.PlainHi) // nothing is known to be wrong yet
	if first.Header.Get("X-Router-Attempts") != "6" {
		t.Errorf("the first request of the outage had %s attempts, want two at each model", first.Header.Get("X-Router-Attempts"))
	}
	before += 6
	ctx := gatewaytest.Deadline(t)
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for range each {
				if reply := r.TryChat(ctx, gatewaytest.PlainHi); reply.Status != 503 {
					t.Errorf("status %d, %v", reply.Status, reply.Err)
				}
			}
		})
	}
	running.Wait()
	attempts := -before
	for _, b := range all {
		attempts += b.Stats().Arrived
	}
	if isMeasured {
		amplified(t, attempts, callers, each)
	}
}

func TestFallbacksAreManaged(t *testing.T) {
	t.Parallel()
	a, spare := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, fallbackYAML("", spare.URL(), a.URL()))
	const path = "/api/config/type/services/chat"
	r.API(http.MethodGet, path, "").Is(t, 200, `"fallbacks":{"m":["n"]}`, `"fallbackOn":["unavailable","overloaded","context"]`)
	r.API(http.MethodPut, path, `{"fallbacks":{"m":["x"]}}`).Is(t, 400, `fallbacks[\"m\"][0]`, `no instance has the name \"x\"`)
	r.API(http.MethodPut, path, `{"fallbackOn":["always"]}`).Is(t, 400, "fallbackOn[0]", "unavailable, overloaded, context")
	r.API(http.MethodPut, path, `{"fallbacks":{"n":["m"]},"fallbackOn":["context"]}`).Is(t, 200)
	r.API(http.MethodPost, "/api/config/version/rollback/1", "").Is(t, 200)
	r.API(http.MethodGet, path, "").Is(t, 200, `"fallbacks":{"m":["n"]}`, `"fallbackOn":["unavailable","overloaded","context"]`)
}
