package responses

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// read reads a request, whose model is added.
func read(t testing.TB, body string, past Past) (*Request, error) {
	t.Helper()
	var doc jsonscan.Document
	if err := doc.Parse([]byte(`{"model":"m",` + strings.TrimPrefix(body, "{"))); err != nil {
		t.Fatal(err)
	}
	return Read(doc.Root(), past, chat.Room{})
}

// unified returns a request in the unified shape.
func unified(req *Request) []byte {
	w := jsonwrite.Writer{Out: []byte(`{"model":"m"`)}
	w.Close("")
	req.Chat.Write(&w, "max_tokens")
	w.EndObject()
	return w.Out
}

func TestWhatCannotBeSentIsRefusedByName(t *testing.T) {
	for _, test := range []struct{ body, param, message string }{
		{`{"input":"a","background":true}`, "background", "background"},
		{`{"input":"a","conversation":"conv_1"}`, "conversation", "previous_response_id"},
		{`{"input":"a","prompt":{"id":"p"}}`, "prompt", "templates"},
		{`{"input":"a","tools":[{"type":"function","name":"f"},{"type":"file_search"}]}`, "tools[1].type", "'file_search'"},
		{`{"input":"a","tools":[{"type":"code_interpreter"}]}`, "tools[0].type", "'code_interpreter'"},
		{`{"input":"a","tools":[{"type":"mcp"}]}`, "tools[0].type", "'mcp'"},
		{`{"input":"a","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}}`, "tool_choice", "'web_search'"},
		{`{"input":"a","tools":[{"type":"web_search"}],"tool_choice":"required"}`, "tool_choice", "web_search"},
		{`{"input":"a","tool_choice":{"type":"function","name":"f"}}`, "tool_choice", "'f'"},
		{`{"input":"a","tool_choice":"perhaps"}`, "tool_choice", "auto"},
		{`{"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"computer"}]}]}`, "input[0].tools[0].type", "'computer'"},
		{`{"input":[{"type":"item_reference","id":"msg_1"}]}`, "input[0].id", "'msg_1'"},
		{`{"input":[{"id":"msg_1"}]}`, "input[0].id", "'msg_1'"},
		{`{"input":[{"type":"shell_call"}]}`, "input[0].type", "'shell_call'"},
		{`{"input":[{"role":"user","content":[{"type":"input_image","file_id":"f"}]}]}`, "input[0].content[0].file_id", "image_url"},
		{`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_file","file_url":"f"}]}]}`, "input[0].content[1].file_url", "file_data"},
		{`{"input":[{"role":"robot","content":"a"}]}`, "input[0].role", "user"},
		{`{"input":[1]}`, "input[0]", "object"},
		{`{"input":[]}`, "input", "at least one"},
		{`{"input":[{"type":"reasoning","summary":[]}]}`, "input", "a message"},
		{`{"input":7}`, "input", "string or an array"},
		{`{"stream":true}`, "input", "Missing"},
		{`{"messages":[]}`, "input", "chat completions"},
		{`{"input":"a","previous_response_id":"resp_1"}`, "previous_response_id", "'resp_1'"},
		{`{"input":"a","instructions":["b"]}`, "instructions", "string"},
		{`{"input":"a","text":{"format":{"type":"grammar"}}}`, "text.format.type", "json_schema"},
		{`{"input":"a","text":{"format":{"type":"json_schema"}}}`, "text.format.schema", "schema"},
		{`{"input":"a","store":1}`, "store", "true or false"},
		{`{"input":[{"type":"function_call","name":"f","arguments":"{}"}]}`, "input[0].call_id", "Missing"},
		{`{"input":[{"type":"function_call","call_id":"c","name":"f","arguments":{}}]}`, "input[0].arguments", "string"},
	} {
		_, err := read(t, test.body, nil)
		var known *schema.Error
		if !errors.As(err, &known) {
			t.Errorf("%s: error %v", test.body, err)
			continue
		}
		if known.Param == nil || *known.Param != test.param || !strings.Contains(known.Message, test.message) || known.HTTPStatus() != 400 {
			t.Errorf("%s: %d %s (%v), want %q of %s", test.body, known.HTTPStatus(), known.Message, *known.Param, test.message, test.param)
		}
	}
}

func TestReading(t *testing.T) {
	for _, test := range []struct{ name, body, want string }{
		{"a text", `{"input":"hi \"you\""}`, `"messages":[{"role":"user","content":"hi \"you\""}]`},
		{
			"texts of the system before the conversation are one message, later ones are texts of the user",
			`{"instructions":"a","input":[{"role":"developer","content":"b"},{"role":"system","content":[{"type":"input_text","text":"c"}]},{"role":"user","content":"d"},{"role":"developer","content":"e"}]}`,
			`"messages":[{"role":"system","content":"a\n\nb\n\nc"},{"role":"user","content":"d"},{"role":"user","content":"<system-reminder>\ne\n</system-reminder>\n"}]`,
		},
		{
			"texts of the system between turns go with the user's next message",
			`{"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"developer","content":"c"},{"role":"system","content":[{"type":"input_text","text":"d"}]},{"role":"user","content":"e"},{"role":"assistant","content":"f"},{"role":"developer","content":"g"},{"role":"user","content":[{"type":"input_text","text":"h"},{"type":"input_image","image_url":"u"}]}]}`,
			`"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"<system-reminder>\nc\n\nd\n</system-reminder>\ne"},{"role":"assistant","content":"f"},{"role":"user","content":[{"type":"text","text":"<system-reminder>\ng\n</system-reminder>\n"},{"type":"text","text":"h"},{"type":"image_url","image_url":{"url":"u"}}]}]`,
		},
		{
			"texts of the system do not part a call from its output",
			`{"input":[{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"role":"developer","content":"a"},{"type":"function_call_output","call_id":"1","output":"b"},{"role":"assistant","content":"c"}]}`,
			`"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"b"},{"role":"user","content":"<system-reminder>\na\n</system-reminder>\n"},{"role":"assistant","content":"c"}]`,
		},
		{
			"the items of a turn are one message",
			`{"input":[{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"x"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"y"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call","call_id":"2","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"a"},{"type":"function_call_output","call_id":"2","output":"b"},{"type":"function_call","call_id":"3","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"3","output":"c"}]}`,
			`"messages":[{"role":"assistant","content":"y","reasoning_content":"x","tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"a"},{"role":"tool","tool_call_id":"2","content":"b"},{"role":"assistant","content":null,"tool_calls":[{"id":"3","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"3","content":"c"}]`,
		},
		{
			"reasoning that another provider encrypted is left out",
			`{"input":[{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"x"}],"encrypted_content":"gAAAA"},{"role":"assistant","content":"y"},{"role":"user","content":"z"}]}`,
			`"messages":[{"role":"assistant","content":"y"},{"role":"user","content":"z"}]`,
		},
		{
			"a refusal",
			`{"input":[{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]},{"role":"user","content":"z"}]}`,
			`"messages":[{"role":"assistant","content":null,"refusal":"no"},{"role":"user","content":"z"}]`,
		},
		{
			"hosted tools that are offered by habit are dropped",
			`{"input":"a","tools":[{"type":"web_search"},{"type":"tool_search"},{"type":"function","name":"f","parameters":{"type":"object"}}],"tool_choice":"auto"}`,
			`"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"tool_choice":"auto"}`,
		},
		{
			"where no tool is left there is nothing to choose from",
			`{"input":"a","tools":[{"type":"web_search_preview"}],"tool_choice":"auto","parallel_tool_calls":false}`,
			`"messages":[{"role":"user","content":"a"}]}`,
		},
		{
			"additional tools count as tools, and of two with one name the first counts",
			`{"input":[{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"f"}]},{"role":"user","content":"a"}],"tools":[{"type":"function","name":"f","description":"other"},{"type":"function","name":"g"}],"parallel_tool_calls":false}`,
			`"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}],"parallel_tool_calls":false}`,
		},
		{
			"tools of a namespace get its name",
			`{"input":"a","tools":[{"type":"namespace","name":"fs","description":"x","tools":[{"type":"function","name":"read"}]}],"tool_choice":{"type":"function","name":"read","namespace":"fs"}}`,
			`"tools":[{"type":"function","function":{"name":"fs__read"}}],"tool_choice":{"type":"function","function":{"name":"fs__read"}}}`,
		},
		{
			"only the tools that are allowed are offered",
			`{"input":"a","tools":[{"type":"function","name":"f"},{"type":"function","name":"g"}],"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"function","name":"g"}]}}`,
			`"tools":[{"type":"function","function":{"name":"g"}}],"tool_choice":"required"}`,
		},
		{
			"the form of the text",
			`{"input":"a","text":{"verbosity":"low","format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true}}}`,
			`"verbosity":"low","response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"object"},"strict":true}}}`,
		},
		{
			"members of extra_body count where the request does not give them itself",
			`{"input":"a","temperature":0.5,"extra_body":{"temperature":0.1,"seed":3,"messages":[],"keep_alive":1}}`,
			`"messages":[{"role":"user","content":"a"}],"temperature":0.5,"seed":3,"keep_alive":1}`,
		},
		{
			"settings",
			`{"input":"a","stream":true,"temperature":0.5,"top_p":0.9,"max_output_tokens":9,"safety_identifier":"u","reasoning":{"effort":"low","summary":"auto"},"top_logprobs":2,"metadata":{"a":"b"},"store":false,"service_tier":"flex","prompt_cache_key":"k","truncation":"auto"}`,
			`"messages":[{"role":"user","content":"a"}],"max_tokens":9,"temperature":0.5,"top_p":0.9,"logprobs":true,"top_logprobs":2,"reasoning_effort":"low","user":"u"}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := read(t, test.body, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(unified(got)), test.want) {
				t.Errorf("%s\nwant in it\n%s", unified(got), test.want)
			}
			if err := new(schema.Request).ParseChat(unified(got)); err != nil {
				t.Errorf("not a chat request: %v\n%s", err, unified(got))
			}
		})
	}
}

func TestNamesOfToolsInNamespacesFitBackends(t *testing.T) {
	seen := map[string]bool{}
	for _, name := range []string{"a", "a.b", "a b", "a_b", strings.Repeat("x", 80), strings.Repeat("x", 80) + "y"} {
		flat := flatName("space", name)
		if len(flat) > maxName || strings.ContainsAny(flat, ". ") || seen[flat] {
			t.Errorf("%q became %q", name, flat)
		}
		seen[flat] = true
	}
	if got := flatName("mcp__fs__", "read"); got != "mcp__fs__read" {
		t.Errorf("got %q", got)
	}
}

// fakePast is a store of items.
type fakePast map[string]string

func (p fakePast) Conversation(id string) ([]byte, error) {
	if items, ok := p[id]; ok {
		return []byte(items), nil
	}
	return nil, NotFound(id)
}

func (p fakePast) Item(id string) ([]byte, error) {
	if item, ok := p[id]; ok {
		return []byte(item), nil
	}
	return nil, nil
}

func TestWhatWasStoredIsReadAgain(t *testing.T) {
	response := NewID()
	reference := itemID(messagePrefix, response, 1)
	thought := itemID(reasoningPrefix, response, 0)
	var kept state
	kept.extra = []byte(`{"google":{"thought_signature":"s"}}`)
	past := fakePast{
		response:  `{"type":"message","role":"user","content":[{"type":"input_text","text":"one"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"two"}]}`,
		reference: `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"two"}]}`,
		thought:   `{"type":"reasoning","id":"` + thought + `","summary":[],"encrypted_content":"` + kept.seal() + `"}`,
	}
	got, err := read(t, `{"previous_response_id":"`+response+`","instructions":"new","input":"three"}`, past)
	if err != nil {
		t.Fatal(err)
	}
	want := `"messages":[{"role":"system","content":"new"},{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"three"}]`
	if !strings.Contains(string(unified(got)), want) || got.Previous != response {
		t.Errorf("%s\nwant\n%s", unified(got), want)
	}
	if strings.Contains(string(got.Input), `"one"`) || !strings.Contains(string(got.Input), "three") {
		t.Errorf("the input of this request is %s", got.Input)
	}
	got, err = read(t, `{"input":[{"role":"user","content":"one"},{"type":"reasoning","id":"`+thought+`","summary":[]},{"type":"item_reference","id":"`+reference+`"},{"role":"user","content":"three"}]}`, past)
	if err != nil {
		t.Fatal(err)
	}
	want = `{"role":"assistant","content":"two","extra_content":{"google":{"thought_signature":"s"}}}`
	if !strings.Contains(string(unified(got)), want) {
		t.Errorf("%s\nwant\n%s", unified(got), want)
	}
}

func TestItemsKnowTheirResponse(t *testing.T) {
	response := NewID()
	for _, id := range []string{itemID(messagePrefix, response, 3), inputID(outputPrefix, response, 0)} {
		if got, ok := ResponseOf(id); !ok || got != response {
			t.Errorf("%s belongs to %s (%t)", id, got, ok)
		}
	}
	for _, id := range []string{"", "msg", "msg_", "msg_68a1", "rs_68a1_2"} {
		if got, ok := ResponseOf(id); ok {
			t.Errorf("%q belongs to %s", id, got)
		}
	}
}

func TestReadingCostsNoMoreThanItsLength(t *testing.T) {
	cost := func(n int) float64 {
		item := `{"type":"message","role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"b"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}`
		tool := func(i int) string {
			return fmt.Sprintf(`{"type":"function","name":"f%d","parameters":{"type":"object"}}`, i)
		}
		items, tools := make([]string, n), make([]string, n)
		for i := range n {
			items[i], tools[i] = item, tool(i)
		}
		body := `{"input":[` + strings.Join(items, ",") + `],"tools":[` + strings.Join(tools, ",") + `]}`
		return testing.AllocsPerRun(1, func() {
			if _, err := read(t, body, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	few, many := cost(200), cost(2000)
	if many > 12*few {
		t.Errorf("%v allocations for 200 items, %v for 2000", few, many)
	}
}

func TestManyCallsKeepTheirSignatures(t *testing.T) {
	const n = 20_000
	var kept state
	items := make([]string, 0, n+1)
	for i := range n {
		id := fmt.Sprintf(`"call_%d"`, i)
		kept.calls = append(kept.calls, signedCall{[]byte(id), fmt.Appendf(nil, `{"google":{"thought_signature":"s%d"}}`, i)})
		items = append(items, `{"type":"function_call","call_id":`+id+`,"name":"f","arguments":"{}"}`)
	}
	items = append(items, `{"type":"reasoning","summary":[],"encrypted_content":"`+kept.seal()+`"}`)
	got, err := read(t, `{"input":[`+strings.Join(items, ",")+`]}`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if found := strings.Count(string(unified(got)), `"thought_signature":"s`); found != n {
		t.Errorf("%d of %d calls have their signature", found, n)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"input":"a"}`,
		`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:,"}]},{"type":"reasoning","summary":[{"text":"x"}],"encrypted_content":"pb1.e30="},{"type":"custom_tool_call","call_id":"c","name":"p","input":"i"},{"type":"custom_tool_call_output","call_id":"c","output":[]}]}`,
		`{"input":"a","tools":[{"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark","definition":"x"}},{"type":"namespace","name":"n","tools":[{"type":"custom","name":"p"}]}],"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"custom","name":"p"}]}}`,
		`{"input":"a","text":{"format":{"type":"json_object"}},"include":["message.output_text.logprobs"],"stream":true}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var doc jsonscan.Document
		if doc.Parse([]byte(body)) != nil || doc.Root().Kind() != jsonscan.Object {
			return
		}
		got, err := Read(doc.Root(), fakePast{}, chat.Room{})
		if err != nil {
			if !errors.As(err, new(*schema.Error)) {
				t.Fatalf("error %v", err)
			}
			return
		}
		var asked, input, echo jsonscan.Document
		if err := asked.Parse(unified(got)); err != nil {
			t.Fatalf("%v in %s", err, unified(got))
		}
		if err := input.Parse([]byte("[" + string(got.Input) + "]")); err != nil {
			t.Fatalf("%v in %s", err, got.Input)
		}
		repeated := string(got.repeated())
		if err := echo.Parse([]byte("{" + repeated + "}")); err != nil || strings.ContainsAny(repeated, "\r\n") {
			t.Fatalf("%v in %s", err, repeated)
		}
	})
}

func TestALongIDIsNotCutWithinACharacter(t *testing.T) {
	_, err := read(t, `{"input":"a","previous_response_id":"a`+strings.Repeat("é", 100)+`"}`, nil)
	var known *schema.Error
	if !errors.As(err, &known) || !strings.Contains(known.Message, "'a"+strings.Repeat("é", 39)+"…'") {
		t.Errorf("told %v", err)
	}
}
