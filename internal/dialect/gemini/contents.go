package gemini

import (
	"bytes"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// inventedCall begins the ids that are made here for calls that came without
// one. The backend never saw such an id, so it does not get it back.
const inventedCall = "call_gemini_"

// unsignedCall is Google's documented signature for a call that the model did not make:
// its newer models refuse calls without any.
const unsignedCall = "skip_thought_signature_validator"

// conversation writes a conversation as the dialect has it: turns of "user"
// and "model", each with one or more parts.
type conversation struct {
	jsonwrite.Writer        // the turns
	role             string // of the turn that is being written
	open             bool   // the part that was written last has not ended
	system           []byte // the content of a JSON string
	// calls are the calls so far, by their ids, and results the answers to them
	// that wait to be written in the order of the calls.
	calls   map[string]calledFunction
	results []functionResult
	// mustSign means that the model refuses calls without a signature.
	mustSign bool
}

type calledFunction struct {
	name  chat.Text
	order int
}

type functionResult struct {
	order int
	parts []byte
}

// addContents adds the conversation and the instructions above it.
func addContents(body *jsonwrite.Members, messages []chat.Message, model string) error {
	c := conversation{calls: map[string]calledFunction{}, mustSign: generationOf(model) >= 30}
	for i := range messages {
		if err := c.message(&messages[i]); err != nil {
			return err.WithinElement("messages", i)
		}
	}
	c.flushResults()
	if c.role == "" {
		// The backend wants something to answer: instructions alone become it.
		if len(c.system) == 0 {
			return schema.BadField("messages", "value.nothing_to_send")
		}
		c.text("user", c.system)
		c.system = nil
	}
	c.endTurn()
	body.Add("contents", slices.Concat([]byte{'['}, c.Out, []byte{']'}))
	if len(c.system) > 0 {
		body.Add("systemInstruction", slices.Concat([]byte(`{"parts":[{"text":"`), c.system, []byte(`"}]}`)))
	}
	return nil
}

// message writes one message; the error names fields relative to it.
func (c *conversation) message(m *chat.Message) *schema.Error {
	if m.Role != chat.ToolRole && m.Role != chat.Function {
		c.flushResults()
	}
	switch m.Role {
	case chat.System, chat.Developer:
		return c.addInstruction(&m.Content)
	case chat.Assistant:
		return c.assistant(m)
	case chat.ToolRole, chat.Function:
		return c.result(m)
	}
	_, err := c.content("user", &m.Content)
	return err
}

// turn prepares for parts of a role; turns of the same role in a row become one.
func (c *conversation) turn(role string) {
	c.endPart()
	if c.role == role {
		return
	}
	if c.role != "" {
		c.endTurn()
	}
	c.role = role
	c.Open(`{"role":`).Plain(role)
	c.Name("parts").Array()
}

// part begins a part. It stays open, because a signature may belong to it.
func (c *conversation) part(role string) {
	c.turn(role)
	c.Object()
	c.open = true
}

func (c *conversation) endPart() {
	if c.open {
		c.EndObject()
		c.open = false
	}
}

func (c *conversation) endTurn() {
	c.endPart()
	c.Close("]}")
}

// text writes a text as a part.
func (c *conversation) text(role string, text []byte) {
	c.part(role)
	c.EscapedMember("text", text)
}

// content writes the parts of a message and reports whether there were any.
// Empty texts are left out: the backend refuses them.
func (c *conversation) content(role string, content *chat.Content) (bool, *schema.Error) {
	wrote := len(content.Text) > 0
	if wrote {
		c.text(role, content.Text)
	}
	for i := range content.Parts {
		part := &content.Parts[i]
		switch {
		case !isText(part):
			c.part(role)
			if err := writeMedia(&c.Writer, part); err != nil {
				return false, err.InsideElement("content", i)
			}
		case len(part.Text) > 0:
			c.text(role, part.Text)
		default:
			continue
		}
		wrote = true
	}
	return wrote, nil
}

// isText reports whether a part is a text.
func isText(part *chat.Part) bool {
	switch part.Type {
	case chat.TextPart, chat.RefusalPart, "input_text", "output_text":
		return part.Text != nil
	}
	return false
}

// addInstruction collects the text of a system message. Several are joined.
func (c *conversation) addInstruction(content *chat.Content) *schema.Error {
	text, media, err := gather(content)
	if err != nil {
		return err
	}
	if media != nil {
		return schema.BadField("content", "value.text_only")
	}
	if len(c.system) > 0 && len(text) > 0 {
		c.system = append(c.system, `\n\n`...)
	}
	c.system = append(c.system, text...)
	return nil
}

// gather returns the texts of a content joined, and its other parts as elements of an
// array.
func gather(content *chat.Content) (text chat.Text, media []byte, err *schema.Error) {
	if content.Parts == nil {
		return content.Text, nil, nil
	}
	var others jsonwrite.Writer
	for i := range content.Parts {
		part := &content.Parts[i]
		if isText(part) {
			text = append(text, part.Text...)
			continue
		}
		others.Object()
		if err := writeMedia(&others, part); err != nil {
			return nil, nil, err.InsideElement("content", i)
		}
		others.EndObject()
	}
	return text, others.Out, nil
}

// assistant writes the words and calls of an earlier turn of the model.
func (c *conversation) assistant(m *chat.Message) *schema.Error {
	wrote, err := c.content("model", &m.Content)
	if err != nil {
		return err
	}
	if signature := chat.SignatureIn(m.Extra); len(signature) > 0 {
		if !wrote {
			c.text("model", []byte{})
		}
		c.EscapedMember("thoughtSignature", signature)
	}
	for i := range m.Calls {
		call := &m.Calls[i]
		if err := c.call(call, c.firstSignature(chat.SignatureIn(call.Extra), i == 0)); err != nil {
			return err.InsideElement("tool_calls", i)
		}
	}
	if m.FunctionCall != nil && m.Calls == nil {
		if err := c.call(m.FunctionCall, c.firstSignature(nil, true)); err != nil {
			return err.Inside("function_call")
		}
	}
	return nil
}

// firstSignature replaces a missing signature on the first call of a message, the only
// one that must have one: many clients drop members that they do not know, and calls of
// other models never had any.
func (c *conversation) firstSignature(signature chat.Text, first bool) chat.Text {
	if len(signature) == 0 && first && c.mustSign {
		return chat.Text(unsignedCall)
	}
	return signature
}

func (c *conversation) call(call *chat.ToolCall, signature chat.Text) *schema.Error {
	if len(call.Name) == 0 {
		return schema.MissingParameter("function.name")
	}
	c.part("model")
	c.Name("functionCall").Object()
	writeCallID(&c.Writer, call.ID)
	c.EscapedMember("name", call.Name)
	c.Name("args")
	writeArguments(&c.Writer, call)
	c.EndObject()
	c.EscapedMember("thoughtSignature", signature)
	if call.ID != nil {
		c.calls[call.ID.String()] = calledFunction{name: call.Name, order: len(c.calls)}
	}
	return nil
}

func writeCallID(w *jsonwrite.Writer, id chat.Text) {
	if len(id) > 0 && !bytes.HasPrefix(id, []byte(inventedCall)) {
		w.EscapedMember("id", id)
	}
}

// writeArguments writes the arguments of a call as an object. A text that is no object,
// such as one that a limit cut, is kept as a text: the conversation must be able to go
// on.
func writeArguments(w *jsonwrite.Writer, call *chat.ToolCall) {
	if object, ok := call.Object(); ok {
		w.Raw(object)
		return
	}
	w.Object()
	w.EscapedMember("arguments", call.Arguments)
	w.Given("arguments", call.Input)
	w.EndObject()
}

// result keeps the answer to a call until the answers to its siblings are there.
func (c *conversation) result(m *chat.Message) *schema.Error {
	called, known := c.calls[m.CallID.String()]
	if !known {
		if len(m.Name) == 0 {
			return schema.BadField("tool_call_id", "value.no_tool_call")
		}
		called = calledFunction{name: m.Name, order: len(c.calls)}
	}
	text, media, err := gather(&m.Content)
	if err != nil {
		return err
	}
	var w jsonwrite.Writer
	w.Open(`{"functionResponse":{`)
	writeCallID(&w, m.CallID)
	w.EscapedMember("name", called.name)
	w.Name("response")
	if object := bytes.TrimSpace(text.Bytes()); chat.IsObject(object) {
		w.Raw(object)
	} else {
		w.Open(`{"result":`).Escaped(text)
		w.EndObject()
	}
	w.Close("}}")
	if len(media) > 0 {
		w.Raw(media)
	}
	c.results = append(c.results, functionResult{order: called.order, parts: w.Out})
	return nil
}

// flushResults writes the answers in the order of the calls: without ids the
// backend tells two answers of the same function apart by it.
func (c *conversation) flushResults() {
	slices.SortStableFunc(c.results, func(a, b functionResult) int { return a.order - b.order })
	for _, r := range c.results {
		c.turn("user")
		c.Raw(r.parts)
	}
	c.results = c.results[:0]
}
