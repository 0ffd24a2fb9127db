package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// An answer that a backend of one dialect began goes on at one of any other.
func TestAnAnswerGoesOnInAnotherDialect(t *testing.T) {
	t.Parallel()
	for n, first := range chainKinds {
		for _, shift := range []int{1, 3} { // each begins for two others, and goes on after two
			second := chainKinds[(n+shift)%len(chainKinds)]
			t.Run(first.adapter+"/"+second.adapter, func(t *testing.T) {
				t.Parallel()
				var backends [2]*simulator.Backend
				var list []string
				for n, kind := range []chainKind{first, second} {
					made, err := simulator.Start(simulator.Options{Chain: true, Kind: kind.kind})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(made.Close)
					backends[n] = made
					list = append(list, gatewaytest.Instance("m", made.URL(), "adapter: "+kind.adapter, fmt.Sprintf("tier: %d", n)))
				}
				r := gatewaytest.Start(t, gatewaytest.PolicyYAML(resumes+gatewaytest.NoBreakerNoChecks, list...))
				for _, door := range streamDoors {
					if !first.serves(door) || !second.serves(door) {
						continue
					}
					whole := door.post(t, r, `,"temperature":0`)
					for _, after := range []int{6, 11} {
						backends[0].Script(simulator.Step{Stop: simulator.StopReset, After: after})
						got := door.post(t, r, `,"temperature":0`)
						if got.text != whole.text || !got.complete || len(got.ids) != 1 || got.starts != whole.starts || got.finish != whole.finish || len(got.comments) != 1 {
							t.Errorf("%s, after %d events:\n%+v\nwant\n%+v", door.name, after, got, whole)
						}
					}
				}
			})
		}
	}
}

// A stream breaks, the one that goes on breaks, and a third one ends it: also while an answer
// is made again and what was sent has not come yet.
func TestAStreamThatBreaksTwiceGoesOn(t *testing.T) {
	t.Parallel()
	for _, kind := range chainKinds {
		t.Run(kind.adapter, func(t *testing.T) {
			t.Parallel()
			var backends [3]*simulator.Backend
			var list []string
			for n := range backends {
				made, err := simulator.Start(simulator.Options{Chain: true, Kind: kind.kind})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(made.Close)
				backends[n] = made
				list = append(list, gatewaytest.Instance("m", made.URL(), "adapter: "+kind.adapter, fmt.Sprintf("tier: %d", n)))
			}
			r := gatewaytest.Start(t, "limits: {max-attempts: 3}\n"+gatewaytest.PolicyYAML(resumes+gatewaytest.NoBreakerNoChecks, list...))
			for _, door := range streamDoors {
				if !kind.serves(door) {
					continue
				}
				whole := door.post(t, r, kind.more)
				for _, cuts := range [][2]int{{5, 4}, {9, 3}, {9, 5}, {4, 9}} {
					backends[0].Script(simulator.Step{Stop: simulator.StopReset, After: cuts[0]})
					backends[1].Script(simulator.Step{Stop: simulator.StopClose, After: cuts[1], MidEvent: true})
					got := door.post(t, r, kind.more)
					if got.text != whole.text || !got.complete || len(got.ids) != 1 || got.starts != whole.starts || got.finish != whole.finish {
						t.Errorf("%s %v:\n%+v\nwant\n%+v", door.name, cuts, got, whole)
					}
					isEndCounted := kind.adapter == "anthropic" && got.answer == whole.answer+1
					if got.prompt != whole.prompt || got.answer != whole.answer && !isEndCounted {
						t.Errorf("%s %v: usage %d and %d, want %d and %d", door.name, cuts, got.prompt, got.answer, whole.prompt, whole.answer)
					}
				}
			}
		})
	}
}

// oddChunk writes a chunk with these members of its choice, and with more members.
func oddChunk(choice, more string) string {
	return `data: {"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[` + choice + `]` + more + "}\n\n"
}

// content is a choice that says a text.
func content(text string) string {
	return fmt.Sprintf(`{"index":0,"delta":{"content":%q},"finish_reason":null}`, text)
}

// What engines and clients do beside the usual does not make a join wrong.
func TestOddStreamsGoOnOrEnd(t *testing.T) {
	t.Parallel()
	const usage = `,"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}`
	const done = "data: [DONE]\n\n"
	end := oddChunk(`{"index":0,"delta":{},"finish_reason":"stop"}`, "") + done
	rest := oddChunk(`{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}`, "") + oddChunk(content(" two"), "") + end
	one := oddChunk(content("one"), "")
	for name, test := range map[string]struct {
		first, second string
		more          string
		want          string // what the client has, if the stream goes on
		ends          bool
		finish        string
		isOnlyChat    bool
	}{
		"usage in every chunk":           {first: oddChunk(content("one"), usage), second: rest, want: "one two"},
		"usage before the text":          {first: oddChunk("", usage) + one, second: rest, want: "one two"},
		"empty deltas":                   {first: oddChunk(`{"index":0,"delta":{},"finish_reason":null}`, "") + one + oddChunk(content(""), ""), second: oddChunk(content(""), "") + rest, want: "one two"},
		"no choices in between":          {first: one + oddChunk("", ""), second: oddChunk("", "") + rest, want: "one two"},
		"a character that was cut":       {first: one + oddChunk(content("\ufffd"), ""), second: rest, ends: true},
		"the same in parts of a byte":    {first: one + oddChunk(content("\ufffd"), "") + oddChunk(content("\ufffd"), ""), second: rest, ends: true},
		"a cut one that is made again":   {first: one + oddChunk(content("\ufffd"), ""), second: one + oddChunk(content("\ufffd two"), "") + end, more: `,"temperature":0`, want: "one\ufffd two"},
		"a cut one that was whole":       {first: one + oddChunk(content("\ufffd"), ""), second: one + oddChunk(content("é two"), "") + end, more: `,"temperature":0`, ends: true},
		"a replaced character":           {first: oddChunk(content("\ufffd"), "") + one, second: rest, want: "\ufffdone two"},
		"a replaced one before a space":  {first: one + oddChunk(content("\ufffd"), "") + oddChunk(content(" "), ""), second: rest, want: "one\ufffd two"},
		"replaced ones in between":       {first: one + oddChunk(content("\ufffd"), "") + oddChunk(content("\ufffd\ufffd a"), ""), second: rest, want: "one\ufffd\ufffd\ufffd a two"},
		"a replaced one behind the join": {first: one, second: oddChunk(content("\ufffd"), "") + rest, want: "one\ufffd two"},
		"a refusal":                      {first: one + oddChunk(`{"index":0,"delta":{"refusal":"No."},"finish_reason":null}`, ""), second: rest, ends: true},
		"a tool call":                    {first: one + oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{"}}]},"finish_reason":null}`, ""), second: rest, ends: true},
		"two tool calls":                 {first: one + oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"d","type":"function","function":{"name":"g","arguments":""}}]},"finish_reason":null}`, ""), second: rest, ends: true},
		"an older function call":         {first: one + oddChunk(`{"index":0,"delta":{"function_call":{"name":"f","arguments":"{"}},"finish_reason":null}`, ""), second: rest, ends: true, isOnlyChat: true},
		"sound":                          {first: one + oddChunk(`{"index":0,"delta":{"audio":{"id":"x","data":"AAAA"}},"finish_reason":null}`, ""), second: rest, ends: true, isOnlyChat: true},
		"reasoning, then text":           {first: oddChunk(`{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}`, "") + one, second: rest, ends: true},
		"reasoning of newer engines":     {first: oddChunk(`{"index":0,"delta":{"reasoning":"hm"},"finish_reason":null}`, "") + one, second: rest, ends: true},
		"the other one thinks":           {first: one, second: oddChunk(`{"index":0,"delta":{"reasoning_content":"hm"},"finish_reason":null}`, "") + rest, ends: true},
		"a second answer":                {first: one + oddChunk(`{"index":1,"delta":{"content":"other"},"finish_reason":null}`, ""), second: rest, ends: true},
		"probabilities nobody asked":     {first: one + oddChunk(`{"index":0,"delta":{"content":"x"},"logprobs":{"content":[{"token":"x","logprob":-1,"bytes":null,"top_logprobs":[]}]},"finish_reason":null}`, ""), second: rest, ends: true},
		"a tool call behind the join":    {first: one, second: oddChunk(`{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":null}`, "") + oddChunk(`{"index":0,"delta":{},"finish_reason":"tool_calls"}`, "") + done, want: "one", finish: "tool_calls"},
		"text and end in one":            {first: one, second: oddChunk(`{"index":0,"delta":{"content":" two"},"finish_reason":"length"}`, usage) + done, want: "one two", finish: "length"},
		"nothing but the end":            {first: one, second: end, want: "one"},
		"white space twice":              {first: oddChunk(content("one \n"), ""), second: oddChunk(content(" "), "") + oddChunk(content("\n two"), "") + end, want: "one \n two"},
		"white space once":               {first: oddChunk(content("one "), ""), second: oddChunk(content("two"), "") + end, want: "one two"},
		"other white space":              {first: oddChunk(content("one\n"), ""), second: oddChunk(content(" two"), "") + end, want: "one\n two"},
		"nothing but white space":        {first: oddChunk(content(" \n"), ""), second: rest, ends: true},
		"a quote and a backslash":        {first: oddChunk(content("one\"\\"), ""), second: rest, want: "one\"\\ two"},
		"a null character":               {first: strings.Replace(one, `"one"`, `"one\u0000"`, 1), second: rest, want: "one\x00 two"},
		"a stop within the rest":         {first: oddChunk(content("oneS"), ""), second: oddChunk(content("TOP two"), "") + end, more: `,"stop":"STOP"`, want: "oneS"},
		"a stop in many pieces":          {first: oddChunk(content("oneS"), ""), second: oddChunk(content("T"), "") + oddChunk(content("O"), "") + oddChunk(content("P more"), "") + end, more: `,"stop":["x","STOP"]`, want: "oneS"},
		"a stop that is none":            {first: oddChunk(content("oneS"), ""), second: oddChunk(content("T"), "") + oddChunk(content("O two"), "") + end, more: `,"stop":["x","STOP"]`, want: "oneSTO two"},
		"the end within a stop":          {first: oddChunk(content("oneS"), ""), second: oddChunk(content("T"), "") + end, more: `,"stop":"STOP"`, want: "oneST"},
		"a limit":                        {first: one, second: rest, more: `,"max_completion_tokens":5`, want: "one two"},
		"the client wants probabilities": {first: one, second: rest, more: `,"logprobs":true`, ends: true},
		"the client wants two answers":   {first: one, second: rest, more: `,"n":2`, ends: true},
		"a schema":                       {first: one, second: rest, more: `,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{}}}`, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML(resumes+gatewaytest.NoBreakerNoChecks,
				gatewaytest.Instance("m", a.URL(), "adapter: vllm"), gatewaytest.Instance("m", b.URL(), "adapter: vllm", "tier: 1")))
			for _, door := range streamDoors[:3] {
				if door.name != "chat" && (test.more != "" || test.isOnlyChat) {
					continue // other doors have other words for it, or none
				}
				a.Script(gatewaytest.EventStep(test.first))
				b.Script(gatewaytest.EventStep(test.second))
				got := door.post(t, r, test.more)
				if test.ends {
					if got.complete || got.failed == "" {
						t.Errorf("%s: %+v", door.name, got)
					}
					continue
				}
				if got.text != test.want || !got.complete || got.failed != "" || len(got.ids) != 1 || len(got.comments) != 1 {
					t.Errorf("%s: %+v\nwant %q", door.name, got, test.want)
				}
				if test.finish != "" && door.name == "chat" && got.finish != test.finish {
					t.Errorf("it ends with %q", got.finish)
				}
			}
		})
	}
}
