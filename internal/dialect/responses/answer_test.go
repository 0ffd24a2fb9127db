package responses

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// toolsForTests are the tools of the requests of these tests.
const toolsForTests = `"tools":[{"type":"function","name":"f"},{"type":"custom","name":"patch"},{"type":"namespace","name":"space","tools":[{"type":"function","name":"g"},{"type":"custom","name":"h"}]}]`

// randomMessage makes a message of a model in the unified form.
func randomMessage(r *rand.Rand) map[string]any {
	text := func() string {
		var b strings.Builder
		for range 1 + r.IntN(20) {
			b.WriteRune([]rune("ab \n\"\\é😀{}\x01")[r.IntN(11)])
		}
		return b.String()
	}
	m := map[string]any{"role": "assistant", "content": nil}
	if r.IntN(3) > 0 {
		m["content"] = text()
	}
	switch r.IntN(4) {
	case 0:
		m["reasoning_content"] = text()
	case 1:
		m["thinking_blocks"] = []any{map[string]any{"type": "thinking", "thinking": text(), "signature": text()}}
	case 2:
		m["extra_content"] = map[string]any{"google": map[string]any{"thought_signature": text()}}
	}
	if m["content"] == nil && r.IntN(2) == 0 {
		m["refusal"] = text()
	}
	if m["content"] == nil && m["refusal"] == nil || r.IntN(2) == 0 {
		var calls []any
		for i := range 1 + r.IntN(3) {
			name := []string{"f", "patch", "space__g", "space__h"}[r.IntN(4)]
			arguments := `{"a":"` + strings.Repeat("x", r.IntN(5)) + `"}`
			if name == "patch" || name == "space__h" {
				quoted, _ := jsontext.AppendQuote(nil, text())
				arguments = `{"input":` + string(quoted) + `}`
			}
			call := map[string]any{"id": fmt.Sprintf("call_%d", i), "type": "function", "function": map[string]any{"name": name, "arguments": arguments}}
			if r.IntN(3) == 0 {
				call["extra_content"] = map[string]any{"google": map[string]any{"thought_signature": text()}}
			}
			calls = append(calls, call)
		}
		m["tool_calls"] = calls
	}
	return m
}

// answerOf reads a completion, or a chunk of one, in whose choices the model speaks in the
// member said.
func answerOf(t *testing.T, said string, text []byte) *chat.Answer {
	t.Helper()
	doc := jsonscan.Document{Deep: true}
	if err := doc.Parse(text); err != nil {
		t.Fatal(err)
	}
	answer := new(chat.Answer)
	choice := doc.Root().Get("choices").First()
	answer.Add(0).Read(choice, choice.Get(said))
	return answer
}

// givenBack returns the message that a model's response becomes when the client sends it
// back as input.
func givenBack(t *testing.T, response []byte) any {
	t.Helper()
	var parsed struct {
		Status string           `json:"status"`
		Output []jsontext.Value `json:"output"`
	}
	if err := json.Unmarshal(response, &parsed); err != nil {
		t.Fatalf("%v in %s", err, response)
	}
	items := make([]string, len(parsed.Output))
	for i, item := range parsed.Output {
		items[i] = string(item)
	}
	next, err := read(t, `{"input":[`+strings.Join(items, ",")+`],`+toolsForTests+`}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	var asked struct {
		Messages []any `json:"messages"`
	}
	if err := json.Unmarshal(unified(next), &asked); err != nil {
		t.Fatal(err)
	}
	if len(asked.Messages) != 1 {
		t.Fatalf("%d messages in %s", len(asked.Messages), unified(next))
	}
	return asked.Messages[0]
}

func TestAnswersLoseNothingOnTheirWayToTheClientAndBack(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		message := randomMessage(r)
		encoded, err := json.Marshal(message, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		var want any
		if err := json.Unmarshal(encoded, &want); err != nil {
			t.Fatal(err)
		}
		req, err := read(t, `{"input":"a",`+toolsForTests+`}`, nil)
		if err != nil {
			t.Fatal(err)
		}
		var whole dialect.Reply
		if err := (&translator{req: req}).reply(nil, answerOf(t, "message", []byte(`{"choices":[{"index":0,"message":`+string(encoded)+`,"finish_reason":"stop"}]}`)), &whole); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, givenBack(t, whole.Segments[0])); diff != "" {
			t.Fatalf("seed %d, whole: %s", seed, diff)
		}
		stream := req.NewStream()
		for _, chunk := range chunksOf(t, r, message) {
			if _, err := stream.Add(answerOf(t, "delta", chunk)); err != nil {
				t.Fatal(err)
			}
		}
		_, streamed := stream.End(chat.Usage{})
		if diff := cmp.Diff(want, givenBack(t, streamed)); diff != "" {
			t.Fatalf("seed %d, stream: %s", seed, diff)
		}
	}
}

// chunksOf makes chunks of a message, with texts in pieces.
func chunksOf(t *testing.T, r *rand.Rand, message map[string]any) [][]byte {
	t.Helper()
	var deltas []map[string]any
	add := func(name string, value any) { deltas = append(deltas, map[string]any{name: value}) }
	deltas = append(deltas, map[string]any{"role": "assistant", "content": ""})
	for _, name := range []string{"reasoning_content", "thinking_blocks", "content", "refusal", "extra_content"} {
		switch value := message[name].(type) {
		case string:
			for _, piece := range pieces(r, value) {
				add(name, piece)
			}
		case nil:
		default:
			add(name, value)
		}
	}
	calls, _ := message["tool_calls"].([]any)
	for i, c := range calls {
		call := c.(map[string]any)
		function := call["function"].(map[string]any)
		first := map[string]any{"index": i, "id": call["id"], "type": "function", "function": map[string]any{"name": function["name"], "arguments": ""}}
		if extra := call["extra_content"]; extra != nil {
			first["extra_content"] = extra
		}
		add("tool_calls", []any{first})
		for _, piece := range pieces(r, function["arguments"].(string)) {
			add("tool_calls", []any{map[string]any{"index": i, "function": map[string]any{"arguments": piece}}})
		}
	}
	chunks := make([][]byte, 0, len(deltas)+1)
	for _, delta := range deltas {
		chunk, err := json.Marshal(map[string]any{"id": "x", "choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": nil}}}, json.Deterministic(true))
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, chunk)
	}
	return append(chunks, []byte(`{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`))
}

// pieces cuts a text between characters.
func pieces(r *rand.Rand, text string) []string {
	var list []string
	runes := []rune(text)
	for len(runes) > 0 {
		n := 1 + r.IntN(len(runes))
		list = append(list, string(runes[:n]))
		runes = runes[n:]
	}
	return list
}

// streamed returns the events for some deltas and how the stream ends.
func streamed(t *testing.T, req *Request, finish string, deltas ...string) string {
	t.Helper()
	stream := req.NewStream()
	out := ""
	for _, delta := range deltas {
		events, err := stream.Add(answerOf(t, "delta", []byte(`{"choices":[{"index":0,"delta":`+delta+`,"finish_reason":null}]}`)))
		if err != nil {
			t.Fatal(err)
		}
		out += string(events)
	}
	events, err := stream.Add(answerOf(t, "delta", []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"`+finish+`"}]}`)))
	if err != nil {
		t.Fatal(err)
	}
	out += string(events)
	last, _ := stream.End(chat.Usage{})
	return out + string(last)
}

// namesOf returns the names of events, and checks their numbers.
func namesOf(t *testing.T, events string) []string {
	t.Helper()
	var names []string
	for i, event := range strings.Split(strings.TrimSuffix(events, "\n\n"), "\n\n") {
		name, data, _ := strings.Cut(event, "\n")
		var parsed struct {
			Type   string `json:"type"`
			Number int    `json:"sequence_number"`
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &parsed); err != nil {
			t.Fatalf("%v in %q", err, event)
		}
		if "event: "+parsed.Type != name || parsed.Number != i {
			t.Errorf("event %d has the name %q, the type %q and the number %d", i, name, parsed.Type, parsed.Number)
		}
		names = append(names, strings.TrimPrefix(parsed.Type, "response."))
	}
	return names
}

func TestTheEventsOfAStreamComeInTheirOrder(t *testing.T) {
	req, err := read(t, `{"input":"a",`+toolsForTests+`}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	message := []string{"output_item.added", "content_part.added", "output_text.delta", "output_text.done", "content_part.done", "output_item.done"}
	for _, test := range []struct {
		name   string
		finish string
		deltas []string
		want   []string
		end    string
	}{
		{"text", "stop", []string{`{"role":"assistant","content":""}`, `{"content":"a"}`}, message, "completed"},
		{"nothing", "stop", nil, slices.Delete(slices.Clone(message), 2, 3), "completed"},
		{"too long", "length", []string{`{"content":"a"}`}, message, "incomplete"},
		{"withheld", "content_filter", []string{`{"content":"a"}`}, message, "incomplete"},
		{
			"a refusal", "stop",
			[]string{`{"refusal":"n"}`, `{"refusal":"o"}`},
			[]string{"output_item.added", "content_part.added", "refusal.delta", "refusal.delta", "refusal.done", "content_part.done", "output_item.done"}, "completed",
		},
		{
			"thinking", "stop",
			[]string{`{"reasoning_content":"x"}`, `{"content":"a"}`},
			append([]string{"output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta", "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done"}, message...), "completed",
		},
		{
			"calls", "tool_calls",
			[]string{
				`{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"2","function":{"name":"f","arguments":""}}]}`,
				`{"tool_calls":[{"index":2,"id":"3","function":{"name":"patch","arguments":"{\"input\":\"x\"}"}}]}`,
			},
			[]string{
				"output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
				"output_item.added", "function_call_arguments.done", "output_item.done",
				"output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done",
			}, "completed",
		},
		{
			"calls that share an index", "tool_calls",
			[]string{`{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}},{"index":0,"id":"2","function":{"name":"f","arguments":"{}"}}]}`},
			[]string{
				"output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
				"output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
			}, "completed",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := append([]string{"created", "in_progress"}, test.want...)
			events := streamed(t, req, test.finish, test.deltas...)
			if diff := cmp.Diff(append(want, test.end), namesOf(t, events)); diff != "" {
				t.Errorf("%s\n%s", diff, events)
			}
			if strings.Contains(events, "[DONE]") {
				t.Error("the mark of another API")
			}
		})
	}
}

func TestAStreamThatBreaksOffIsNeverComplete(t *testing.T) {
	req, err := read(t, `{"input":"a"}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	for status, code := range map[int]string{429: "rate_limit_exceeded", 400: "invalid_prompt", 502: "server_error"} {
		stream := req.NewStream()
		chunk, err := stream.Add(answerOf(t, "delta", []byte(`{"choices":[{"delta":{"content":"a"}}]}`)))
		if err != nil {
			t.Fatal(err)
		}
		events := string(chunk)
		events += string(stream.Fail(&schema.Error{Message: `it "broke"`, Code: schema.CodeUpstreamError, Status: status}))
		names := namesOf(t, events)
		if names[len(names)-1] != "failed" || slices.Contains(names, "completed") {
			t.Errorf("events %v", names)
		}
		if want := `"status":"failed","completed_at":null,"error":{"code":"` + code + `","message":"it \"broke\""}`; !strings.Contains(events, want) {
			t.Errorf("%s\nwant in it %s", events, want)
		}
	}
}

func TestChunksThatLookLikeTextButAreNotAreRead(t *testing.T) {
	req, err := read(t, `{"input":"a"}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	// The third chunk begins and ends like the first two.
	events := streamed(t, req, "stop", `{"content":"a"}`, `{"content":"b"}`, `{"content":"c","refusal":"d"}`, `{"content":"\"e\\"}`)
	for _, want := range []string{`"refusal":"d"`, `"text":"\"e\\"`, `"text":"abc"`} {
		if !strings.Contains(events, want) {
			t.Errorf("no %s in %s", want, events)
		}
	}
}

func TestEchoesOfARequestWithLineBreaksStayInOneLine(t *testing.T) {
	req, err := read(t, "{\"input\":\"a\",\"tools\":[\n{\"type\":\"function\",\r\n\"name\":\"f\"}]}", nil)
	if err != nil {
		t.Fatal(err)
	}
	namesOf(t, streamed(t, req, "stop"))
}

func TestTextOfAStreamCostsNoAllocations(t *testing.T) {
	req, err := read(t, `{"input":"a"}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	stream := req.NewStream()
	delta := answerOf(t, "delta", []byte(`{"id":"x","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}`))
	write := func() {
		if _, err := stream.Add(delta); err != nil {
			t.Fatal(err)
		}
	}
	for range 10_000 { // until the text has room
		write()
	}
	if allocations := testing.AllocsPerRun(100, write); allocations > 0.5 {
		t.Errorf("%v allocations for a chunk", allocations)
	}
}
