package gateway_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// promptEvents is a stream that says three tokens, reports 20 tokens of its prompt on the way,
// and breaks.
func promptEvents() simulator.Step {
	step := sayEvents("")
	step.Body = strings.ReplaceAll(step.Body, `"finish_reason":null}]}`, `"finish_reason":null}],"usage":{"prompt_tokens":20,"completion_tokens":1,"total_tokens":21}}`)
	return step
}

// A stream that breaks costs what the model costs that made its tokens, also where another
// model was to go on with it and did not, and the record names that model.
func TestABrokenStreamCostsThePriceOfTheModelThatMadeIt(t *testing.T) {
	t.Parallel()
	failing := simulator.Step{Status: 500, Body: `{"error":{"message":"broken"}}`}
	thinking := gatewaytest.EventStep(`data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"reasoning_content":"Hm"}}]}` + "\n\n" + endEvents)
	reporting := gatewaytest.EventStep(`data: {"error":{"message":"out of memory","code":500}}` + "\n\n")
	for name, test := range map[string]struct {
		members string
		broken  simulator.Step
		other   []simulator.Step // how the model that is to take over answers
		called  int              // how often that is called
		isCheap bool             // whether the model that was asked for is the cheap one
		twice   bool             // whether it has a second instance, which breaks as well
	}{
		"no room for tokens":          {"budgets: {day: {tokens: 90}}", sayEvents(""), nil, 0, false, false},
		"no room in a limit":          {"budgets: {day: {tokens: 1000}}, limits: {tokens-per-minute: 90}", sayEvents(""), nil, 0, false, false},
		"an error":                    {"budgets: {total: {cost: 1000}}", sayEvents(""), []simulator.Step{failing}, 1, false, false},
		"an error in the stream":      {"budgets: {total: {cost: 1000}}", sayEvents(""), []simulator.Step{reporting}, 1, false, false},
		"usage reported before":       {"budgets: {total: {cost: 1000}}", promptEvents(), []simulator.Step{reporting}, 1, false, false},
		"a reset":                     {"budgets: {total: {cost: 1000}}", sayEvents(""), []simulator.Step{{Stop: simulator.StopReset}}, 1, false, false},
		"a dearer model fails":        {"budgets: {total: {cost: 1000}}", sayEvents(""), []simulator.Step{failing}, 1, true, false},
		"twice, then no room":         {"budgets: {day: {tokens: 140}}", sayEvents(""), nil, 0, true, true},
		"twice, then an error":        {"budgets: {total: {cost: 1000}}", sayEvents(""), []simulator.Step{failing}, 1, false, true},
		"another answer":              {"budgets: {total: {cost: 1000}}", sayEvents(""), []simulator.Step{thinking}, 1, false, false},
		"twice, then one that breaks": {"budgets: {total: {cost: 1000}}", sayEvents(""), []simulator.Step{sayEvents("")}, 1, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, second, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			list := []string{gatewaytest.Instance("m", a.URL(), "adapter: vllm"), gatewaytest.Instance("other", b.URL(), "adapter: vllm")}
			if test.twice {
				list = append(list, gatewaytest.Instance("m", second.URL(), "adapter: vllm", "tier: 1"))
			}
			yaml := gatewaytest.PolicyYAML("streams: {resume: continue, resume-fallbacks: true}, fallbacks: {m: [other]}, "+gatewaytest.NoBreakerNoChecks, list...)
			yaml = strings.Replace(withKey(yaml, test.members), "enabled: true,", "enabled: true, tokens: [{name: a, role: ADMIN, token-sha256: "+gatewaytest.HashOf("admin-token")+"}],", 1)
			own, others := int64(1000), int64(10)
			prices := "prices: {models: [{model: m, input: 1000, output: 2000}, {model: other, input: 10, output: 20}]}\n"
			if test.isCheap {
				own, others = others, own
				prices = "prices: {models: [{model: m, input: 10, output: 20}, {model: other, input: 1000, output: 2000}]}\n"
			}
			r := gatewaytest.Start(t, yaml+prices+"quota: {enabled: true}\n")

			a.Script(test.broken)
			second.Script(test.broken)
			b.Script(test.other...)
			if body := r.Chat(streamThree, bearer("secret")...).Succeeds(t).Body; !strings.Contains(body, "upstream_stream_truncated") {
				t.Fatalf("%s", body)
			}
			if got := b.Stats().Arrived; got != test.called {
				t.Errorf("the other model was called %d times, want %d", got, test.called)
			}
			_, _, reserved, ledger := spentOf(t, r)
			prompt := int64(promptOfThree)
			if strings.Contains(name, "reported") {
				prompt = 20
			}
			want, model := own*(prompt+2*3), "m"
			if test.twice {
				want += own * (prompt + 3 + 2*3) // the first part is in the prompt of the second
			}
			var ofOther int64
			switch name {
			case "another answer":
				ofOther = others * (prompt + 3)
			case "twice, then one that breaks":
				ofOther, model = others*(prompt+6+2*3), "other"
			}
			for instance, cost := range map[string]int64{"m": want, "other": ofOther} {
				gatewaytest.Eventually(t, fmt.Sprintf("instances of %s have the cost %d", instance, cost), func() bool {
					var sum float64
					for key, value := range r.Scrape() {
						if strings.HasPrefix(key, "model_router_cost_total{") && strings.Contains(key, `instance="`+instance+"@") {
							sum += value
						}
					}
					return int64(math.Round(sum*1e6)) == cost
				})
			}
			want += ofOther
			if ledger.Cost != want || reserved != 0 {
				t.Errorf("it cost %d, want %d; %d reserved", ledger.Cost, want, reserved)
			}
			call := r.GetObject("/api/monitoring/calls?limit=1", "Authorization", "Bearer admin-token")
			if got := gatewaytest.At(t, call, "calls/0/model"); got != model {
				t.Errorf("the record names %v, want %s", got, model)
			}
			if got := gatewaytest.At(t, call, "calls/0/instance").(string); !strings.Contains(got, model+"@") {
				t.Errorf("the record names the instance %s of %s", got, model)
			}
		})
	}
}

// promptOfThree is what the prompt of streamThree is estimated to have, in tokens.
const promptOfThree = 5
