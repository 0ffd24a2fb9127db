package turns_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/wings/runs/turns"
)

// step is a call of a tool, or of several, and the results.
type step struct{ id, args, result string }

// conversations write a conversation with the words of a user and steps, at each door.
var conversations = map[schema.Door]func(user string, steps []step) string{
	schema.DoorChat: func(user string, steps []step) string {
		text := `{"model":"m","messages":[{"role":"system","content":"be brief"},{"role":"user","content":` + quote(user) + `}`
		for _, s := range steps {
			text += fmt.Sprintf(`,{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":`+
				`{"name":"run","arguments":%s}}]},{"role":"tool","tool_call_id":%q,"content":%s}`,
				s.id, quote(s.args), s.id, quote(s.result))
		}
		return text + `]}`
	},
	schema.DoorOllamaChat: func(user string, steps []step) string {
		text := `{"model":"m","messages":[{"role":"user","content":` + quote(user) + `}`
		for _, s := range steps {
			text += fmt.Sprintf(`, {"role":"assistant","content":"","tool_calls":[{"id":%q,"function":{"index":0,"name":"run",`+
				`"arguments":{"id":%s}}}]} , {"role":"tool","tool_name":"run","content":%s}`, s.id, quote(s.args), quote(s.result))
		}
		return text + `]}`
	},
	schema.DoorMessages: func(user string, steps []step) string {
		text := `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":` + quote(user) + `}]}`
		for i, s := range steps {
			mark := ""
			if i == len(steps)-1 {
				mark = `,"cache_control":{"type":"ephemeral"}`
			}
			text += fmt.Sprintf(`,{"role":"assistant","content":[{"type":"text","text":"try %d"},{"type":"tool_use","id":%q,`+
				`"name":"run","input":{"id":%s}}]},{"role":"user","content":[{"tool_use_id":%q,"type":"tool_result",`+
				`"content":[{"type":"text","text":%s}]%s},{"type":"text","text":"turn %d"}]},{"role":"system","content":"turn %d"}`,
				i, s.id, quote(s.args), s.id, quote(s.result), mark, i, i)
		}
		return text + `],"metadata":{"user_id":"turn ` + fmt.Sprint(len(steps)) + `"}}`
	},
	schema.DoorResponses: func(user string, steps []step) string {
		text := `{"model":"m","input":[{"type":"message","role":"user","content":[{"type":"input_text","text":` + quote(user) + `}]}`
		for _, s := range steps {
			text += fmt.Sprintf(`,{"type":"reasoning","id":"r%s","summary":[]},{"type":"function_call","status":"completed","id":"fc_%s",`+
				`"name":"run","arguments":%s,"call_id":%q},{"type":"function_call_output","id":"o%s","call_id":%q,"output":%s}`,
				s.id, s.id, quote(s.args), s.id, s.id, s.id, quote(s.result))
		}
		return text + `]}`
	},
	schema.DoorGemini: func(user string, steps []step) string {
		text := `{"contents":[{"role":"user","parts":[{"text":` + quote(user) + `}]}`
		for _, s := range steps {
			text += fmt.Sprintf(`,{"role":"model","parts":[{"functionCall":{"id":%q,"name":"run","args":{"id":%s}},`+
				`"thoughtSignature":"s%s"}]},{"role":"user","parts":[{"functionResponse":{"id":%q,"name":"run",`+
				`"response":{"output":%s}}}]}`, s.id, quote(s.args), s.id, s.id, quote(s.result))
		}
		return text + `]}`
	},
}

func quote(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(quoted)
}

func read(t testing.TB, reader *turns.Reader, door schema.Door, body string) turns.Turn {
	t.Helper()
	turn, ok := reader.Read(request(t, door, body), "")
	if !ok {
		t.Fatalf("%s: no turn: %s", door, body)
	}
	return turn
}

func request(t testing.TB, door schema.Door, body string) *schema.Request {
	t.Helper()
	req := &schema.Request{Door: door}
	if err := req.Body.Parse([]byte(body)); err != nil {
		t.Fatalf("%s: %v: %s", door, err, body)
	}
	return req
}

// TestStepsAreEqualWithoutTheirIDs compares the last steps of conversations that grow.
func TestStepsAreEqualWithoutTheirIDs(t *testing.T) {
	const long = "no such file or directory: /srv/data/today.csv"
	for name, c := range map[string]struct {
		a, b  step
		equal bool
	}{
		"the same":                         {step{"c1", "ls", long}, step{"c2", "ls", long}, true},
		"another call, the same result":    {step{"c1", "ls a", long}, step{"c2", "ls b", long}, true},
		"the same call, another result":    {step{"c1", "ls", "10 %"}, step{"c2", "ls", "20 %"}, false},
		"another call, acknowledged":       {step{"c1", "edit 1", "The file a.go has been updated."}, step{"c2", "edit 2", "The file a.go has been updated."}, false},
		"the same call, acknowledged":      {step{"c1", "edit 1", "The file a.go has been updated."}, step{"c2", "edit 1", "The file a.go has been updated."}, true},
		"another call, nothing":            {step{"c1", "mv a b", ""}, step{"c2", "mv b c", ""}, false},
		"another call, ok":                 {step{"c1", "mv a b", "OK.\n"}, step{"c2", "mv b c", "OK.\n"}, false},
		"another call, no matches":         {step{"c1", "grep a", "No matches found"}, step{"c2", "grep b", "No matches found"}, false},
		"another call, not updated":        {step{"c1", "edit 1", "Error: the file was not updated"}, step{"c2", "edit 2", "Error: the file was not updated"}, true},
		"Codex, the same output":           {step{"c1", "ls", "Chunk ID: dfc9cd\nWall time: 0.01 seconds\nProcess exited with code 1\nOutput:\nx"}, step{"c2", "ls", "Chunk ID: 000000\nWall time: 0.02 seconds\nProcess exited with code 1\nOutput:\nx"}, true},
		"Codex before, the same output":    {step{"c1", "ls", "Exit code: 1\nWall time: 0.1 seconds\nOutput:\nx"}, step{"c2", "ls", "Exit code: 1\nWall time: 0.2 seconds\nOutput:\nx"}, true},
		"Codex before, another code":       {step{"c1", "ls", "Exit code: 1\nWall time: 0.1 seconds\nOutput:\nx"}, step{"c2", "ls", "Exit code: 2\nWall time: 0.1 seconds\nOutput:\nx"}, false},
		"Codex, other calls done":          {step{"c1", "rm a", "Chunk ID: d\nWall time: 0.01 seconds\nProcess exited with code 0\nOutput:\n"}, step{"c2", "rm b", "Chunk ID: e\nWall time: 0.01 seconds\nProcess exited with code 0\nOutput:\n"}, false},
		"Qwen Code, the same output":       {step{"c1", "ls", "Output: 11\nSignal: 0\nProcess Group PGID: 25463"}, step{"c2", "ls", "Output: 11\nSignal: 0\nProcess Group PGID: 7"}, true},
		"long results that end unlike":     {step{"c1", "ls", strings.Repeat("x", 4000) + "1"}, step{"c2", "ls", strings.Repeat("x", 4000) + "2"}, false},
		"long results that are the same":   {step{"c1", "ls", strings.Repeat(`"x\`, 4000)}, step{"c2", "ls", strings.Repeat(`"x\`, 4000)}, true},
		"long results with a frame inside": {step{"c1", "ls", "x\nWall time: 1\n"}, step{"c2", "ls", "x\nWall time: 2\n"}, false},
	} {
		for door, write := range conversations {
			reader := turns.NewReader()
			first := read(t, reader, door, write("do it", []step{{"c0", "pwd", "/srv/of/something"}, c.a}))
			second := read(t, reader, door, write("do it", []step{{"c0", "pwd", "/srv/of/something"}, c.a, c.b}))
			if first.Step == 0 || second.Step == 0 {
				t.Errorf("%s at %s: a step has no print", name, door)
			}
			if (first.Step == second.Step) != c.equal {
				t.Errorf("%s at %s: equal is %v", name, door, !c.equal)
			}
			if first.Body == second.Body {
				t.Errorf("%s at %s: a longer conversation has an equal body", name, door)
			}
		}
	}
}

// TestBodiesAreEqualWithoutTheirSenders compares whole requests.
func TestBodiesAreEqualWithoutTheirSenders(t *testing.T) {
	const a = `{"model":"m","messages":[{"role":"user","content":"hi"}],"metadata":{"user_id":"1"},"user":"u"}`
	for body, equal := range map[string]bool{
		a: true,
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"metadata":{"user_id":"2"},"user":"v","prompt_cache_key":"k"}`: true,
		`{"model":"m","messages":[{"role":"user","content":"ho"}],"metadata":{"user_id":"1"},"user":"u"}`:                        false,
		`{"model":"n","messages":[{"role":"user","content":"hi"}],"metadata":{"user_id":"1"},"user":"u"}`:                        false,
	} {
		reader := turns.NewReader()
		if got := read(t, reader, schema.DoorChat, a).Body == read(t, reader, schema.DoorChat, body).Body; got != equal {
			t.Errorf("%s: equal is %v", body, got)
		}
	}
	for door, body := range map[schema.Door]string{
		schema.DoorCompletions:    `{"model":"m","prompt":"one %s"}`,
		schema.DoorOllamaGenerate: `{"model":"m","prompt":"one %s"}`,
		schema.DoorResponses:      `{"model":"m","input":"one %s"}`,
		schema.DoorGemini:         `{"contents":[{"parts":[{"text":"one %s"}]}]}`,
	} {
		reader := turns.NewReader()
		one, two, three := fmt.Sprintf(body, "1"), fmt.Sprintf(body, "1"), fmt.Sprintf(body, "2")
		if read(t, reader, door, one) != read(t, reader, door, two) || read(t, reader, door, one) == read(t, reader, door, three) {
			t.Errorf("%s: other texts, or not the same ones, are equal", door)
		}
	}
}

// TestAConversationWithoutTools has a model that says the same to the same reply.
func TestAConversationWithoutTools(t *testing.T) {
	reader := turns.NewReader()
	chat := func(said ...string) turns.Turn {
		text := `{"model":"m","messages":[{"role":"user","content":"hi"}`
		for i, words := range said {
			text += fmt.Sprintf(`,{"role":%q,"content":%q}`, [...]string{"assistant", "user"}[i%2], words)
		}
		return read(t, reader, schema.DoorChat, text+`]}`)
	}
	if chat().Step != 0 || chat("a").Step != 0 {
		t.Error("a conversation without a reply has a step")
	}
	if chat("a", "go on").Step != chat("a", "go on", "a", "go on").Step {
		t.Error("the same words and the same reply are no equal steps")
	}
	if chat("a", "go on").Step == chat("a", "go on", "b", "go on").Step {
		t.Error("other words of the model are an equal step")
	}
}

// TestResultsWithoutTheirCalls has requests that continue a response which a store keeps.
func TestResultsWithoutTheirCalls(t *testing.T) {
	reader := turns.NewReader()
	turn := func(response, result string) turns.Turn {
		return read(t, reader, schema.DoorResponses, fmt.Sprintf(`{"model":"m","previous_response_id":%q,"input":[{"type":`+
			`"function_call_output","call_id":"c%s","output":%q}]}`, response, response, result))
	}
	if a, b := turn("r1", "no such file"), turn("r2", "no such file"); a.Step == 0 || a.Step != b.Step || a.Body == b.Body {
		t.Errorf("%v and %v", a, b)
	}
	if a := turn("r1", "done"); a.Step != 0 {
		t.Error("an acknowledged call that is not here has a step")
	}
}

func TestTurnsOfAgentsAndDoors(t *testing.T) {
	reader := turns.NewReader()
	req := request(t, schema.DoorChat, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	a, _ := reader.Read(req, "a")
	b, _ := reader.Read(req, "b")
	if none, _ := reader.Read(req, ""); none.Agent != 0 || a.Agent == b.Agent || a.Agent == 0 {
		t.Errorf("the agents are %v, %v and %v", none.Agent, a.Agent, b.Agent)
	}
	for _, door := range []schema.Door{schema.DoorEmbeddings, schema.DoorCountTokens, schema.DoorRerank, schema.DoorTokenize} {
		if _, ok := reader.Read(request(t, door, `{"model":"m","input":"x","messages":[]}`), ""); ok {
			t.Errorf("%s has turns", door)
		}
	}
}

// TestBeginningsStay compares what is written of a conversation while it grows.
func TestBeginningsStay(t *testing.T) {
	beginning := func(door schema.Door, body string) string {
		var into bytes.Buffer
		if !turns.Beginning(request(t, door, body), &into) {
			t.Errorf("%s: no beginning: %s", door, body)
		}
		return into.String()
	}
	for door, write := range conversations {
		first := beginning(door, write("do it", nil))
		for n := range 3 {
			if now := beginning(door, write("do it", []step{{"1", "a", "b"}, {"2", "c", "d"}, {"3", "e", "f"}}[:n])); now != first {
				t.Errorf("%s: after %d steps the beginning is %q, not %q", door, n, now, first)
			}
		}
		if beginning(door, write("do more", nil)) == first {
			t.Errorf("%s: other words begin the same", door)
		}
	}
	if turns.Beginning(request(t, schema.DoorCompletions, `{"prompt":"x"}`), new(bytes.Buffer)) ||
		turns.Beginning(request(t, schema.DoorChat, `{"messages":[]}`), new(bytes.Buffer)) {
		t.Error("a request without messages has a beginning")
	}
}

// FuzzRead reads anything that is JSON, at every door.
func FuzzRead(f *testing.F) {
	for _, write := range conversations {
		f.Add([]byte(write("hi", []step{{"1", "a", "b"}, {"2", "c", "Chunk ID: 1\nWall time: 2\n"}})))
	}
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"tool_use"}]},{"role":"user","content":[{},[],{"type":"tool_result"}]}]}`))
	f.Add([]byte(`{"input":[{"type":"function_call"},{"type":"_output","output":{"a":[{"text":{"content":[]}}]}}],"contents":[{"parts":[{"functionResponse":[]}]}]}`))
	reader := turns.NewReader()
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, door := range schema.Doors() {
			req := &schema.Request{Door: door}
			if req.Body.Parse(body) != nil {
				return
			}
			a, isTurn := reader.Read(req, "a")
			if b, _ := reader.Read(req, "a"); a != b {
				t.Errorf("%s: %v and %v", door, a, b)
			}
			if isTurn && a.Body == 0 {
				t.Errorf("%s: no body", door)
			}
			turns.Beginning(req, new(bytes.Buffer))
		}
	})
}

// BenchmarkRead reads conversations of several lengths.
func BenchmarkRead(b *testing.B) {
	for _, steps := range []int{1, 20, 400} {
		var all []step
		for i := range steps {
			all = append(all, step{fmt.Sprint("call_", i), fmt.Sprint("cat file", i), strings.Repeat("some words of a file\n", 100)})
		}
		for _, door := range []schema.Door{schema.DoorChat, schema.DoorMessages, schema.DoorResponses} {
			body := conversations[door]("do it", all)
			b.Run(fmt.Sprintf("%s/%d", door, len(body)), func(b *testing.B) {
				reader, req := turns.NewReader(), request(b, door, body)
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					reader.Read(req, "agent")
				}
			})
		}
	}
}
