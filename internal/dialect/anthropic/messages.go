package anthropic

import (
	"bytes"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// writeMessages writes the turns. System texts leave the list, tool results
// become a user's, and neighbours of one role share a turn.
func (w *requestWriter) writeMessages() *schema.Error {
	w.Name("messages").Array()
	for i := range w.Messages {
		if err := w.message(&w.Messages[i]); err != nil {
			return err.WithinElement("messages", i)
		}
	}
	if w.turn == "" {
		return schema.BadField("messages", "value.some_turn")
	}
	w.endTurn()
	w.EndArray()
	return nil
}

// message writes one message; the error names fields relative to it.
func (w *requestWriter) message(m *chat.Message) *schema.Error {
	switch m.Role {
	case chat.System, chat.Developer:
		return w.moveToSystem(&m.Content)
	case chat.Assistant:
		return w.assistant(m)
	case chat.ToolRole:
		if len(m.CallID) == 0 {
			return schema.BadField("tool_call_id", "value.not_blank")
		}
		return w.result(&m.Content, toolID(m.CallID))
	case chat.Function:
		if w.legacyCalls == 0 {
			return schema.BadField("role", "value.no_function_call")
		}
		return w.result(&m.Content, w.legacyID())
	}
	return w.content("user", &m.Content)
}

// block prepares for a content block of a role: it goes into the open turn if that
// is of the same role, else into a new one.
func (w *requestWriter) block(role string) {
	if w.turn == role {
		return
	}
	if w.turn != "" {
		w.endTurn()
	}
	w.turn = role
	w.Open(`{"role":`).Plain(role)
	w.Name("content").Array()
}

// endTurn ends the open turn.
func (w *requestWriter) endTurn() {
	w.EndArray()
	w.EndObject()
}

// content writes the content of a message as blocks. Texts without a word stay out: the
// backend refuses them. Other models often begin a call with a few empty lines.
func (w *requestWriter) content(role string, content *chat.Content) *schema.Error {
	if content.Text != nil && !isBlank(content.Text) {
		w.block(role)
		w.text(content.Text, nil)
	}
	for i := range content.Parts {
		if p := &content.Parts[i]; p.Type != chat.TextPart || !isBlank(p.Text) {
			w.block(role)
			if err := w.part(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveToSystem moves the texts of a system message to the system prompt.
func (w *requestWriter) moveToSystem(content *chat.Content) *schema.Error {
	if len(content.Text) > 0 {
		w.addSystem(content.Text, nil, true)
	}
	first := true
	for i := range content.Parts {
		p := &content.Parts[i]
		if p.Text == nil {
			return schema.BadField("content", "value.text_parts")
		}
		if len(p.Text) > 0 {
			w.addSystem(p.Text, p.Cache, first)
			first = false
		}
	}
	return nil
}

// addSystem adds a text, between the quotes of a JSON string, to the system
// prompt.
func (w *requestWriter) addSystem(text, cache []byte, apart bool) {
	if apart && len(w.system) > 0 {
		w.system = append(w.system, `\n\n`...)
	}
	w.system = append(w.system, text...)
	w.systemCached = w.systemCached || cache != nil
	b := &w.systemBlocks
	b.Open(`{"type":"text","text":`).Escaped(text)
	b.Given("cache_control", cache)
	b.EndObject()
}

// writeSystem writes the system prompt; one that the caller gave in the
// backend's own words joins the lifted ones.
func (w *requestWriter) writeSystem() *schema.Error {
	own := chat.ReadContent(w.Other("system"))
	if err := w.moveToSystem(&own); err != nil {
		return schema.BadField("system", "value.text_blocks")
	}
	switch {
	case len(w.system) == 0:
	case w.systemCached:
		w.Name("system").Array()
		w.Raw(w.systemBlocks.Out)
		w.EndArray()
	default:
		w.EscapedMember("system", w.system)
	}
	return nil
}

// assistant writes an earlier message of the model: first its thinking, which must come
// back unchanged, then its words, then its calls.
func (w *requestWriter) assistant(m *chat.Message) *schema.Error {
	isSigned := w.thinking(m.Thinking)
	content := m.Content
	if content.Text == nil && content.Parts == nil {
		content.Text = m.Refusal
	}
	if err := w.content("assistant", &content); err != nil {
		return err
	}
	w.unsigned = len(m.Calls) > 0 && !isSigned
	for i := range m.Calls {
		place := schema.Element("tool_calls", i)
		call := &m.Calls[i]
		if len(call.ID) == 0 {
			return schema.BadField(place+".id", "value.not_blank")
		}
		if err := w.toolUse(call, toolID(call.ID)); err != nil {
			return err.Inside(place)
		}
	}
	if m.FunctionCall != nil {
		w.legacyCalls++
		w.unsigned = true
		if err := w.toolUse(m.FunctionCall, w.legacyID()); err != nil {
			return schema.Invalid("function_call", err.Fault())
		}
	}
	return nil
}

// thinking writes the blocks of thinking of an earlier turn and reports whether there are
// any.
func (w *requestWriter) thinking(blocks []byte) bool {
	w.deep.AllowDuplicateKeys = true
	if blocks == nil || w.deep.Parse(blocks) != nil {
		return false
	}
	for b := range w.deep.Root().All() {
		w.block("assistant")
		w.Raw(b.Raw())
	}
	return !w.deep.Root().Empty()
}

// toolUse writes one call of a tool. Its input is an object there.
func (w *requestWriter) toolUse(call *chat.ToolCall, id []byte) *schema.Error {
	input, ok := call.Object()
	switch {
	case len(call.Name) == 0:
		return schema.BadField("function.name", "value.not_blank")
	case !ok:
		return schema.BadField("function.arguments", "value.object_text")
	}
	w.block("assistant")
	w.Open(`{"type":"tool_use","id":`).Escaped(id)
	w.EscapedMember("name", call.Name)
	w.Member("input", input)
	w.EndObject()
	return nil
}

// result writes the answer of a tool.
func (w *requestWriter) result(content *chat.Content, id []byte) *schema.Error {
	w.block("user")
	w.Open(`{"type":"tool_result","tool_use_id":`).Escaped(id)
	if content.Parts == nil {
		w.EscapedMember("content", content.Text)
		w.EndObject()
		return nil
	}
	w.Name("content").Array()
	for i := range content.Parts {
		if p := &content.Parts[i]; p.Type != chat.TextPart || !isBlank(p.Text) {
			if err := w.part(p); err != nil {
				return err
			}
		}
	}
	w.EndArray()
	w.EndObject()
	return nil
}

// legacyID invents the id of the last call in the old shape.
func (w *requestWriter) legacyID() []byte {
	return strconv.AppendInt([]byte("call_legacy_"), int64(w.legacyCalls), 10)
}

// toolID returns the id of a call. Other backends, which may have given it,
// use characters that this one refuses; a call and its result change alike.
func toolID(id chat.Text) []byte {
	return bytes.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, id.Bytes())
}
