package kinds

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// asked is what a guard or a balancer may want to know of a request.
type asked struct {
	Texts, Images, Tools, Calls, Results []string
	MaxTokens                            int64
	Temperature                          float64
	Choice                               string
}

func readAsked(t *testing.T, req *schema.Request) (a asked) {
	t.Helper()
	c, err := req.Chat()
	if err != nil {
		t.Fatal(err)
	}
	for i := range c.Messages {
		m := &c.Messages[i]
		switch {
		case m.Role == chat.ToolRole:
			a.Results = append(a.Results, m.CallID.String()+" "+m.Text.String())
		case len(m.Text) > 0:
			a.Texts = append(a.Texts, m.Role+" "+m.Text.String())
		}
		for _, p := range m.Parts {
			if p.Type == chat.ImagePart {
				a.Images = append(a.Images, p.MediaType+" "+p.Data.String()+p.URL.String())
			} else {
				a.Texts = append(a.Texts, m.Role+" "+p.Text.String())
			}
		}
		for _, call := range m.Calls {
			input, _ := call.Object()
			a.Calls = append(a.Calls, call.ID.String()+" "+call.Name.String()+" "+string(input))
		}
	}
	for _, tool := range c.Tools {
		a.Tools = append(a.Tools, tool.Name.String()+" "+string(tool.Schema))
	}
	a.MaxTokens, _ = c.MaxTokens.Int()
	a.Temperature, _ = c.Temperature.Float()
	a.Choice = c.ToolChoice.Mode + c.ToolChoice.Name.String()
	return a
}

// The same conversation is the same request, through whatever door it came.
func TestAllDoorsAskForTheSame(t *testing.T) {
	want := asked{
		Texts: []string{"system be \"brief\"", "user what is this?"}, Images: []string{"image/png aGk="},
		Tools: []string{`f {"type":"object"}`}, Calls: []string{`c1 f {"a":1}`}, Results: []string{"c1 ok"},
		MaxTokens: 9, Temperature: 0.5, Choice: "required",
	}
	for door, body := range map[schema.Door]string{
		schema.DoorChat:      `{"model":"m","max_completion_tokens":9,"temperature":0.5,"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"messages":[{"role":"system","content":"be \"brief\""},{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"data:image\/png;base64,aGk="}}]},{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c1","content":"ok"}]}`,
		schema.DoorMessages:  `{"model":"m","max_tokens":9,"temperature":0.5,"tool_choice":{"type":"any"},"tools":[{"name":"f","input_schema":{"type":"object"}}],"system":"be \"brief\"","messages":[{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]},{"role":"assistant","content":[{"type":"tool_use","id":"c1","name":"f","input":{"a":1}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"ok"}]}]}`,
		schema.DoorResponses: `{"model":"m","max_output_tokens":9,"temperature":0.5,"tool_choice":"required","tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"instructions":"be \"brief\"","input":[{"role":"user","content":[{"type":"input_text","text":"what is this?"},{"type":"input_image","image_url":"data:image/png;base64,aGk="}]},{"type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"},{"type":"function_call_output","call_id":"c1","output":"ok"}]}`,
	} {
		var req schema.Request
		if _, err := openDoor(door, &req, []byte(body)); err != nil {
			t.Fatalf("%s: %v", door, err)
		}
		if diff := cmp.Diff(want, readAsked(t, &req)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", door, diff)
		}
	}
	var req schema.Request
	if _, err := openDoor(schema.DoorCompletions, &req, []byte(`{"model":"m","max_tokens":9,"temperature":0.5,"prompt":["one","two"]}`)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asked{Texts: []string{"user one", "user two"}, MaxTokens: 9, Temperature: 0.5}, readAsked(t, &req)); diff != "" {
		t.Errorf("completions (-want +got):\n%s", diff)
	}
}

// A request that is passed on to a backend of its own dialect is not read into a
// chat.Request: that costs only those who ask for it.
func TestRequestsThatArePassedOnAreNotRead(t *testing.T) {
	for door, kind := range map[schema.Door]string{schema.DoorMessages: "anthropic", schema.DoorResponses: "openai"} {
		own, err := Lookup(kind)
		if err != nil {
			t.Fatal(err)
		}
		target, err := own.Target(schema.Chat, dialect.Endpoint{BaseURL: "http://backend.test", Responses: new(true)})
		if err != nil {
			t.Fatal(err)
		}
		var req schema.Request
		client, err := openDoor(door, &req, []byte(doorRequest(door, false)))
		if err != nil {
			t.Fatal(err)
		}
		req.Decode = func(*schema.Request, chat.Room) (*chat.Request, error) {
			t.Errorf("a request of %s was read", door)
			return new(chat.Request), nil
		}
		to, speaker := target.ForDoor(door, client)
		if err := target.RefuseRequest(&req, client); err != nil {
			t.Fatal(err)
		}
		if err := speaker.Call(&req, to, new(wire.Call)); err != nil {
			t.Fatal(err)
		}
	}
}

// A list in a request takes more memory than its text, and that is asked for.
func TestTheMemoryOfListsIsReserved(t *testing.T) {
	long := func(before, element, after string) string {
		list := element
		for range 14 {
			list += "," + list
		}
		return before + list + after
	}
	for name, test := range map[string]struct {
		door schema.Door
		body string
	}{
		"parts":    {schema.DoorChat, long(`{"model":"m","messages":[{"role":"user","content":[`, `{}`, `]}]}`)},
		"messages": {schema.DoorChat, long(`{"model":"m","messages":[`, `{"role":"user","content":""}`, `]}`)},
		"blocks":   {schema.DoorMessages, long(`{"model":"m","max_tokens":1,"messages":[{"role":"user","content":[`, `{"type":"text","text":""}`, `]}]}`)},
		"items":    {schema.DoorResponses, long(`{"model":"m","input":[`, `{"role":"user","content":""}`, `]}`)},
	} {
		var req schema.Request
		if _, err := openDoor(test.door, &req, []byte(test.body)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		reserved := 0
		req.Body.Reserve = func(bytes int) error { reserved += bytes; return nil }
		if _, err := req.Chat(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if least := 2*len(test.body) + 100<<14; reserved < least {
			t.Errorf("%s: %d bytes were reserved for %d bytes, want %d", name, reserved, len(test.body), least)
		}
	}
}
