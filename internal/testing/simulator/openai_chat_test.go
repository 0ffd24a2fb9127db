package simulator

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

func TestPlainChatSaysWhatItIsAndEchoes(t *testing.T) {
	r := newRig(t, Options{Name: "alpha"})
	got := r.chat(`{"model":"m","messages":[{"role":"user","content":"how are you?"}]}`)
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" {
		t.Fatalf("got %+v", got)
	}
	c := decode(t, got.body)
	text := *c.Choices[0].Message.Content
	for _, part := range []string{"alpha", "simulated backend", `"how are you?"`, "no model r"} {
		if !strings.Contains(strings.ToLower(text), part) {
			t.Errorf("%q does not contain %q", text, part)
		}
	}
	if utf8.RuneCountInString(text) == len(text) {
		t.Errorf("%q is all ASCII", text)
	}
	if c.ID == "" || c.Created == 0 || c.Model != "m" || c.Object != "chat.completion" || c.SystemFingerprint == "" {
		t.Errorf("incomplete: %s", got.body)
	}
	if c.Usage.Prompt != 4 || c.Usage.Completion != countTokens(text) || c.Usage.Total != 4+countTokens(text) {
		t.Errorf("usage %+v for %q", c.Usage, text)
	}
	for _, member := range []string{`"refusal":null`, `"logprobs":null`, `"finish_reason":"stop"`, `"prompt_tokens_details":{`, `"completion_tokens_details":{`} {
		if !strings.Contains(got.body, member) {
			t.Errorf("no %s in %s", member, got.body)
		}
	}
}

func TestEveryGreetingIsDeterministicAndNotASCII(t *testing.T) {
	forms := map[string]bool{}
	for _, said := range []string{"a", "b", "c", "d", "e", ""} {
		p := prompt{said: said}
		one, two := p.reply("x", 0), p.reply("x", 0)
		if diff := cmp.Diff(one.text, two.text); diff != "" {
			t.Error(diff)
		}
		if utf8.RuneCountInString(one.text) == len(one.text) {
			t.Errorf("%q is all ASCII", one.text)
		}
		forms[one.text[:3]] = true
	}
	if len(forms) < 2 {
		t.Errorf("the prompt does not seed the answer: %v", forms)
	}
}

func TestStreamSaysTheSameAsPlain(t *testing.T) {
	r := newRig(t, Options{})
	want := decode(t, r.chat(hi).body)
	got := r.chat(hiUsage)
	if got.header.Get("Content-Type") != eventStreamType || got.header.Get("Content-Length") != "" {
		t.Errorf("header %v", got.header)
	}
	texts, finishes, last := spoken(t, got.body)
	if texts[0] != *want.Choices[0].Message.Content || finishes[0] != "stop" {
		t.Errorf("streamed %q, %q", texts[0], finishes[0])
	}
	if len(last.Choices) != 0 || last.Usage == nil || *last.Usage != *want.Usage {
		t.Errorf("last chunk %+v, want usage %+v", last, want.Usage)
	}
	// Role, one event per token, finish, usage, [DONE].
	if n := len(payloads(t, got.body)); n != want.Usage.Completion+4 {
		t.Errorf("%d events for %d tokens", n, want.Usage.Completion)
	}
	ids := map[string]bool{}
	for _, event := range payloads(t, got.body) {
		if event != "[DONE]" {
			ids[decode(t, event).ID] = true
		}
	}
	if len(ids) != 1 {
		t.Errorf("ids %v", ids)
	}
}

func TestLimitsAndStopsCutTheAnswer(t *testing.T) {
	const text = "one two three, four"
	tests := []struct{ name, fields, text, finish string }{
		{"max_tokens", `"max_tokens":2`, "one two", "length"},
		{"max_completion_tokens wins", `"max_tokens":1,"max_completion_tokens":3`, "one two three", "length"},
		{"a limit that is not reached", `"max_tokens":50`, text, "stop"},
		{"stop string", `"stop":","`, "one two three", "stop"},
		{"earliest stop of an array", `"stop":["four"," three"]`, "one two", "stop"},
		{"stop and limit", `"stop":["four"],"max_tokens":1`, "one", "length"},
		{"nulls", `"stop":null,"max_tokens":null,"n":null,"stream_options":null,"tools":null,"tool_choice":null,"response_format":null`, text, "stop"},
	}
	r := newRig(t, Options{Default: Behaviour{Step: Step{Text: text, Usage: UsageFinal}}})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := `{"model":"m","messages":[{"role":"user","content":"hi"}],` + test.fields
			plain := decode(t, r.chat(body+`}`).body)
			if got := *plain.Choices[0].Message.Content; got != test.text || *plain.Choices[0].FinishReason != test.finish {
				t.Errorf("got %q, %q", got, *plain.Choices[0].FinishReason)
			}
			texts, finishes, last := spoken(t, r.chat(body+`,"stream":true}`).body)
			if texts[0] != test.text || finishes[0] != test.finish {
				t.Errorf("streamed %q, %q", texts[0], finishes[0])
			}
			if want := countTokens(test.text); plain.Usage.Completion != want || last.Usage.Completion != want {
				t.Errorf("usage %d and %d, want %d", plain.Usage.Completion, last.Usage.Completion, want)
			}
		})
	}
}

func TestSeveralChoices(t *testing.T) {
	r := newRig(t, Options{})
	body := `{"model":"m","n":3,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]`
	plain := decode(t, r.chat(body+`}`).body)
	texts, finishes, last := spoken(t, r.chat(body+`,"stream":true}`).body)
	total := 0
	for i, choice := range plain.Choices {
		total += countTokens(*choice.Message.Content)
		if choice.Index != i || texts[i] != *choice.Message.Content || finishes[i] != "stop" {
			t.Errorf("choice %d: %q, streamed %q", i, *choice.Message.Content, texts[i])
		}
	}
	if len(plain.Choices) != 3 || len(texts) != 3 || plain.Usage.Completion != total || last.Usage.Completion != total {
		t.Errorf("%d choices, usage %+v and %+v, want %d", len(plain.Choices), plain.Usage, last.Usage, total)
	}
}

const weatherTool = `"tools":[
	{"type":"function","function":{"name":"get_time"}},
	{"type":"function","function":{"name":"get_weather","parameters":{"type":"object",
		"properties":{"city":{"type":"string"},"days":{"type":"integer"},"unit":{"enum":["C","F"]}},"required":["city"]}}}]`

func TestToolsAreCalledWhenAskedFor(t *testing.T) {
	tests := []struct{ name, said, choice, called string }{
		{"nobody asks", "hello", `"auto"`, ""},
		{"the prompt says so", "Use the tool please", `"auto"`, "get_time"},
		{"the prompt names the function", "what does get_weather say?", `null`, "get_weather"},
		{"any is required", "hello", `"required"`, "get_time"},
		{"one is required", "hello", `{"type":"function","function":{"name":"get_weather"}}`, "get_weather"},
		{"none is allowed", "use the tool", `"none"`, ""},
	}
	r := newRig(t, Options{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := decode(t, r.chat(`{"model":"m","tool_choice":`+test.choice+`,`+weatherTool+`,"messages":[{"role":"user","content":"`+test.said+`"}]}`).body)
			choice, called := got.Choices[0], ""
			if len(choice.Message.ToolCalls) > 0 {
				called = choice.Message.ToolCalls[0].Function.Name
			}
			if called != test.called || (called != "") != (*choice.FinishReason == "tool_calls") || (called != "") != (choice.Message.Content == nil) {
				t.Errorf("called %q, finish %q", called, *choice.FinishReason)
			}
		})
	}
}

func TestToolCallIsStreamedInDeltas(t *testing.T) {
	r := newRig(t, Options{})
	body := `{"model":"m",` + weatherTool + `,"messages":[{"role":"user","content":"call get_weather"}]`
	plain := decode(t, r.chat(body+`}`).body)
	want := plain.Choices[0].Message.ToolCalls[0]
	var arguments map[string]any
	if err := json.Unmarshal([]byte(want.Function.Arguments), &arguments); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"city": "sample city ✓", "days": 1.0, "unit": "C"}, arguments); diff != "" {
		t.Error(diff)
	}
	var ids, names []string
	joined, deltas := "", 0
	for _, event := range payloads(t, r.chat(body+`,"stream":true}`).body) {
		if event == "[DONE]" {
			continue
		}
		for _, choice := range decode(t, event).Choices {
			for _, call := range choice.Delta.ToolCalls {
				if call.ID != "" {
					ids, names = append(ids, call.ID), append(names, call.Function.Name)
				}
				if call.Index != 0 {
					t.Errorf("index %d", call.Index)
				}
				if call.Function.Arguments != "" {
					deltas++
				}
				joined += call.Function.Arguments
			}
		}
	}
	if joined != want.Function.Arguments || deltas < 2 || !slices.Equal(ids, []string{want.ID}) || !slices.Equal(names, []string{"get_weather"}) {
		t.Errorf("streamed %q in %d deltas, ids %v, names %v", joined, deltas, ids, names)
	}
	if plain.Usage.Completion != countTokens(joined) {
		t.Errorf("usage %+v", plain.Usage)
	}
}

func TestMessagesOfAllKindsAreUnderstood(t *testing.T) {
	tests := []struct {
		name, rest, contains string
		tokens               int
	}{
		{"a tool result is quoted", `"messages":[{"role":"user","content":"use the tool"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"get_time","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"c","content":"half past nine"}],"tool_choice":"required",` + weatherTool, `"half past nine"`, 3 + 3 + 2 + 3},
		{"parts are joined and images counted", `"messages":[{"role":"user","content":[
			{"type":"text","text":"look "},{"type":"image_url","image_url":{"url":"data:,"}},
			{"type":"text","text":"here"},{"type":"image_url","image_url":{"url":"data:,"}}]}]`, `2 images`, 2 + 2*imageTokens},
		{"system prompts count", `"messages":[{"role":"system","content":"be nice"},{"role":"user","content":"hi"}]`, `"hi"`, 3},
		{"a long prompt is quoted in part", `"messages":[{"role":"user","content":"` + strings.Repeat("é", 500) + `"}]`, strings.Repeat("é", 120) + `…"`, 1},
		{"line breaks survive", `"messages":[{"role":"user","content":"a\n\u0007b"}]`, "\"a\n\ab\"", 3},
		{"no words at all", `"messages":[{"role":"user","content":null}]`, `nothing`, 0},
	}
	r := newRig(t, Options{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := decode(t, r.chat(`{"model":"m",`+test.rest+`}`).body)
			content := got.Choices[0].Message.Content
			if content == nil || !strings.Contains(*content, test.contains) || got.Usage.Prompt != test.tokens {
				t.Errorf("got %v, usage %+v", content, got.Usage)
			}
		})
	}
}

func TestResponseFormatGivesJSON(t *testing.T) {
	tests := []struct{ name, format, want string }{
		{"any object", `{"type":"json_object"}`, `{"simulated":true,"backend":"simulator","greeting":"你好","you_said":"hi"}`},
		{"by schema", `{"type":"json_schema","json_schema":{"name":"x","schema":{"type":"object","properties":{"ok":{"type":"boolean"},"n":{"type":"number"}}}}}`, `{"ok":true,"n":1.5}`},
	}
	r := newRig(t, Options{})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := decode(t, r.chat(`{"model":"m","response_format":`+test.format+`,"messages":[{"role":"user","content":"hi"}]}`).body)
			if diff := cmp.Diff(test.want, *got.Choices[0].Message.Content); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBadRequestsAreRefusedInOpenAIShape(t *testing.T) {
	tests := []struct {
		name, path, body string
		status           int
		code, param      string
	}{
		{"broken JSON", "/v1/chat/completions", `{"model":`, 400, `"invalid_json"`, `null`},
		{"no model", "/v1/chat/completions", `{"messages":[]}`, 400, `"missing_required_parameter"`, `"model"`},
		{"no messages", "/v1/chat/completions", `{"model":"known"}`, 400, `"missing_required_parameter"`, `"messages"`},
		{"unknown model", "/v1/chat/completions", hi, 404, `"model_not_found"`, `"model"`},
		{"bad n", "/v1/chat/completions", `{"model":"known","n":0,"messages":[{}]}`, 400, `"invalid_value"`, `"n"`},
		{"bad max_tokens", "/v1/chat/completions", `{"model":"known","max_tokens":0,"messages":[{}]}`, 400, `"invalid_value"`, `"max_tokens"`},
		{"bad stop", "/v1/chat/completions", `{"model":"known","stop":3,"messages":[{}]}`, 400, `"invalid_value"`, `"stop"`},
		{"bad tool_choice", "/v1/chat/completions", `{"model":"known","tool_choice":{},"messages":[{}]}`, 400, `"invalid_value"`, `"tool_choice"`},
		{"bad content", "/v1/chat/completions", `{"model":"known","messages":[{"role":"user","content":3}]}`, 400, `"invalid_value"`, `"messages"`},
		{"null in place of a part", "/v1/chat/completions", `{"model":"known","messages":[{"role":"assistant","content":[null]}]}`, 400, `"invalid_value"`, `"messages"`},
		{"part without a type", "/v1/chat/completions", `{"model":"known","messages":[{"role":"user","content":[{"text":"x"}]}]}`, 400, `"invalid_value"`, `"messages"`},
		{"unknown path", "/v1/nothing", hi, 404, `"unknown_url"`, `null`},
	}
	r := newRig(t, Options{Models: []string{"known"}})
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := r.do(waittest.Context(t), http.MethodPost, test.path, test.body)
			want := `"type":"invalid_request_error","param":` + test.param + `,"code":` + test.code + `}}`
			if got.status != test.status || !strings.HasPrefix(got.body, `{"error":{"message":"`) || !strings.HasSuffix(got.body, want) {
				t.Errorf("got %d %s", got.status, got.body)
			}
		})
	}
}
