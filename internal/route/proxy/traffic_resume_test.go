package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// chainKind is a kind of backend whose answers are chained: each token is a hash of all that
// is before it, so that nothing can be lost or doubled unseen.
type chainKind struct {
	adapter string
	kind    simulator.Kind
	more    string // members of the requests
}

// chainKinds are the kinds that go on with a text, and OpenAI's own, which makes the answer
// again.
var chainKinds = []chainKind{
	{adapter: "vllm"},
	{adapter: "llamacpp", kind: simulator.LlamaCpp},
	{adapter: "ollama"},
	{adapter: "anthropic"},
	{adapter: "gemini"},
	{adapter: "openai", more: `,"temperature":0`},
	{adapter: "sglang"},
	{adapter: "azure", more: `,"temperature":0`},
}

// serves reports whether the kind has the door, and goes on with its texts.
func (k chainKind) serves(door streamDoor) bool {
	if door.name == "ollama generate" && k.adapter == "ollama" {
		return false // a text that Ollama's own template surrounds is made again, if at all
	}
	return door.name != "completions" || k.adapter != "anthropic" && k.adapter != "gemini" && k.adapter != "ollama"
}

// startChains starts two backends with chained answers and a gateway that prefers the first.
func (k chainKind) start(t *testing.T, policy, more string) (r *gatewaytest.Gateway, a, b *simulator.Backend) {
	t.Helper()
	backends := [2]*simulator.Backend{}
	var list []string
	for n := range backends {
		made, err := simulator.Start(simulator.Options{Record: true, Chain: true, Kind: k.kind})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(made.Close)
		backends[n] = made
		list = append(list, gatewaytest.Instance("m", made.URL(), "adapter: "+k.adapter, fmt.Sprintf("tier: %d", n)))
	}
	r = gatewaytest.Start(t, gatewaytest.PolicyYAML(policy+gatewaytest.NoBreakerNoChecks, list...)+more)
	return r, backends[0], backends[1]
}

const resumes = "streams: {resume: continue}, "

// Wherever a stream breaks, the client of every door gets the answer that it would have got,
// from every kind of backend: no byte is lost or doubled, and its id, its end and its usage
// are those of one answer.
func TestAStreamThatBreaksGoesOnAtAnotherInstance(t *testing.T) {
	t.Parallel()
	for _, kind := range chainKinds {
		for _, door := range slices.Concat(streamDoors, lineDoors) {
			if !kind.serves(door) {
				continue
			}
			t.Run(kind.adapter+"/"+door.name, func(t *testing.T) {
				t.Parallel()
				r, a, b := kind.start(t, resumes, "")
				whole := door.post(t, r, kind.more)
				whole.is(t, whole.text)
				if len(whole.text) < 60 {
					t.Fatalf("%q is too short", whole.text)
				}
				for after := 1; after <= whole.events; after++ {
					for name, broken := range map[string]simulator.Step{
						"between events": {Stop: simulator.StopReset, After: after},
						"in an event":    {Stop: simulator.StopClose, After: after, MidEvent: true},
						"with an error":  {StreamError: "out of memory", After: after},
					} {
						if (testing.Short() || strings.HasPrefix(door.name, "ollama")) && after%3 != 0 {
							continue
						}
						a.Script(broken)
						before := b.Stats().Arrived
						got := door.post(t, r, kind.more)
						if broken.StreamError != "" && got.failed != "" && got.text == whole.text && len(got.comments) == 0 {
							continue // the error came behind the end
						}
						if got.text != whole.text || !got.complete || got.failed != "" || len(got.ids) != 1 || got.starts != whole.starts || got.finish != whole.finish {
							t.Fatalf("%s, after %d events:\n%+v\nwant\n%+v", name, after, got, whole)
						}
						if len(got.comments) == 0 && got.prompt+got.answer == 0 {
							continue // it broke between the end and the usage
						}
						isEndCounted := kind.adapter == "anthropic" && got.answer == whole.answer+1 // of a rest that is empty
						if got.prompt != whole.prompt || got.answer != whole.answer && !isEndCounted {
							t.Errorf("%s %s %s, after %d events: usage %d and %d, want %d and %d", kind.adapter, door.name, name, after, got.prompt, got.answer, whole.prompt, whole.answer)
						}
						if called := b.Stats().Arrived - before; called > 1 {
							t.Errorf("%d further calls", called)
						}
					}
				}
				if counts := r.Scrape(); gatewaytest.Sum(counts, "model_router_resumed_streams_total", `outcome="continued"`)+
					gatewaytest.Sum(counts, "model_router_resumed_streams_total", `outcome="aligned"`) == 0 {
					t.Error("no stream went on; this test shows nothing")
				}
			})
		}
	}
}

// 200 of 200 streams that are killed at a random byte go on without a byte lost or doubled.
func TestStreamsThatAreKilledAnywhereGoOn(t *testing.T) {
	t.Parallel()
	const kills = 200
	random := rand.New(rand.NewPCG(28, 1))
	type setup struct {
		r     *gatewaytest.Gateway
		a     *simulator.Backend
		whole *joined
		size  int
		door  streamDoor
		kind  chainKind
	}
	var setups []setup
	for n, kind := range chainKinds {
		r, a, _ := kind.start(t, resumes, "")
		for shift := range 2 {
			door := streamDoors[(n+shift)%len(streamDoors)]
			if !kind.serves(door) {
				door = streamDoors[0]
			}
			whole := door.post(t, r, kind.more)
			setups = append(setups, setup{r, a, whole, 150 * len(whole.text) / 4, door, kind})
		}
	}
	wrong := 0
	for kill := range kills {
		s := setups[kill%len(setups)]
		s.a.Script(simulator.Step{Stop: simulator.StopReset, AfterBytes: 1 + random.IntN(s.size)})
		if got := s.door.post(t, s.r, s.kind.more); got.text != s.whole.text || !got.complete || len(got.ids) != 1 {
			wrong++
			t.Errorf("%s at %s: %+v, want %+v", s.kind.adapter, s.door.name, got, s.whole)
		}
	}
	t.Logf("%d of %d killed streams were whole", kills-wrong, kills)
}

// The same kills without resume end the streams.
func TestWithoutResumeKilledStreamsEnd(t *testing.T) {
	t.Parallel()
	for _, headers := range [][]string{nil, {"X-Router-Resume", "off"}} {
		policy := ""
		if headers != nil {
			policy = resumes
		}
		r, a, b := chainKinds[0].start(t, policy, "")
		whole := 0
		for after := 2; after < 12; after++ {
			a.Script(simulator.Step{Stop: simulator.StopReset, After: after})
			if got := streamDoors[0].post(t, r, "", headers...); got.complete || got.failed != "upstream_stream_truncated" {
				whole++
			}
		}
		if whole > 0 || b.Stats().Arrived != 0 {
			t.Errorf("%d of 10 streams were whole, %d calls of the other instance", whole, b.Stats().Arrived)
		}
	}
}

// A request may ask for it itself, and a wrong word is refused.
func TestARequestMayAskToGoOn(t *testing.T) {
	t.Parallel()
	r, a, _ := chainKinds[0].start(t, "", "")
	whole := streamDoors[0].post(t, r, "")
	a.Script(simulator.Step{Stop: simulator.StopReset, After: 4})
	got := streamDoors[0].post(t, r, "", "X-Router-Resume", "continue")
	got.is(t, whole.text)
	if len(got.comments) != 1 || got.comments[0] != ": resumed attempt=2 how=continued" {
		t.Errorf("comments %q", got.comments)
	}
	r.Chat(gatewaytest.StreamHi, "X-Router-Resume", "perhaps").FailsWith(t, 400, "invalid_request_error", "invalid_value", "")
}

// What cannot go on ends as it does without resume: with the failure of the first instance.
func TestWhatCannotGoOnEnds(t *testing.T) {
	t.Parallel()
	const tool = `,"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}],"tool_choice":"required"`
	for name, test := range map[string]struct {
		kind  chainKind
		more  string
		after int
	}{
		"a tool call":            {chainKinds[0], tool, 3},
		"several answers":        {chainKinds[0], `,"n":2`, 6},
		"probabilities":          {chainKinds[0], `,"logprobs":true`, 4},
		"structured output":      {chainKinds[0], `,"response_format":{"type":"json_object"}`, 4},
		"guided output":          {chainKinds[0], `,"guided_json":{}`, 4},
		"no way to go on":        {chainKind{adapter: "openai"}, ``, 4},
		"reasoning":              {chainKinds[2], `,"reasoning_effort":"low"`, 4},
		"text behind reasoning":  {chainKinds[2], `,"reasoning_effort":"low"`, 40},
		"a beginning of its own": {chainKinds[0], `,"continue_final_message":true`, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, a, b := test.kind.start(t, resumes, "")
			a.Script(simulator.Step{Stop: simulator.StopReset, After: test.after})
			got := streamDoors[0].post(t, r, test.more)
			if got.complete || got.failed != "upstream_stream_truncated" || b.Stats().Arrived != 0 {
				t.Errorf("%+v, %d further calls", got, b.Stats().Arrived)
			}
		})
	}
}

// An answer that is made again must begin as the first did. If it does not, the client is not
// sent another one.
func TestAnAnswerThatDivergesEnds(t *testing.T) {
	t.Parallel()
	r, a, b := chainKinds[5].start(t, resumes, "")
	for name, other := range map[string]string{"other": "something else, which is long enough to differ", "shorter": " "} {
		a.Script(simulator.Step{Stop: simulator.StopReset, After: 6})
		b.Script(simulator.Step{Text: other})
		got := streamDoors[0].post(t, r, chainKinds[5].more)
		if got.complete || got.failed != "upstream_stream_truncated" || strings.Contains(got.text, "else") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, failures, _ := gatewaytest.Outcomes(r.Instances("m")[1]); failures != 0 {
		t.Errorf("%d failures of the instance that said something else", failures)
	}
	// Structured output goes on where it is deterministic.
	whole := streamDoors[0].post(t, r, `,"temperature":0,"response_format":{"type":"json_object"}`)
	a.Script(simulator.Step{Stop: simulator.StopReset, After: 4})
	streamDoors[0].post(t, r, `,"temperature":0,"response_format":{"type":"json_object"}`).is(t, whole.text)
}

// A provider that refuses to go on ends the answer as before, and is not blamed for it.
func TestARefusalToGoOnEndsTheAnswer(t *testing.T) {
	t.Parallel()
	r, a, b := chainKinds[3].start(t, resumes, "")
	a.Script(simulator.Step{Stop: simulator.StopReset, After: 8})
	b.Script(simulator.Step{Status: 400, Body: simulator.AnthropicError("Prefilling assistant messages is not supported for this model.", "invalid_request_error")})
	if got := streamDoors[0].post(t, r, ""); got.complete || got.failed != "upstream_stream_truncated" {
		t.Errorf("%+v", got)
	}
	if _, failures, _ := gatewaytest.Outcomes(r.Instances("m")[1]); failures != 0 {
		t.Errorf("%d failures of the provider", failures)
	}
}

// The rest of an answer may have the tokens that are left, and stop sequences hold across the
// join.
func TestLimitsAndStopsHoldAcrossTheJoin(t *testing.T) {
	t.Parallel()
	r, a, b := chainKinds[0].start(t, resumes, "")
	for limit := 5; limit <= 8; limit++ {
		more := fmt.Sprintf(`,"max_tokens":%d`, limit)
		whole := streamDoors[0].post(t, r, more)
		for after := 2; after <= limit+1; after++ {
			a.Script(simulator.Step{Stop: simulator.StopReset, After: after})
			got := streamDoors[0].post(t, r, more)
			got.is(t, whole.text)
			if got.finish != "length" || got.answer != int64(limit) || got.prompt != whole.prompt {
				t.Errorf("limit %d, after %d: %+v", limit, after, got)
			}
		}
	}
	// The first engine sends the beginning of a stop sequence, and the second the rest.
	for _, test := range []struct{ first, second, want string }{
		{"one two EN", "D three", "one two EN"},
		{"one two EN", "DI three", "one two ENDI three"},
		{"one two E", "N three", "one two EN three"},
	} {
		stop := `,"stop":["ENDING"," never"]`
		if test.want == "one two EN" {
			stop = `,"stop":["END"]`
		}
		a.Script(simulator.Step{Body: chunks(test.first), Header: gatewaytest.ContentType("text/event-stream")})
		b.Script(simulator.Step{Body: chunks(test.second) + "data: " + `{"id":"b","object":"chat.completion.chunk","created":2,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n", Header: gatewaytest.ContentType("text/event-stream")})
		got := streamDoors[0].post(t, r, stop)
		if got.text != test.want || !got.complete || got.finish != "stop" {
			t.Errorf("%q and %q: %+v", test.first, test.second, got)
		}
	}
}

// chunks returns a stream that says a text, character by character, and does not end.
func chunks(text string) string {
	var all strings.Builder
	for _, char := range text {
		fmt.Fprintf(&all, `data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`+"\n\n", string(char))
	}
	return all.String()
}
