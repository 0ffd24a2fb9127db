package chat

import (
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// WriteMessages writes messages in the unified shape, as an array.
func WriteMessages(w *jsonwrite.Writer, messages []Message) {
	w.Array()
	for i := range messages {
		messages[i].write(w)
	}
	w.EndArray()
}

func (m *Message) write(w *jsonwrite.Writer) {
	if m.Raw != nil {
		w.Raw(m.Raw)
		return
	}
	w.Open(`{"role":`).Plain(m.Role)
	w.EscapedMember("tool_call_id", m.CallID)
	w.Name("content")
	switch {
	case m.Parts != nil:
		w.Array()
		for i := range m.Parts {
			m.Parts[i].write(w)
		}
		w.EndArray()
	case m.Text != nil:
		w.Escaped(m.Text)
	default:
		w.Literal("null")
	}
	w.EscapedMember("refusal", m.Refusal)
	w.EscapedMember("reasoning_content", m.Reasoning)
	w.Given("thinking_blocks", m.Thinking)
	w.Given("reasoning_details", m.Details)
	writeCalls(w, m.Calls, false)
	w.Given("extra_content", m.Extra)
	w.EndObject()
}

func (p *Part) write(w *jsonwrite.Writer) {
	if p.Raw != nil {
		w.Raw(p.Raw)
		return
	}
	w.Open(`{"type":`).Plain(p.Type)
	w.Name(p.Type)
	switch p.Type {
	case ImagePart:
		w.Object()
		p.writeSource(w, "url")
		w.EscapedMember("detail", p.Detail)
		w.EndObject()
	case FilePart:
		w.Object()
		w.EscapedMember("filename", p.Name)
		p.writeSource(w, "file_data")
		w.EndObject()
	default:
		w.Escaped(p.Text)
	}
	w.EndObject()
}

// writeSource writes where the content of a part is, or the content itself.
func (p *Part) writeSource(w *jsonwrite.Writer, name string) {
	if p.Data == nil {
		w.EscapedMember(name, p.URL)
		return
	}
	w.Open(`"` + name + `":"data:`)
	quoted := jsonwrite.AppendText(nil, p.MediaType)
	w.Out = append(append(append(w.Out, quoted[1:len(quoted)-1]...), ";base64,"...), p.Data...)
	w.Close(`"`)
}

// write writes a tool call. Calls of a stream are numbered, and may be pieces that have
// nothing but arguments.
func (c *ToolCall) write(w *jsonwrite.Writer, numbered bool) {
	w.Object()
	if numbered {
		w.Name("index").Int(c.Index)
	}
	if numbered && len(c.ID) == 0 {
		w.Open(`"function":{`)
	} else {
		w.EscapedMember("id", c.ID)
		w.Open(`"type":"function","function":{"name":`).Escaped(c.Name)
	}
	w.Name("arguments")
	if c.Input != nil {
		w.Text(jsonwrite.Compact(c.Input))
	} else {
		w.Escaped(c.Arguments)
	}
	w.EndObject()
	w.Given("extra_content", c.Extra)
	w.EndObject()
}

// WriteObject writes the arguments as an object. Arguments that are no object, such as ones
// that a limit has cut, are told under a name of their own.
func (c *ToolCall) WriteObject(w *jsonwrite.Writer) {
	if object, ok := c.Object(); ok {
		w.Raw(object)
		return
	}
	w.Open(`{"INVALID_JSON":`).Escaped(c.Arguments)
	w.EndObject()
}

// writeCalls writes the member that has the tool calls, if there are any.
func writeCalls(w *jsonwrite.Writer, calls []ToolCall, numbered bool) {
	if len(calls) == 0 {
		return
	}
	w.Name("tool_calls").Array()
	for i := range calls {
		calls[i].write(w, numbered)
	}
	w.EndArray()
}

// WriteTool writes a tool in the unified shape.
func WriteTool(w *jsonwrite.Writer, t *Tool) {
	if t.Raw != nil {
		w.Raw(t.Raw)
		return
	}
	w.Open(`{"type":"function","function":{"name":`).Escaped(t.Name)
	w.Given("description", t.Description)
	w.Given("parameters", t.Schema)
	w.Given("strict", t.Strict)
	w.Close("}}")
}

// WriteTools writes the tools in the unified shape as a member, if there are any.
func (r *Request) WriteTools(w *jsonwrite.Writer) {
	if len(r.Tools) == 0 {
		return
	}
	w.Name("tools").Array()
	for i := range r.Tools {
		WriteTool(w, &r.Tools[i])
	}
	w.EndArray()
}

// Write writes a request in the unified shape, without its model and how it is sent, as the
// members of an object. The limit of the answer has the name that is given, of the two that
// the unified API has for it.
func (r *Request) Write(w *jsonwrite.Writer, limit string) {
	w.Name("messages")
	WriteMessages(w, r.Messages)
	r.WriteTools(w)
	r.writeChoice(w)
	w.Field(limit, r.MaxTokens)
	w.Field("n", r.N)
	w.Field("temperature", r.Temperature)
	w.Field("top_p", r.TopP)
	w.Field("top_k", r.TopK)
	w.Field("seed", r.Seed)
	w.Field("stop", r.Stop)
	w.Field("presence_penalty", r.PresencePenalty)
	w.Field("frequency_penalty", r.FrequencyPenalty)
	w.Given("logprobs", r.Logprobs)
	w.Field("top_logprobs", r.TopLogprobs)
	w.Field("verbosity", r.Verbosity)
	r.Format.write(w)
	if r.Effort != "" {
		w.Name("reasoning_effort").Text([]byte(r.Effort))
	}
	w.EscapedMember("user", r.User)
	for m := range r.Others() {
		w.Copy(m)
	}
}

func (r *Request) writeChoice(w *jsonwrite.Writer) {
	switch choice := &r.ToolChoice; {
	case choice.Raw != nil:
		w.Member("tool_choice", choice.Raw)
	case choice.Name != nil:
		w.Open(`"tool_choice":{"type":"function","function":{"name":`).Escaped(choice.Name)
		w.Close("}}")
	case choice.Mode != "":
		w.Name("tool_choice").Plain(choice.Mode)
	}
	if r.SingleCall {
		w.Literal(`"parallel_tool_calls":false`)
	}
}

func (f *Format) write(w *jsonwrite.Writer) {
	if !f.Given {
		return
	}
	w.Open(`"response_format":{"type":`).Plain(f.Type)
	if f.Type == "json_schema" {
		w.Name("json_schema").Object()
		w.EscapedMember("name", f.Name)
		w.Given("description", f.Description)
		w.Given("schema", f.Schema)
		w.Given("strict", f.Strict)
		w.EndObject()
	}
	w.EndObject()
}
