package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// agentYAML has a model at these prices for a million tokens, with what an agent may spend.
func agentYAML(b *simulator.Backend, input, output int, rest string) string {
	return gatewaytest.PoolYAML(b) + fmt.Sprintf("prices: {models: [{model: m, input: %d, output: %d}]}\n", input, output) + rest
}

// agentCall is a call as Claude Code makes it, which asks for 32,000 tokens and gets 600.
const agentCall = `{"model":"m","max_tokens":32000,"messages":[{"role":"user","content":"go on"}]}`

func answerOf600(b *simulator.Backend) {
	b.ScriptForever(simulator.Step{Text: "hi", UsageValue: `{"prompt_tokens":4000,"completion_tokens":600,"total_tokens":4600}`})
}

// With likely reservations an agent uses its limit up but for less than two likely calls, and
// exceeds it by nothing; with most it stops while more than one answer of 32,000 tokens is left.
func TestAnAgentUsesItsLimitUp(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "runs")
	const limit, perCall = 1.0, 4000*3e-6 + 600*15e-6
	for name, test := range map[string]struct {
		settings    string
		least, most float64
	}{
		"a run, by default":   {"runs: {enabled: true, limits: {cost: 1}}\n", limit - 2*0.04, limit},
		"a run, most":         {"runs: {enabled: true, reserve: most, limits: {cost: 1}}\n", 0.4, limit - 0.48 + perCall},
		"a budget, likely":    {gatewaytest.SecuredYAML() + "quota: {reserve: likely}\n", limit - 2*0.04, limit},
		"a budget by default": {gatewaytest.SecuredYAML(), 0.4, limit - 0.48 + perCall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gatewaytest.StartBackend(t)
			answerOf600(b)
			settings := strings.Replace(test.settings, "security: {", "security: {keys: [{id: k, key-sha256: "+gatewaytest.HashOf("k")+", budgets: {total: {cost: 1}}}], ", 1)
			r := gatewaytest.Start(t, agentYAML(b, 3, 15, settings))
			used := 0.0
			for n := range 100 {
				reply := r.Do(http.MethodPost, "/v1/chat/completions", agentCall, append(bearer("k"), "X-Router-Run", "task")...)
				if reply.Status != http.StatusOK {
					if reply.Status == http.StatusTooManyRequests && strings.Contains(reply.Body, "budget_reserved") {
						t.Fatalf("call %d: got a refusal that passes: %s", n, reply.Body)
					}
					break
				}
				used += perCall
			}
			if used < test.least || used > test.most {
				t.Errorf("got %.3f used of %v, want %.3f to %.3f", used, limit, test.least, test.most)
			}
		})
	}
}

// The first call of a run is made although the answer that it asks for costs more than the limit,
// and a refusal tells what the call would reserve.
func TestTheFirstCallOfADearModelIsMade(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "runs")
	b := gatewaytest.StartBackend(t)
	answerOf600(b)
	r := gatewaytest.Start(t, agentYAML(b, 15, 75, "runs: {enabled: true, limits: {cost: 0.4}}\n"))
	ask := func() gatewaytest.Reply {
		return r.Do(http.MethodPost, "/v1/chat/completions", agentCall, "X-Router-Run", "task")
	}
	for range 3 { // 0.105 each; without a known answer a call reserves 4096 tokens, 0.307
		ask().Succeeds(t)
	}
	reply := ask() // 1200 tokens are likely, 0.09
	reply.FailsWith(t, http.StatusBadRequest, "invalid_request_error", "run_limit_reached", "")
	if !strings.Contains(reply.Body, `"wanted":0.090`) {
		t.Errorf("got %s, want wanted to be the likely use of 1200 tokens", reply.Body)
	}
}
