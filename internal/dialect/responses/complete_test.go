package responses

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// scan returns the root of a text.
func scan(t *testing.T, text string) jsonscan.Value {
	t.Helper()
	doc := new(jsonscan.Document)
	if err := doc.Parse([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return doc.Root()
}

// completedBy returns a response with what it lacks, given the request.
func completedBy(t *testing.T, request, response string) map[string]any {
	t.Helper()
	doc := new(jsonscan.Document)
	if err := doc.Parse([]byte(response)); err != nil {
		t.Fatal(err)
	}
	edits := EchoOf(scan(t, request)).Complete(nil, doc.Root())
	var got map[string]any
	if err := json.Unmarshal(bytes.Join(doc.Splice(nil, edits), nil), &got); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTheResponsesOfABackendAreCompleted(t *testing.T) {
	request := `{"model":"m","input":"a","temperature":0.5,"reasoning":{"effort":"low"},"text":{"verbosity":"low"},"instructions":"be brief",
		"tools":[{"type":"function","name":"f"}],"store":false,"presence_penalty":1}`
	got := completedBy(t, request, `{"id":"resp_1","object":"response","created_at":7,"status":"completed","completed_at":8,"model":"m",
		"output":[],"temperature":null,"vendor":1,"usage":{"input_tokens":2,"output_tokens":3}}`)
	want := map[string]any{
		"id": "resp_1", "object": "response", "created_at": 7.0, "status": "completed", "completed_at": 8.0, "model": "m", "output": []any{}, "vendor": 1.0,
		"background": false, "error": nil, "incomplete_details": nil, "instructions": "be brief", "max_output_tokens": nil, "max_tool_calls": nil,
		"metadata": map[string]any{}, "parallel_tool_calls": true, "previous_response_id": nil, "prompt_cache_key": nil, "safety_identifier": nil,
		"reasoning": map[string]any{"effort": "low", "summary": nil}, "service_tier": "default", "store": false,
		"temperature": 0.5, "top_p": 1.0, "presence_penalty": 1.0, "frequency_penalty": 0.0, "top_logprobs": 0.0, "truncation": "disabled", "tool_choice": "auto",
		"text":  map[string]any{"format": map[string]any{"type": "text"}, "verbosity": "low"},
		"tools": []any{map[string]any{"type": "function", "name": "f", "description": nil, "parameters": nil, "strict": nil}},
		"usage": map[string]any{
			"input_tokens": 2.0, "output_tokens": 3.0, "total_tokens": 5.0,
			"input_tokens_details": map[string]any{"cached_tokens": 0.0, "cache_write_tokens": 0.0}, "output_tokens_details": map[string]any{"reasoning_tokens": 0.0},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("a response of a backend (-want +got):\n%s", diff)
	}

	// What some servers send when a response begins.
	begun := completedBy(t, `{"model":"m","input":"a"}`, `{"id":"resp_1","object":"response","status":"in_progress"}`)
	if created, _ := begun["created_at"].(float64); created == 0 || begun["completed_at"] != nil || begun["model"] != "m" || begun["usage"] != nil {
		t.Errorf("a response that begins: %v", begun)
	}
	if _, has := begun["user"]; has {
		t.Error("it has a member that nobody requires")
	}
}

// A response that was completed needs nothing else, and one that was made here has
// everything, so that no answer is touched without a reason.
func TestAWholeResponseIsLeftAlone(t *testing.T) {
	request := `{"model":"m","input":"a","tools":[{"type":"function","name":"f"},{"type":"web_search"}]}`
	got := completedBy(t, request, `{"id":"resp_1"}`)
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	whole := scan(t, string(text))
	if !IsWhole(whole) {
		t.Errorf("%s is not whole", text)
	}
	if edits := EchoOf(scan(t, request)).Complete(nil, whole); len(edits) > 0 {
		t.Errorf("%d edits of a whole response", len(edits))
	}
	read, err := Read(scan(t, request), nil, chat.Room{})
	if err != nil {
		t.Fatal(err)
	}
	stream := read.NewStream()
	events, response := stream.End(chat.Usage{})
	if made := scan(t, string(response)); !IsWhole(made) {
		t.Errorf("the response that was made here is not whole: %s", response)
	}
	for line := range strings.Lines(string(events)) {
		if data, isData := strings.CutPrefix(line, "data: "); isData && strings.Contains(data, `"response":{`) {
			if snapshot := scan(t, data).Get("response"); !IsWhole(snapshot) {
				t.Errorf("the snapshot of an event is not whole: %s", data)
			}
		}
	}
}

func TestMembersHaveTheirNumbers(t *testing.T) {
	for i := range len(echoed) + len(others) {
		if name := memberAt(i).name; memberNames.Number([]byte(name)) != i {
			t.Errorf("%s has the number %d, want %d", name, memberNames.Number([]byte(name)), i)
		}
	}
	if last := echoed[len(echoed)-1].name; last != "user" {
		t.Errorf("%s is not required", last)
	}
}

func BenchmarkIsWhole(b *testing.B) {
	doc := new(jsonscan.Document)
	w := `{"id":"resp_1","object":"response","created_at":7,"status":"completed","completed_at":8,"error":null,"incomplete_details":null,"output":[],"usage":null,"background":false`
	for _, m := range echoed {
		w += `,"` + m.name + `":` + m.without
	}
	if err := doc.Parse([]byte(w + "}")); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if !IsWhole(doc.Root()) {
			b.Fatal("it is not whole")
		}
	}
}
