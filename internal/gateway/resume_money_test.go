package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// sayEvents is a stream that says three tokens, and then ends with this or breaks.
func sayEvents(end string) simulator.Step {
	var events strings.Builder
	for _, text := range []string{"a", " b", " c"} {
		fmt.Fprintf(&events, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", text)
	}
	return gatewaytest.EventStep(events.String() + end)
}

// endEvents are the end of a stream that reports 20 tokens of the prompt and 5 of the answer.
const endEvents = `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}}

data: [DONE]

`

// startResumed starts a gateway with two instances, of which the first is preferred, and a key
// with these members.
func startResumed(t *testing.T, members string) (r *gatewaytest.Gateway, a, b *simulator.Backend) {
	t.Helper()
	a, b = gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	yaml := gatewaytest.PolicyYAML("streams: {resume: continue}, "+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", a.URL(), "adapter: vllm"), gatewaytest.Instance("m", b.URL(), "adapter: vllm", "tier: 1"))
	yaml = strings.Replace(withKey(yaml, members), "enabled: true,", "enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("admin-token")+"}],", 1)
	return gatewaytest.Start(t, yaml+"prices: {models: [{model: '*', input: 1000, output: 2000}]}\nquota: {enabled: true}\n"), a, b
}

// spentOf returns what is used and reserved of the budgets of the key, in tokens and in
// millionths of the currency's unit, and what the ledger has counted.
func spentOf(t *testing.T, r *gatewaytest.Gateway) (tokens, cost, reserved int64, ledger usage) {
	t.Helper()
	var answer struct {
		Budgets []struct {
			Unit     string `json:"unit"`
			Used     int64  `json:"used"`
			Reserved int64  `json:"reserved"`
		} `json:"budgets"`
	}
	body := r.Do("GET", "/api/monitoring/budgets", "", "Authorization", "Bearer admin-token").Succeeds(t).Body
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Budgets) == 0 {
		t.Fatalf("%v: %s", err, body)
	}
	for _, one := range answer.Budgets {
		reserved += one.Reserved
		switch one.Unit {
		case "tokens":
			tokens += one.Used
		case "cost":
			cost += one.Used
		}
	}
	var counts struct {
		Data []struct {
			RequestCount int64 `json:"requestCount"`
			TokenCount   int64 `json:"tokenCount"`
			Cost         int64 `json:"cost"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(r.Do(http.MethodGet, gatewaytest.LongAgo, "", "Authorization", "Bearer admin-token").Succeeds(t).Body), &counts); err != nil {
		t.Fatal(err)
	}
	for _, u := range counts.Data {
		ledger.RequestCount += u.RequestCount
		ledger.TokenCount += u.TokenCount
		ledger.Cost += u.Cost
	}
	return tokens, cost, reserved, ledger
}

// Budgets, limits and the ledger are exact through any history of streams that are whole,
// that break and go on, and that break and end: both calls of one that goes on are paid, the
// client is told the tokens of one answer, and nothing stays reserved.
func TestStreamsThatGoOnArePaidExactly(t *testing.T) {
	t.Parallel()
	r, a, b := startResumed(t, "budgets: {day: {tokens: 1000000}, total: {cost: 1000}}, limits: {tokens-per-minute: 1000000}")
	ask := func(headers ...string) string {
		return r.Chat(`{"model":"m","stream":true,"max_tokens":50,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`, append(bearer("secret"), headers...)...).Succeeds(t).Body
	}
	type effect struct{ tokens, cost, ledgerTokens, ledgerCost int64 }
	run := func(kind int) effect {
		before, beforeCost, _, beforeLedger := spentOf(t, r)
		switch kind {
		case 0: // whole
			a.Script(sayEvents(endEvents))
			ask()
		case 1: // broken, and nobody goes on
			a.Script(sayEvents(""))
			ask("X-Router-Resume", "off")
		case 2:
			a.Script(sayEvents(""))
			b.Script(sayEvents(endEvents))
			body := ask()
			if strings.Count(body, `"content":`) != 6 || !strings.Contains(body, `"prompt_tokens":17,"completion_tokens":8,"total_tokens":25`) || !strings.Contains(body, ": resumed") {
				t.Fatalf("the stream does not go on: %s", body)
			}
		case 3: // the other one fails, too
			a.Script(sayEvents(""))
			b.Script(simulator.Step{Status: 503})
			ask()
		}
		after, afterCost, _, afterLedger := spentOf(t, r)
		return effect{after - before, afterCost - beforeCost, afterLedger.TokenCount - beforeLedger.TokenCount, afterLedger.Cost - beforeLedger.Cost}
	}
	whole, broken := run(0), run(1)
	if whole != (effect{25, 30_000, 25, 30_000}) || broken.tokens < 4 || broken.ledgerTokens != 0 {
		t.Fatalf("whole %+v, broken %+v", whole, broken)
	}
	want := [4]effect{whole, broken, {broken.tokens + 25, broken.cost + 30_000, 25, broken.cost + 30_000}, broken}
	random := rand.New(rand.NewPCG(7, 28))
	for n := range 60 {
		kind := random.IntN(4)
		if got := run(kind); got != want[kind] {
			t.Fatalf("request %d of kind %d: %+v, want %+v", n, kind, got, want[kind])
		}
	}
	_, _, reserved, ledger := spentOf(t, r)
	if reserved != 0 || ledger.RequestCount != 62 {
		t.Errorf("%d reserved, %d requests counted", reserved, ledger.RequestCount)
	}
}

// Where a budget or a limit has no room for the second call, the stream ends as it would
// without it.
func TestAStreamDoesNotGoOnWithoutRoomInTheBudget(t *testing.T) {
	t.Parallel()
	for name, members := range map[string]string{
		"tokens": "budgets: {day: {tokens: 90}}",
		"money":  "budgets: {total: {cost: 0.16}}",
		"limit":  "budgets: {day: {tokens: 1000}}, limits: {tokens-per-minute: 90}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, a, b := startResumed(t, members)
			a.Script(sayEvents(""))
			body := r.Chat(`{"model":"m","stream":true,"max_tokens":50,"messages":[{"role":"user","content":"hi"}]}`, bearer("secret")...).Succeeds(t).Body
			if !strings.Contains(body, "upstream_stream_truncated") || b.Stats().Arrived != 0 {
				t.Errorf("%d further calls: %s", b.Stats().Arrived, body)
			}
			if refused := gatewaytest.Sum(r.Scrape(), "model_router_budget_refused_requests_total"); refused != 0 {
				t.Errorf("%v requests count as refused", refused)
			}
			if tokens, _, reserved, _ := spentOf(t, r); reserved != 0 || name != "money" && tokens > 20 {
				t.Errorf("%d tokens used, %d reserved", tokens, reserved)
			}
		})
	}
}

// What was reserved for an instance that was to go on with a stream and failed is free for the
// next one.
func TestACallThatFailsToGoOnGivesItsReservationBack(t *testing.T) {
	t.Parallel()
	for name, members := range map[string]string{
		"tokens": "budgets: {day: {tokens: 140}}",
		"money":  "budgets: {total: {cost: 0.27}}",
		"limit":  "budgets: {day: {tokens: 1000}}, limits: {tokens-per-minute: 140}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b, c := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			yaml := gatewaytest.PolicyYAML("streams: {resume: continue}, "+gatewaytest.NoBreakerNoChecks,
				gatewaytest.Instance("m", a.URL(), "adapter: vllm"), gatewaytest.Instance("m", b.URL(), "adapter: vllm", "tier: 1"), gatewaytest.Instance("m", c.URL(), "adapter: vllm", "tier: 2"))
			r := gatewaytest.Start(t, withKey(yaml, members)+"limits: {max-attempts: 3}\nprices: {models: [{model: '*', input: 1000, output: 2000}]}\n")
			a.Script(sayEvents(""))
			b.Script(simulator.Step{Status: 500})
			c.Script(sayEvents(endEvents))
			body := r.Chat(streamThree, bearer("secret")...).Succeeds(t).Body
			if b.Stats().Arrived != 1 || c.Stats().Arrived != 1 || !strings.Contains(body, "[DONE]") {
				t.Errorf("%d and %d further calls: %s", b.Stats().Arrived, c.Stats().Arrived, body)
			}
		})
	}
}

// A model that was to go on with a stream, and was not called, is not counted in its limit: that
// of the model whose answer it is counts the request.
func TestALimitCountsTheModelThatWasCalled(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	yaml := gatewaytest.PolicyYAML("rate-limit: {algorithm: sliding-window, scope: model, capacity: 3600, refill-rate: 1}, streams: {resume: continue, resume-fallbacks: true}, fallbacks: {m: [other]}, "+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", a.URL(), "adapter: vllm"), gatewaytest.Instance("other", b.URL(), "adapter: vllm"))
	limiter := func(r *gatewaytest.Gateway, model string) int {
		return r.Current.Load().Service(schema.Chat).Find(model).Limiter.Peek(netip.MustParseAddr("127.0.0.1"), time.Now()).Remaining
	}
	r := gatewaytest.Start(t, withKey(yaml, "budgets: {day: {tokens: 90}}"))
	before := limiter(r, "m")
	a.Script(sayEvents(""))
	if body := r.Chat(streamThree, bearer("secret")...).Succeeds(t).Body; !strings.Contains(body, "upstream_stream_truncated") || b.Stats().Arrived != 0 {
		t.Fatalf("%d calls of the other model: %s", b.Stats().Arrived, body)
	}
	if own, other := limiter(r, "m"), limiter(r, "other"); own != before-1 || other != before {
		t.Errorf("the limits have %d and %d of %d left", own, other, before)
	}
}
