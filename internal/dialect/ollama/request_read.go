package ollama

import (
	"bytes"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// ReadChat reads a request of /api/chat. It checks the fields that the gateway itself
// uses; a backend of this dialect gets the body as it came.
func ReadChat(req *schema.Request, body []byte) error {
	if err := readBody(req, schema.DoorOllamaChat, body, ChatFields); err != nil {
		return err
	}
	req.Decode = readChat
	return nil
}

// ReadGenerate reads a request of /api/generate.
func ReadGenerate(req *schema.Request, body []byte) error {
	if err := readBody(req, schema.DoorOllamaGenerate, body, GenerateFields); err != nil {
		return err
	}
	req.Decode = readGenerate
	return nil
}

// readBody reads the fields that chats and generated texts have in common. Both are
// streamed unless the client says no.
func readBody(req *schema.Request, door schema.Door, body []byte, fields *schema.Fields) error {
	req.Came = time.Now()
	if err := req.ParseBody(door, body, fields); err != nil {
		return err
	}
	root := req.Body.Root()
	switch root.Get("stream").Kind() {
	case jsonscan.Absent, jsonscan.Null, jsonscan.True:
		req.Stream, req.IncludeUsage = true, true
	case jsonscan.False:
	default:
		return schema.BadField("stream", "value.switch")
	}
	return fields.Check(root)
}

// IsLoad reports whether a request asks for no answer. That is how clients of Ollama have a
// model loaded, or taken out of memory.
func IsLoad(req *schema.Request) bool {
	root := req.Body.Root()
	if req.Door == schema.DoorOllamaChat {
		messages := root.Get("messages")
		return !messages.Given() || messages.Empty()
	}
	return len(chat.TextIn(root, "prompt")) == 0 && len(chat.TextIn(root, "suffix")) == 0
}

// reader reads a request.
type reader struct {
	chat.Request
	root jsonscan.Value // of the body
	room chat.Room

	message jsonscan.Document // the message at hand
	deep    jsonscan.Document // other values that lie deeper than the request records

	// open are the calls of the last answer that have no result yet.
	open  []chat.ToolCall
	calls int // so far
}

func newReader(req *schema.Request, room chat.Room) *reader {
	r := &reader{root: req.Body.Root(), room: room}
	r.message.Deep, r.deep.Deep = true, true
	return r
}

// readChat reads the chat that a request of /api/chat asks for.
func readChat(req *schema.Request, room chat.Room) (*chat.Request, error) {
	r := newReader(req, room)
	list := r.root.Get("messages")
	r.Messages = chat.Grow(&r.room, r.Messages, list)
	for i, m := range r.room.All(list) {
		if err := r.readMessage(m); err != nil {
			return nil, err.WithinElement("messages", i)
		}
	}
	if len(r.Messages) == 0 && r.room.Err == nil {
		return nil, schema.BadField("messages", "value.some_message")
	}
	if err := r.readTools(); err != nil {
		return nil, err
	}
	return r.finish()
}

// readGenerate reads a request of /api/generate as a chat with one message: the template
// of the model is around the prompt there, too.
func readGenerate(req *schema.Request, room chat.Room) (*chat.Request, error) {
	r := newReader(req, room)
	for _, name := range []string{"template", "context"} {
		if v := r.root.Get(name); v.Given() && len(v.Raw()) > len(`""`) {
			return nil, schema.BadField(name, "value.only_ollama")
		}
	}
	if system := chat.TextIn(r.root, "system"); len(system) > 0 {
		r.Messages = append(r.Messages, chat.Said(chat.System, system))
	}
	said := chat.Said(chat.User, chat.TextIn(r.root, "prompt"))
	if err := r.addImages(&said, r.root.Get("images")); err != nil {
		return nil, err
	}
	r.Messages = append(r.Messages, said)
	return r.finish()
}

// finish reads the settings.
func (r *reader) finish() (*chat.Request, error) {
	if r.room.Err != nil {
		return nil, r.room.Err
	}
	if err := r.readOptions(); err != nil {
		return nil, err
	}
	if err := r.readFormat(); err != nil {
		return nil, err
	}
	if err := r.readThink(); err != nil {
		return nil, err
	}
	return &r.Request, nil
}

// readMessage reads one message; the error names fields relative to it.
func (r *reader) readMessage(m jsonscan.Value) *schema.Error {
	if m.Kind() != jsonscan.Object {
		return schema.BadField("role", "value.or_message", "known", "system, user, assistant", "last", "tool")
	}
	m = r.message.Rescan(m)
	content := m.Get("content")
	if content.Given() && content.Kind() != jsonscan.String {
		return schema.BadField("content", "value.string")
	}
	said := chat.Said(string(m.TextOf("role")), chat.TextOf(content))
	if said.Text == nil {
		said.Text = chat.Text{}
	}
	switch said.Role {
	case chat.System, chat.User:
		if err := r.addImages(&said, m.Get("images")); err != nil {
			return err
		}
	case chat.Assistant:
		said.Reasoning = chat.TextIn(m, "thinking")
		if err := r.addCalls(&said, m.Get("tool_calls")); err != nil {
			return err
		}
		if len(said.Calls) > 0 && len(said.Text) == 0 {
			said.Text = nil
		}
	case chat.ToolRole:
		r.nameResult(&said, m)
	default:
		return schema.BadField("role", "value.or", "known", "system, user, assistant", "last", "tool")
	}
	r.Messages = append(r.Messages, said)
	return nil
}

// addImages adds images to a message, which has parts then.
func (r *reader) addImages(m *chat.Message, images jsonscan.Value) *schema.Error {
	if !images.Given() || images.Empty() {
		return nil
	}
	if images.Kind() != jsonscan.Array {
		return schema.BadField("images", "value.images")
	}
	parts := chat.Grow(&r.room, []chat.Part(nil), images)
	if len(m.Text) > 0 {
		parts = append(parts, chat.NewText(m.Text))
	}
	for _, v := range r.room.All(images) {
		data := chat.TextOf(v)
		if len(data) == 0 {
			return schema.BadField("images", "value.images")
		}
		part := chat.Part{Type: chat.ImagePart}
		if bytes.HasPrefix(data, []byte("data:")) {
			part.SetSource(data)
		} else {
			part.SetData(chat.ImageType(data), data)
		}
		parts = append(parts, part)
	}
	m.Text, m.Parts = nil, parts
	return nil
}

// addCalls adds the calls that the model made in an earlier turn. Other APIs want a result
// to name its call: a call without an id gets one.
func (r *reader) addCalls(m *chat.Message, calls jsonscan.Value) *schema.Error {
	r.open = r.open[:0]
	if !calls.Given() {
		return nil
	}
	if calls.Kind() != jsonscan.Array {
		return schema.BadField("tool_calls", "value.array")
	}
	for i, c := range r.room.All(calls) {
		function := c.Get("function")
		call := chat.ToolCall{ID: chat.TextIn(c, "id"), Name: chat.TextIn(function, "name"),
			Input: []byte("{}")}
		if len(call.Name) == 0 {
			return schema.BadField(schema.Element("tool_calls", i)+".function.name", "value.function_name")
		}
		if len(call.ID) == 0 {
			call.ID = strconv.AppendInt([]byte("call_"), int64(r.calls), 10)
		}
		switch arguments := function.Get("arguments"); arguments.Kind() {
		case jsonscan.Object:
			call.Input = arguments.Raw()
		case jsonscan.String: // as some clients send them
			call.Arguments, call.Input = chat.TextOf(arguments), nil
		}
		m.Calls, r.open = append(m.Calls, call), append(r.open, call)
		r.calls++
	}
	return nil
}

// nameResult says which call a result belongs to: the one that it names by its id, the
// first without a result that has its name, or the first without a result.
func (r *reader) nameResult(said *chat.Message, m jsonscan.Value) {
	said.Name, said.CallID = chat.TextIn(m, "tool_name"), chat.TextIn(m, "tool_call_id")
	if len(said.Name) == 0 {
		said.Name = chat.TextIn(m, "name")
	}
	at := -1
	for i := range r.open {
		call := &r.open[i]
		if len(said.CallID) > 0 && bytes.Equal(call.ID, said.CallID) ||
			len(said.CallID) == 0 && (len(said.Name) == 0 || bytes.Equal(call.Name, said.Name)) {
			at = i
			break
		}
	}
	if at < 0 && len(said.CallID) == 0 && len(r.open) > 0 {
		at = 0
	}
	if at < 0 {
		if len(said.CallID) == 0 { // a result of no call
			said.CallID = chat.Text("call_unknown")
		}
		return
	}
	said.CallID = r.open[at].ID
	if len(said.Name) == 0 {
		said.Name = r.open[at].Name
	}
	r.open = append(r.open[:at], r.open[at+1:]...)
}

// readTools reads the tools, which look as in the unified API.
func (r *reader) readTools() *schema.Error {
	tools := r.root.Get("tools")
	if !tools.Given() {
		return nil
	}
	if tools.Kind() != jsonscan.Array {
		return schema.BadField("tools", "value.array")
	}
	tools = r.deep.Rescan(tools)
	r.Tools = chat.Grow(&r.room, r.Tools, tools)
	for i, t := range r.room.All(tools) {
		function := t.Get("function")
		tool := chat.Tool{
			Type: chat.FunctionTool, IsFunction: true, Name: chat.TextIn(function, "name"),
			Description: chat.Given(function.Get("description")), Schema: chat.Given(function.Get("parameters")),
		}
		if len(tool.Name) == 0 {
			return schema.BadField("function.name", "value.function_name").WithinElement("tools", i)
		}
		r.Tools = append(r.Tools, tool)
	}
	return nil
}

// readOptions reads how the answer is sampled. Options that only Ollama's engine has, such
// as the size of the context, are left out.
func (r *reader) readOptions() *schema.Error {
	options := r.root.Get("options")
	for _, o := range []struct {
		name string
		to   *jsonscan.Value
	}{
		{"num_predict", &r.MaxTokens}, {"temperature", &r.Temperature}, {"top_p", &r.TopP}, {"top_k", &r.TopK},
		{"seed", &r.Seed},
		{"presence_penalty", &r.PresencePenalty}, {"frequency_penalty", &r.FrequencyPenalty},
	} {
		v := options.Get(o.name)
		if !v.Given() {
			continue
		}
		if v.Kind() != jsonscan.Number {
			return schema.BadField("options."+o.name, "value.number")
		}
		*o.to = v
	}
	if n, ok := r.MaxTokens.Int(); ok && n < 1 { // Ollama's word for as much as there is
		r.MaxTokens = jsonscan.Value{}
	}
	if stop := options.Get("stop"); stop.Kind() == jsonscan.String || stop.Kind() == jsonscan.Array && !stop.Empty() {
		r.Stop = stop
	}
	if r.root.IsTrue("logprobs") {
		r.Logprobs = r.root.Get("logprobs").Raw()
		r.TopLogprobs = r.root.Get("top_logprobs")
	}
	return nil
}

// readFormat reads the form that the answer is to have.
func (r *reader) readFormat() *schema.Error {
	switch format := r.root.Get("format"); {
	case !format.Given(), format.Kind() == jsonscan.String && len(chat.TextOf(format)) == 0:
	case format.Kind() == jsonscan.String && string(format.Text()) == "json":
		r.Format = chat.Format{Given: true, Type: "json_object"}
	case format.Kind() == jsonscan.Object:
		r.Format = chat.SchemaFormat(format.Raw())
	default:
		return schema.BadField("format", "value.json_or_schema")
	}
	return nil
}

// readThink reads whether the model is to think. Without a level that is a hint, because
// many models refuse to be told one.
func (r *reader) readThink() *schema.Error {
	switch think := r.root.Get("think"); think.Kind() {
	case jsonscan.Absent, jsonscan.Null:
	case jsonscan.True:
		r.EffortHint = "medium"
	case jsonscan.False:
		r.EffortHint = "none"
	case jsonscan.String:
		switch level := string(think.Text()); level {
		case "low", "medium", "high", "max":
			r.Effort, r.EffortHint = level, level
			return nil
		}
		fallthrough
	default:
		return schema.BadField("think", "value.or", "known", "true, false, low, medium, high", "last", "max")
	}
	return nil
}
