package simulator

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

type claudeBlock struct {
	Type, Text, Thinking, Signature, ID, Name string
	Input                                     map[string]any
}

type claudeUsage struct {
	Input  int `json:"input_tokens"`
	Output int `json:"output_tokens"`
}

type claudeMessage struct {
	ID, Type, Role, Model string
	Content               []claudeBlock
	StopReason            string  `json:"stop_reason"`
	StopSequence          *string `json:"stop_sequence"`
	Usage                 claudeUsage
}

func (r *rig) messages(body string) reply {
	r.t.Helper()
	return r.talk(&tongue{plain: "/v1/messages", ask: body, header: map[string]string{"Anthropic-Version": "2023-06-01"}}, false, nil)
}

// claudeStream puts the events of a stream together and sees that their order
// is the one that clients rely on.
func claudeStream(t *testing.T, stream string) claudeMessage {
	t.Helper()
	var message claudeMessage
	var order []string
	partial := ""
	for block := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		name, data, _ := strings.Cut(block, "\ndata: ")
		event := read[struct {
			Type         string
			Index        int
			Message      claudeMessage
			ContentBlock claudeBlock `json:"content_block"`
			Delta        struct {
				Type, Text, Thinking, Signature string
				PartialJSON                     string  `json:"partial_json"`
				StopReason                      string  `json:"stop_reason"`
				StopSequence                    *string `json:"stop_sequence"`
			}
			Usage claudeUsage
		}](t, data)
		if name != "event: "+event.Type {
			t.Fatalf("%s with %s", name, data)
		}
		if len(order) == 0 || order[len(order)-1] != event.Type {
			order = append(order, event.Type)
		}
		switch event.Type {
		case "message_start":
			message = event.Message
		case "content_block_start":
			if event.Index != len(message.Content) {
				t.Errorf("block %d after %d", event.Index, len(message.Content))
			}
			message.Content, partial = append(message.Content, event.ContentBlock), ""
		case "content_block_delta":
			last := &message.Content[event.Index]
			last.Text += event.Delta.Text
			last.Thinking += event.Delta.Thinking
			last.Signature += event.Delta.Signature
			if partial += event.Delta.PartialJSON; event.Delta.Type == "input_json_delta" {
				_ = json.Unmarshal([]byte(partial), &last.Input) // whole at the end only
			}
		case "message_delta":
			message.StopReason, message.StopSequence, message.Usage = event.Delta.StopReason, event.Delta.StopSequence, event.Usage
		}
	}
	want := []string{"message_start", "content_block_start", "ping", "content_block_delta", "content_block_stop"}
	for range len(message.Content) - 1 {
		want = append(want, "content_block_start", "content_block_delta", "content_block_stop")
	}
	if len(message.Content) == 0 {
		want = want[:1]
	}
	if diff := cmp.Diff(append(want, "message_delta", "message_stop"), order); diff != "" {
		t.Error(diff)
	}
	return message
}

const claudeTools = `"tools":[{"name":"get_weather","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}}]`

func TestAnthropicMessages(t *testing.T) {
	const hello = `"messages":[{"role":"user","content":"hello"}]`
	tests := []struct {
		name, rest string
		text       string // Step.Text
		blocks     string
		has        string
		reason     string
		stopped    string
		input      int
	}{
		{"greets", `"system":"be nice","max_tokens":500,` + hello, "", "text", `"hello"`, "end_turn", "", 3},
		{"blocks", `"system":[{"type":"text","text":"a b"}],"max_tokens":500,"messages":[{"role":"user","content":[{"type":"text","text":"hello"},{"type":"image","source":{}}]}]`, "", "text", "One image", "end_turn", "", 3 + imageTokens},
		{"max_tokens", `"max_tokens":2,` + hello, "one two three", "text", "one two", "max_tokens", "", 1},
		{"stop_sequences", `"max_tokens":500,"stop_sequences":["none"," three"],` + hello, "one two three", "text", "one two", "stop_sequence", " three", 1},
		{"thinks", `"max_tokens":2000,"thinking":{"type":"enabled","budget_tokens":1024},` + hello, "", "thinking text", `"hello"`, "end_turn", "", 1},
		{"thinks when told", `"max_tokens":2000,"messages":[{"role":"user","content":"THINK"}]`, "", "thinking text", "THINK", "end_turn", "", 1},
		{"only thinks", `"max_tokens":3,"messages":[{"role":"user","content":"THINK"}]`, "", "thinking", "", "max_tokens", "", 1},
		{"calls a tool", `"max_tokens":500,` + claudeTools + `,"tool_choice":{"type":"any"},` + hello, "", "tool_use", "", "tool_use", "", 1},
		{"thinks and calls", `"max_tokens":500,` + claudeTools + `,"messages":[{"role":"user","content":"THINK of get_weather"}]`, "", "thinking tool_use", "", "tool_use", "", 5},
		{"calls that tool", `"max_tokens":500,` + claudeTools + `,"tool_choice":{"type":"tool","name":"get_weather"},` + hello, "", "tool_use", "", "tool_use", "", 1},
		{"calls none", `"max_tokens":500,` + claudeTools + `,"tool_choice":{"type":"none"},"messages":[{"role":"user","content":"use the tool"}]`, "", "text", "use the tool", "end_turn", "", 3},
		{"half a call", `"max_tokens":2,` + claudeTools + `,"tool_choice":{"type":"any"},` + hello, "", "", "", "max_tokens", "", 1},
		{"tool result", `"max_tokens":500,` + claudeTools + `,"messages":[{"role":"user","content":"go"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"42"}]}]}]`, "", "text", `"42"`, "end_turn", "", 1 + 1 + 2 + 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, Options{Default: Behaviour{Step: Step{Text: test.text}}})
			got := read[claudeMessage](t, r.messages(`{"model":"m",`+test.rest+`}`).body)
			streamed := claudeStream(t, r.messages(`{"model":"m","stream":true,`+test.rest+`}`).body)
			streamed.ID = got.ID
			if diff := cmp.Diff(got, streamed); diff != "" && test.blocks != "" {
				t.Error(diff)
			}
			var blocks []string
			text := ""
			tokens := 0
			for _, block := range got.Content {
				blocks, text = append(blocks, block.Type), text+block.Text
				tokens += countTokens(block.Text) + countTokens(block.Thinking)
				if block.Type == "tool_use" && (block.Input["city"] != "sample city ✓" || !strings.HasPrefix(block.ID, "toolu_")) || block.Type == "thinking" && block.Signature == "" {
					t.Errorf("block %+v", block)
				}
			}
			if strings.Join(blocks, " ") != test.blocks || !strings.Contains(text, test.has) || got.StopReason != test.reason {
				t.Errorf("got %+v", got)
			}
			if stopped := got.StopSequence; (stopped == nil) != (test.stopped == "") || stopped != nil && *stopped != test.stopped {
				t.Errorf("stopped at %v", stopped)
			}
			if got.Usage.Input != test.input || got.Usage.Output < tokens || got.Usage.Output == 0 || got.Role != "assistant" || got.Type != "message" {
				t.Errorf("usage of %+v", got)
			}
		})
	}
}

func TestAnthropicRefusals(t *testing.T) {
	r := newRig(t, Options{Models: []string{"known"}})
	const hello = `"messages":[{"role":"user","content":"hello"}]`
	for _, test := range []struct {
		name, body string
		status     int
		has        string
	}{
		{"broken JSON", `{`, 400, `"invalid_request_error"`},
		{"no max_tokens", `{"model":"known",` + hello + `}`, 400, `max_tokens: Field required`},
		{"no model", `{"max_tokens":1,` + hello + `}`, 400, `model: Field required`},
		{"no messages", `{"model":"known","max_tokens":1,"messages":[]}`, 400, `messages`},
		{"unknown model", `{"model":"other","max_tokens":1,` + hello + `}`, 404, `"not_found_error","message":"model: other"`},
		{"role", `{"model":"known","max_tokens":1,"messages":[{"role":"system","content":"x"}]}`, 400, `Unexpected role`},
		{"content", `{"model":"known","max_tokens":1,"messages":[{"role":"user","content":3}]}`, 400, `content`},
		{"small budget", `{"model":"known","max_tokens":5000,"thinking":{"type":"enabled","budget_tokens":5},` + hello + `}`, 400, `budget_tokens`},
		{"budget over the limit", `{"model":"known","max_tokens":1024,"thinking":{"type":"enabled","budget_tokens":1024},` + hello + `}`, 400, `max_tokens`},
	} {
		if got := r.messages(test.body); got.status != test.status || !strings.HasPrefix(got.body, `{"type":"error","error":{"type":"`) || !strings.Contains(got.body, test.has) {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
	if got := r.post("/v1/messages", `{}`); got.status != 400 || !strings.Contains(got.body, "anthropic-version") {
		t.Errorf("no version: %+v", got)
	}
	for status, kind := range map[int]string{401: "authentication_error", 403: "permission_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 504: "timeout_error", 529: "overloaded_error"} {
		r.Script(Step{Status: status})
		if got := r.messages(`{}`); got.status != status || !strings.Contains(got.body, `"type":"`+kind+`"`) {
			t.Errorf("%d: %+v", status, got)
		}
	}
	if got := r.do(waittest.Context(t), http.MethodPost, "/v1/messages/none", ""); got.status != 404 || !strings.Contains(got.body, `"not_found_error"`) {
		t.Errorf("unknown path: %+v", got)
	}
}
