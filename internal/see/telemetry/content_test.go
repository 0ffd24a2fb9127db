package telemetry

import (
	"encoding/json"
	"strings"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// saidIn returns the attributes with content, by their names, of a call with these bodies.
func saidIn(t *testing.T, request, answer string) map[string]string {
	t.Helper()
	captured := &calls.Captured{What: metrics.CaptureContent, Request: calls.Content{Text: []byte(request)}, Answer: calls.Content{Text: []byte(answer)}}
	e := &Exporter{settings: Settings{Content: true}, captured: func(*calls.Record) *calls.Captured { return captured }}
	c := called("m")
	spans := e.callSpans(&c)
	found := map[string]string{}
	for i, span := range spans {
		for _, a := range span.Attributes {
			if strings.HasSuffix(a.Key, "messages") || strings.HasSuffix(a.Key, "instructions") || a.Key == "patchbay.content.truncated" {
				if found[a.Key] = a.Value.GetStringValue(); i != len(spans)-1 {
					t.Errorf("%s is in the span %q", a.Key, span.Name)
				}
			}
		}
	}
	return found
}

func TestContentIsWrittenAsTheConventionsSay(t *testing.T) {
	t.Parallel()
	const (
		input, output, system = "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"
		hi                    = `[{"role":"user","parts":[{"content":"hi","type":"text"}]}]`
		hello                 = `[{"role":"assistant","parts":[{"content":"hello there","type":"text"}],"finish_reason":"stop"}]`
		called                = `[{"role":"assistant","parts":[{"arguments":{"city":"Paris"},"id":"c1","name":"weather","type":"tool_call"}],"finish_reason":"tool_call"}]`
	)
	for name, row := range map[string]struct {
		request, answer string
		want            map[string]string
	}{
		"chat": {
			`{"messages":[{"role":"user","content":"hi"}]}`, `{"choices":[{"index":0,"message":{"role":"assistant","content":"hello there"},"finish_reason":"stop"}]}`,
			map[string]string{input: hi, output: hello},
		},
		"a stream of chat": {
			`{"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`,
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"hello\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\" there\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
			map[string]string{input: hi, output: hello},
		},
		"calls of tools in a stream": {
			`{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c0","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c0","content":"rain"}]}`,
			"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"function\":{\"name\":\"weather\",\"arguments\":\"{\\\"city\\\":\"}}]}}]}\n\ndata: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"\\\"Paris\\\"}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n",
			map[string]string{
				input:  `[{"role":"assistant","parts":[{"arguments":{},"id":"c0","name":"f","type":"tool_call"}]},{"role":"tool","parts":[{"id":"c0","response":"rain","type":"tool_call_response"}]}]`,
				output: called,
			},
		},
		"messages": {
			`{"system":"be kind","messages":[{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image","source":{"data":"AAAA"}}]}]}`,
			`{"type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"hello there"}],"stop_reason":"max_tokens"}`,
			map[string]string{
				system: `[{"content":"be kind","type":"text"}]`, input: `[{"role":"user","parts":[{"content":"hi","type":"text"},{"type":"image"}]}]`,
				output: `[{"role":"assistant","parts":[{"content":"hm","type":"reasoning"},{"content":"hello there","type":"text"}],"finish_reason":"length"}]`,
			},
		},
		"a stream of messages": {
			`{"messages":[{"role":"user","content":"hi"}]}`,
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"content\":[]}}\n\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"c1\",\"name\":\"weather\",\"input\":{}}}\n\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"partial_json\":\"{\\\"city\\\":\\\"Paris\\\"}\"}}\n\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\n",
			map[string]string{input: hi, output: called},
		},
		"responses": {
			`{"instructions":"be kind","input":"hi"}`, `{"object":"response","output":[{"type":"message","content":[{"type":"output_text","text":"hello there"}]}]}`,
			map[string]string{system: `[{"content":"be kind","type":"text"}]`, input: hi, output: hello},
		},
		"a stream of responses": {
			`{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}]}`,
			"data: {\"type\":\"response.created\",\"response\":{\"output\":[]}}\n\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hello\"}\n\ndata: {\"type\":\"response.completed\",\"response\":{\"output\":[{\"type\":\"message\",\"content\":[{\"type\":\"output_text\",\"text\":\"hello there\"}]}]}}\n\n",
			map[string]string{input: hi, output: hello},
		},
		"completions": {`{"prompt":"hi"}`, `{"choices":[{"text":"hello there","finish_reason":"stop"}]}`, map[string]string{input: hi, output: hello}},
		"ollama": {
			`{"messages":[{"role":"user","content":"hi"}]}`, "{\"message\":{\"role\":\"assistant\",\"content\":\"hello\"}}\n{\"message\":{\"content\":\" there\"},\"done_reason\":\"stop\"}\n",
			map[string]string{input: hi, output: hello},
		},
		"gemini": {
			`{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`, `{"candidates":[{"content":{"role":"model","parts":[{"text":"hello there"}]},"finishReason":"STOP"}]}`,
			map[string]string{input: hi, output: hello},
		},
		"what is no JSON": {`no`, `<html>`, map[string]string{}},
	} {
		got := saidIn(t, row.request, row.answer)
		for _, key := range []string{input, output, system} {
			if got[key] != row.want[key] {
				t.Errorf("%s: %s is\n%s, want\n%s", name, key, got[key], row.want[key])
			}
		}
	}
}

func TestContentIsBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("问", maxContent)
	for name, request := range map[string]string{
		"one long message":   `{"messages":[{"role":"user","content":"` + long + `"}]}`,
		"many messages":      `{"messages":[` + strings.Repeat(`{"role":"user","content":"hi"},`, maxContent) + `{"role":"user","content":"last"}]}`,
		"a long call":        `{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":\"` + long + `\"}"}}]}]}`,
		"a body without end": `{"messages":[{"role":"user","content":"` + long,
	} {
		got := saidIn(t, request, "")
		var messages []message
		if text := got["gen_ai.input.messages"]; len(text) > maxContent || json.Unmarshal([]byte(text), &messages) != nil || len(messages) == 0 {
			t.Errorf("%s: %d bytes, %d messages", name, len(text), len(messages))
		}
		if _, isSaid := got["patchbay.content.truncated"]; !isSaid {
			t.Errorf("%s: nothing says that a part is missing", name)
		}
	}
}

func TestContentIsSentOnlyOfCallsWhoseContentIsCaptured(t *testing.T) {
	t.Parallel()
	body := calls.Content{Text: []byte(`{"messages":[{"role":"user","content":"secret"}]}`)}
	whole := &calls.Captured{What: metrics.CaptureContent, Request: body}
	for name, row := range map[string]struct {
		content  bool
		captured *calls.Captured
		isSent   bool
	}{
		"captured and wanted":         {true, whole, true},
		"captured and not wanted":     {false, whole, false},
		"wanted and not captured":     {true, nil, false},
		"only the headers are wanted": {true, &calls.Captured{What: metrics.CaptureHeaders, Request: body}, false},
	} {
		e := &Exporter{settings: Settings{Content: row.content}, captured: func(*calls.Record) *calls.Captured { return row.captured }}
		c := called("m")
		text := ""
		for _, span := range e.callSpans(&c) {
			text += span.String()
		}
		if strings.Contains(text, "secret") != row.isSent {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestExportsAreNotLargerThanCollectorsTake(t *testing.T) {
	t.Parallel()
	captured := &calls.Captured{What: metrics.CaptureContent, Request: calls.Content{Text: []byte(`{"prompt":"` + strings.Repeat("x", maxContent) + `"}`)}}
	e := &Exporter{settings: Settings{Content: true}, captured: func(*calls.Record) *calls.Captured { return captured }}
	batch := make([]calls.Record, 400)
	for i := range batch {
		batch[i] = called("m")
	}
	var all []*tracepb.Span
	for portion := range e.portions(batch) {
		if size := proto.Size(portion); size > maxExport+1<<10 {
			t.Errorf("a portion of %d bytes", size)
		}
		all = append(all, portion.ScopeSpans[0].Spans...)
	}
	if want := len(batch) * len(e.callSpans(&batch[0])); len(all) != want {
		t.Errorf("%d spans, want %d", len(all), want)
	}
}

func TestWhatWasCutIsJSONAgain(t *testing.T) {
	t.Parallel()
	const whole = `{"a":[{"b":"c\n\u00e9d","e":[1,2,{"f":null}]},"g\\",-1.5e3,true],"h":{"i":"j"}}`
	for end := 1; end <= len(whole); end++ {
		if got := completed([]byte(whole[:end])); !json.Valid(got) {
			t.Errorf("%s became %s", whole[:end], got)
		}
	}
	if got := string(completed([]byte(`{"messages":[{"role":"user","content":"hello wo`))); got != `{"messages":[{"role":"user","content":"hello wo"}]}` {
		t.Error(got)
	}
}
