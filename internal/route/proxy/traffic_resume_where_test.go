package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// The text so far is part of what another instance reads: the one that has it in its cache
// goes on with the answer.
func TestAnAnswerGoesOnWhereItsTextIsCached(t *testing.T) {
	t.Parallel()
	a, b, c := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(resumes+"load-balancer: least-time, "+gatewaytest.NoBreakerNoChecks,
		gatewaytest.Instance("m", a.URL(), "adapter: vllm"), gatewaytest.Instance("m", b.URL(), "adapter: vllm", "tier: 1"), gatewaytest.Instance("m", c.URL(), "adapter: vllm", "tier: 1")))
	calls := func() [2]int { return [2]int{b.Stats().Arrived, c.Stats().Arrived} }
	var texts []string
	var readers []int // which of the two has read a text
	for n := range 8 {
		texts = append(texts, strings.Repeat(fmt.Sprintf("The answer with the number %d goes on and on. ", n), 200))
		a.Script(simulator.Step{Status: 503})
		before := calls()
		r.Chat(fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":%q},{"role":"user","content":"more"}]}`, texts[n])).Succeeds(t)
		readers = append(readers, calls()[1]-before[1])
	}
	if first := readers[0]; !strings.Contains(fmt.Sprint(readers), fmt.Sprint(1-first)) {
		t.Fatal("all went to one instance; this test shows nothing")
	}
	for twice := range 2 * len(texts) { // so that taking turns is not enough
		n := twice / 2
		text := texts[n]
		a.Script(gatewaytest.EventStep(fmt.Sprintf(`data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", text)))
		before := calls()
		if got := streamDoors[0].post(t, r, ""); !got.complete || len(got.comments) != 1 {
			t.Fatalf("the stream does not go on: %+v", got)
		}
		if at := calls()[1] - before[1]; at != readers[n] {
			t.Errorf("text %d goes on at instance %d, and %d has read it", n, at, readers[n])
		}
	}
}

// Other models go on with an answer only where that is allowed, and the answer costs what both
// calls cost.
func TestFallbacksGoOnOnlyWhereTheyMay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy  string
		headers []string
		goesOn  bool
	}{
		"not allowed":                {resumes, nil, false},
		"allowed":                    {"streams: {resume: continue, resume-fallbacks: true}, ", nil, true},
		"allowed, by a header":       {"streams: {resume-fallbacks: true}, ", []string{"X-Router-Resume", "continue"}, true},
		"allowed, but nothing is on": {"streams: {resume-fallbacks: true}, ", nil, false},
		"allowed, off for this one":  {"streams: {resume: continue, resume-fallbacks: true}, ", []string{"X-Router-Resume", "off"}, false},
		"by a header, but no models": {"", []string{"X-Router-Resume", "continue"}, false},
	} {
		for _, door := range streamDoors {
			t.Run(name+"/"+door.name, func(t *testing.T) {
				t.Parallel()
				var backends [2]*simulator.Backend
				var list []string
				for n, model := range []string{"m", "other"} {
					made, err := simulator.Start(simulator.Options{Chain: true})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(made.Close)
					backends[n] = made
					list = append(list, gatewaytest.Instance(model, made.URL(), "adapter: vllm"))
				}
				r := gatewaytest.Start(t, gatewaytest.PolicyYAML(test.policy+"fallbacks: {m: [other]}, "+gatewaytest.NoBreakerNoChecks, list...))
				whole := door.post(t, r, "", test.headers...)
				backends[0].Script(simulator.Step{Stop: simulator.StopReset, After: 5})
				got := door.post(t, r, "", test.headers...)
				if got.complete != test.goesOn || (backends[1].Stats().Arrived == 1) != test.goesOn {
					t.Fatalf("%+v, %d calls of the other model", got, backends[1].Stats().Arrived)
				}
				if test.goesOn && (got.text != whole.text || len(got.ids) != 1 || got.prompt != whole.prompt || got.answer != whole.answer || got.finish != whole.finish) {
					t.Errorf("%+v\nwant %+v", got, whole)
				}
			})
		}
	}
}
