package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// startFallbacks starts a gateway with the models free, zero, cheap, dear and spare, of which
// dear takes over from the ones before it, and spare from dear. A key, k, has a budget of
// this cost. All answer a thousand tokens, for which cheap costs 0.001 and dear 0.1.
func startFallbacks(t *testing.T, cost string) (*gatewaytest.Gateway, map[string]*simulator.Backend) {
	t.Helper()
	backends := map[string]*simulator.Backend{}
	var instances []string
	for _, model := range []string{"free", "zero", "cheap", "dear", "spare"} {
		backends[model] = gatewaytest.StartBackend(t)
		backends[model].ScriptForever(answer(0, 1000))
		instances = append(instances, gatewaytest.Instance(model, backends[model].URL()))
	}
	yaml := strings.Replace(gatewaytest.ChatYAML(instances...), "chat: {", "chat: {fallbacks: {free: [dear], zero: [dear], cheap: [dear], dear: [spare]}, ", 1)
	yaml += "prices: {models: [{model: zero, input: 0}, {model: cheap, output: 1}, {model: dear, output: 100}]}\n"
	return gatewaytest.Start(t, budgeted(yaml, map[string]string{"k": ", budgets: {total: {cost: " + cost + "}}"})), backends
}

// thousandTokens is a request for an answer of so many.
func thousandTokens(model string) string {
	return `{"model":"` + model + `","max_tokens":1000,"messages":[{"role":"user","content":"hi"}]}`
}

// Requests that a dearer model takes over do not pass a budget together: they reserve what
// the dearest model costs that may serve them.
func TestFallbacksDoNotPassABudget(t *testing.T) {
	t.Parallel()
	for _, asked := range []string{"free", "zero", "cheap"} {
		t.Run(asked, func(t *testing.T) {
			t.Parallel()
			r, backends := startFallbacks(t, "1")
			backends[asked].ScriptForever(simulator.Step{Status: http.StatusServiceUnavailable})
			var answered atomic.Int64
			var clients sync.WaitGroup
			for range 8 {
				clients.Go(func() {
					for range 5 {
						if r.TryChat(gatewaytest.Deadline(t), thousandTokens(asked), bearer("k")...).Status == http.StatusOK {
							answered.Add(1)
						}
					}
				})
			}
			clients.Wait()
			if n := answered.Load(); n < 1 || n > 10 || usedOf(t, r, "key/k", "cost") != n*100_000 {
				t.Errorf("%d requests of 0.1 passed a budget of 1, of which %d are used", n, usedOf(t, r, "key/k", "cost"))
			}
		})
	}
}

// A budget of money that is spent stops neither a model that costs nothing, nor one for which
// there is enough; but a dearer one does not take over from it any more.
func TestASpentBudgetOfMoneyDoesNotStopFreeModels(t *testing.T) {
	t.Parallel()
	r, backends := startFallbacks(t, "0.201")
	got := func(model string) string {
		reply := r.Chat(thousandTokens(model), bearer("k")...)
		if reply.Status == http.StatusOK {
			return "200 " + reply.Header.Get("X-Router-Model")
		}
		return fmt.Sprint(reply.Status, " ", gatewaytest.ErrorOf(t, reply.Body).Code)
	}
	expect := func(when, model, want string) {
		t.Helper()
		if found := got(model); found != want {
			t.Errorf("%s, %s: %s, want %s", when, model, found, want)
		}
	}
	fail := simulator.Step{Status: http.StatusServiceUnavailable}
	backends["free"].Script(fail)
	expect("with money", "free", "200 dear")
	expect("with money", "free", "200 ")
	expect("with money", "dear", "200 ") // 0.001 is left
	expect("with little money", "dear", "429 budget_exceeded")
	expect("with little money", "cheap", "200 ") // although dear might have taken over
	expect("without money", "cheap", "429 budget_exceeded")
	before := len(backends["dear"].Requests())
	for _, model := range []string{"free", "zero"} {
		expect("without money", model, "200 ")
		backends[model].Script(fail)
		expect("without money, failing", model, "503 upstream_error")
		expect("without money", model, "200 ")
	}
	// A budget that is spent is no reason for which a fallback takes over.
	expect("without money", "dear", "429 budget_exceeded")
	if after := len(backends["dear"].Requests()); after != before {
		t.Errorf("%d requests went to a model for which there was no money", after-before)
	}
	if used := usedOf(t, r, "key/k", "cost"); used != 201_000 {
		t.Errorf("%d are used", used)
	}
	if refused := r.Scrape()[`model_router_budget_refused_requests_total{of="key/k",unit="cost",window="TOTAL"}`]; refused != 3 {
		t.Errorf("%v requests count as refused, and 3 were", refused)
	}
}

// What a fallback costs is counted also where the model that was asked for has no price.
func TestAFallbackOfAFreeModelHasItsCost(t *testing.T) {
	t.Parallel()
	failing, dear := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	failing.ScriptForever(simulator.Step{Status: http.StatusServiceUnavailable})
	dear.ScriptForever(answer(0, 1000))
	yaml := strings.Replace(gatewaytest.ChatYAML(gatewaytest.Instance("free", failing.URL()), gatewaytest.Instance("dear", dear.URL())), "chat: {", "chat: {fallbacks: {free: [dear]}, ", 1)
	r := gatewaytest.Start(t, yaml+gatewaytest.QuotaOn+"prices: {models: [{model: dear, output: 100}]}\n")
	r.Chat(`{"model":"free","messages":[{"role":"user","content":"hi"}]}`).Succeeds(t)
	if got := counted(t, r); got.Cost != 100_000 {
		t.Errorf("counted %+v", got)
	}
}

// A model that cannot take a request now is passed over also where there is no money for it:
// what takes over from it is free.
func TestAFreeFallbackServesWithoutMoney(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.StartBackend(t)
	yaml := strings.Replace(gatewaytest.ChatYAML(gatewaytest.Instance("dear", backend.URL(), "enabled: false"), gatewaytest.Instance("free", backend.URL())), "chat: {", "chat: {fallbacks: {dear: [free]}, ", 1)
	yaml += "prices: {models: [{model: dear, output: 100}]}\n"
	r := gatewaytest.Start(t, budgeted(yaml, map[string]string{"k": ", budgets: {total: {cost: 0.0001}}"}))
	if got := r.Chat(thousandTokens("dear"), bearer("k")...).Succeeds(t).Header.Get("X-Router-Model"); got != "free" {
		t.Errorf("served by %q", got)
	}
}
