package gateway_test

import (
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const streamThree = `{"model":"m","stream":true,"max_tokens":50,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`

// Of a stream that breaks and goes on and breaks again, both calls are paid as far as they
// came, and nothing stays reserved.
func TestStreamsThatBreakTwiceArePaidExactly(t *testing.T) {
	t.Parallel()
	r, a, b := startResumed(t, "budgets: {day: {tokens: 1000000}, total: {cost: 1000}}")
	a.Script(sayEvents(""))
	r.Chat(streamThree, append(bearer("secret"), "X-Router-Resume", "off")...).Succeeds(t)
	once, onceCost, _, _ := spentOf(t, r)
	a.Script(sayEvents(""))
	b.Script(sayEvents(""))
	body := r.Chat(streamThree, bearer("secret")...).Succeeds(t).Body
	if strings.Count(body, `"content":`) != 6 || !strings.Contains(body, "upstream_stream_truncated") || strings.Contains(body, "[DONE]") {
		t.Fatalf("%s", body)
	}
	tokens, cost, reserved, ledger := spentOf(t, r)
	const sent = 3 // of the first call, which are part of the prompt of the second
	if got, want := tokens-once, 2*once+sent; got != want {
		t.Errorf("%d tokens, want %d", got, want)
	}
	if got, want := cost-onceCost, 2*onceCost+sent*1000; got != want {
		t.Errorf("it cost %d, want %d", got, want)
	}
	if reserved != 0 || ledger.RequestCount != 2 || ledger.Cost != cost {
		t.Errorf("%d reserved, the ledger has %+v, the budget %d", reserved, ledger, cost)
	}
}

// A fallback model that goes on costs its own price, and the first call that of its model.
func TestFallbacksThatGoOnCostTheirOwnPrice(t *testing.T) {
	t.Parallel()
	a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	yaml := gatewaytest.PolicyYAML("streams: {resume: continue, resume-fallbacks: true}, fallbacks: {m: [other]}, "+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", a.URL(), "adapter: vllm"), gatewaytest.Instance("other", b.URL(), "adapter: vllm"))
	yaml = strings.Replace(withKey(yaml, "budgets: {total: {cost: 1000}}"), "enabled: true,", "enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("admin-token")+"}],", 1)
	r := gatewaytest.Start(t, yaml+"prices: {models: [{model: m, input: 1000, output: 2000}, {model: other, input: 10, output: 20}]}\nquota: {enabled: true}\n")
	a.Script(sayEvents(""))
	r.Chat(streamThree, append(bearer("secret"), "X-Router-Resume", "off")...).Succeeds(t)
	_, once, _, _ := spentOf(t, r)
	a.Script(sayEvents(""))
	b.Script(sayEvents(endEvents))
	if body := r.Chat(streamThree, bearer("secret")...).Succeeds(t).Body; !strings.Contains(body, ": resumed") || !strings.Contains(body, "[DONE]") {
		t.Fatalf("%s", body)
	}
	_, cost, reserved, ledger := spentOf(t, r)
	const second = 20*10 + 5*20 // what it reports
	if cost-once != once+second || reserved != 0 || ledger.Cost != cost || ledger.RequestCount != 2 {
		t.Errorf("it cost %d, want %d and %d; %d reserved, the ledger has %+v", cost-once, once, second, reserved, ledger)
	}
}

// An answer that went on is not kept, because its text may be another one than that of an
// uninterrupted answer. Those who share the call get all of it.
func TestAnswersThatWentOnAreSharedAndNotKept(t *testing.T) {
	t.Parallel()
	const ask = `{"model":"m","stream":true,"temperature":0,"messages":[{"role":"user","content":"hi"}]}`
	rest := sayEvents(endEvents)
	rest.HeaderDelay = 2 * time.Second // for the follower to come
	a, b := gatewaytest.StartBackend(t, sayEvents("")), gatewaytest.StartBackend(t, rest)
	r := gatewaytest.Start(t, "answer-cache: {services: [chat], ttl: 1h, single-flight: true}\n"+gatewaytest.PolicyYAML("streams: {resume: continue}, "+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", a.URL(), "adapter: vllm"), gatewaytest.Instance("m", b.URL(), "adapter: vllm", "tier: 1")))
	first := r.ChatLater(gatewaytest.Deadline(t), ask)
	gatewaytest.Eventually(t, "the other instance is called", func() bool { return b.Stats().Arrived == 1 })
	follower := r.Chat(ask).Succeeds(t)
	leader := <-first
	if !strings.Contains(leader.Body, ": resumed") || strings.Count(leader.Body, `"content":`) != 6 {
		t.Fatalf("%s", leader.Body)
	}
	want := strings.Join(strings.Split(leader.Body, ": resumed attempt=2 how=continued\n\n"), "")
	if follower.Header.Get("X-Router-Cache") != "shared" || follower.Body != want {
		t.Errorf("%s: the follower has\n%s\nwant\n%s", follower.Header.Get("X-Router-Cache"), follower.Body, want)
	}
	if got := r.Chat(ask).Succeeds(t).Header.Get("X-Router-Cache"); got != "miss" {
		t.Errorf("the next one is a %s", got)
	}
}

// A backend that answers at once although a stream was asked for goes on, too.
func TestAWholeAnswerGoesOnWithAStream(t *testing.T) {
	t.Parallel()
	r, a, b := startResumed(t, "budgets: {day: {tokens: 1000000}}")
	a.Script(sayEvents(""))
	b.Script(simulator.Step{Body: `{"id":"b","object":"chat.completion","created":2,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":" d e"},"finish_reason":"stop"}],"usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25}}`})
	body := r.Chat(streamThree, bearer("secret")...).Succeeds(t).Body
	if !strings.Contains(body, `"content":" d e"`) || !strings.Contains(body, `"finish_reason":"stop"`) || !strings.Contains(body, `"prompt_tokens":17,"completion_tokens":8,"total_tokens":25`) || !strings.HasSuffix(body, "data: [DONE]\n\n") || strings.Contains(body, `"id":"b"`) {
		t.Errorf("%s", body)
	}
	if _, _, reserved, _ := spentOf(t, r); reserved != 0 {
		t.Errorf("%d reserved", reserved)
	}
}
