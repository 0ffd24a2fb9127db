package simulator

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

type ollamaLine struct {
	Model     string
	CreatedAt string `json:"created_at"`
	Message   struct {
		Role, Content, Thinking string
		ToolCalls               []struct {
			ID       string
			Function struct {
				Index     int
				Name      string
				Arguments map[string]any
			}
		} `json:"tool_calls"`
	}
	Done       bool
	DoneReason string `json:"done_reason"`
	Prompt     int    `json:"prompt_eval_count"`
	Said       int    `json:"eval_count"`
	Total      int64  `json:"total_duration"`
}

// ollamaAnswer asks for a stream, joins its lines and sees that the same comes
// whole.
func ollamaAnswer(t *testing.T, r *rig, rest string) ollamaLine {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(r.post("/api/chat", `{"model":"m",`+rest+`}`).body, "\n"), "\n")
	var joined ollamaLine
	for i, text := range lines {
		line := read[ollamaLine](t, text)
		if line.Done != (i == len(lines)-1) || line.Message.Role != "assistant" || line.CreatedAt == "" {
			t.Fatalf("line %d: %s", i, text)
		}
		line.Message.Content = joined.Message.Content + line.Message.Content
		line.Message.Thinking = joined.Message.Thinking + line.Message.Thinking
		line.Message.ToolCalls = append(joined.Message.ToolCalls, line.Message.ToolCalls...)
		line.CreatedAt = ""
		joined = line
	}
	plain := read[ollamaLine](t, r.post("/api/chat", `{"stream":false,"model":"m",`+rest+`}`).body)
	plain.CreatedAt = ""
	if diff := cmp.Diff(plain, joined); diff != "" {
		t.Error(diff)
	}
	return joined
}

func TestOllamaChat(t *testing.T) {
	const hello = `"messages":[{"role":"system","content":"be nice"},{"role":"user","content":"hello"}]`
	tests := []struct {
		name, rest string
		step       Step
		text       string // a part of it
		thinks     bool
		reason     string
		prompt     int
	}{
		{"greets", hello, Step{}, `"hello"`, false, "stop", 3},
		{"thinks when asked", `"think":true,` + hello, Step{}, `"hello"`, true, "stop", 3},
		{"thinks at a level", `"think":"low",` + hello, Step{}, `"hello"`, true, "stop", 3},
		{"thinks when told", `"messages":[{"role":"user","content":"THINK hard"}]`, Step{}, "THINK hard", true, "stop", 2},
		{"does not think when forbidden", `"think":false,"messages":[{"role":"user","content":"THINK"}]`, Step{}, "THINK", false, "stop", 1},
		{"num_predict", `"options":{"num_predict":2},` + hello, Step{Text: "one two three"}, "one two", false, "length", 3},
		{"no limit", `"options":{"num_predict":-1},` + hello, Step{Text: "one two three"}, "one two three", false, "stop", 3},
		{"stop", `"options":{"stop":[" two"]},` + hello, Step{Text: "one two three"}, "one", false, "stop", 3},
		{"json", `"format":"json",` + hello, Step{}, `{"simulated":true`, false, "stop", 3},
		{"schema", `"format":{"type":"object","properties":{"n":{"type":"integer"}}},` + hello, Step{}, `{"n":1}`, false, "stop", 3},
		{"images", `"messages":[{"role":"user","content":"look","images":["aGk=","aGk="]}]`, Step{}, "2 images", false, "stop", 1 + 2*imageTokens},
		{"tool result", `"messages":[{"role":"user","content":"go"},{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","content":"42"}]`, Step{}, `"42"`, false, "stop", 1 + 1 + 2 + 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, Options{Default: Behaviour{Step: test.step}})
			got := ollamaAnswer(t, r, test.rest)
			if !strings.Contains(got.Message.Content, test.text) || (got.Message.Thinking != "") != test.thinks || got.DoneReason != test.reason {
				t.Errorf("got %+v", got)
			}
			if got.Prompt != test.prompt || got.Said != countTokens(got.Message.Content)+countTokens(got.Message.Thinking) || got.Total == 0 {
				t.Errorf("counts of %+v", got)
			}
		})
	}
}

func TestOllamaCallsTools(t *testing.T) {
	r := newRig(t, Options{})
	got := ollamaAnswer(t, r, weatherTool+`,"messages":[{"role":"user","content":"ask get_weather"}]`)
	calls := got.Message.ToolCalls
	if len(calls) != 1 || calls[0].ID == "" || calls[0].Function.Name != "get_weather" || got.DoneReason != "stop" || got.Message.Content != "" {
		t.Fatalf("got %+v", got)
	}
	if diff := cmp.Diff(map[string]any{"city": "sample city ✓", "days": 1.0, "unit": "C"}, calls[0].Function.Arguments); diff != "" {
		t.Error(diff)
	}
	cut := ollamaAnswer(t, r, weatherTool+`,"options":{"num_predict":3},"messages":[{"role":"user","content":"ask get_weather"}]`)
	if len(cut.Message.ToolCalls) != 0 || cut.DoneReason != "length" || cut.Said != 3 {
		t.Errorf("half a call: %+v", cut)
	}
}

func TestOllamaEmbeds(t *testing.T) {
	r := newRig(t, Options{})
	got := read[struct {
		Model      string
		Embeddings [][]float32
		Prompt     int `json:"prompt_eval_count"`
	}](t, r.post("/api/embed", `{"model":"m","input":["the cat","the dog"],"dimensions":32}`).body)
	if len(got.Embeddings) != 2 || len(got.Embeddings[0]) != 32 || got.Prompt != 4 || got.Model != "m" {
		t.Errorf("got %+v", got)
	}
	same := read[embeddings](t, r.post("/v1/embeddings", `{"model":"m","input":"the cat","dimensions":32}`).body)
	if diff := cmp.Diff(same.Data[0].Embedding, got.Embeddings[0]); diff != "" {
		t.Error(diff)
	}
	if got := r.post("/api/embed", `{"model":"m","input":"one"}`); !strings.Contains(got.body, `"embeddings":[[`) {
		t.Errorf("got %+v", got)
	}
	if got := r.post("/api/embed", `{"model":"m"}`); !strings.Contains(got.body, `"embeddings":[],`) {
		t.Errorf("got %+v", got)
	}
}

func TestOllamaRefusals(t *testing.T) {
	r := newRig(t, Options{Models: []string{"known"}})
	for _, test := range []struct {
		name, path, body string
		status           int
		start            string
	}{
		{"no body", "/api/chat", ``, 400, `{"error":"missing request body"}`},
		{"broken JSON", "/api/chat", `{"model":`, 400, `{"error":"`},
		{"no model", "/api/chat", `{}`, 400, `{"error":"model is required"}`},
		{"unknown model", "/api/embed", `{"model":"other"}`, 404, `{"error":"model 'other' not found"}`},
		{"bad format", "/api/chat", `{"model":"known","format":3,"messages":[]}`, 400, `{"error":"invalid format`},
		{"bad stop", "/api/chat", `{"model":"known","options":{"stop":3}}`, 400, `{"error":"option`},
		{"bad input", "/api/embed", `{"model":"known","input":3}`, 400, `{"error":"invalid input type"}`},
		{"bad dimensions", "/api/embed", `{"model":"known","input":"a","dimensions":0}`, 400, `{"error":"dimensions`},
		{"unknown path", "/api/push", `{}`, 404, `{"error":"`},
		{"only loads", "/api/chat", `{"model":"known:latest"}`, 200, `{"model":"known:latest"`},
	} {
		if got := r.do(waittest.Context(t), http.MethodPost, test.path, test.body); got.status != test.status || !strings.HasPrefix(got.body, test.start) {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
}
