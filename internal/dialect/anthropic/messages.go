package anthropic

import (
	"bytes"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// writeMessages writes the turns. System texts leave the list, tool results
// become a user's, and neighbours of one role share a turn.
func (w *requestWriter) writeMessages() *schema.Error {
	w.Name("messages")
	w.Array()
	i := 0
	for m := w.req.Body.Root().Get("messages").First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		if err := w.message(m); err != nil {
			param := "messages[" + strconv.Itoa(i) + "]." + *err.Param
			return schema.InvalidValue(param, "'"+param+"' "+err.Message)
		}
		i++
	}
	if w.turn == "" {
		return schema.InvalidValue("messages", "'messages' must have a user's or an assistant's message that is not empty: this backend answers to nothing else.")
	}
	w.endTurn()
	w.EndArray()
	return nil
}

// message writes one message; the error names fields relative to it.
func (w *requestWriter) message(m jsonscan.Value) *schema.Error {
	content := m.Get("content")
	switch string(m.Get("role").Text()) {
	case "system", "developer":
		return w.moveToSystem(content)
	case "assistant":
		return w.assistant(m)
	case "tool":
		return w.toolResult(m.Get("tool_call_id"), content)
	case "function":
		return w.functionResult(content)
	}
	return w.content("user", content)
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
	w.Object()
	w.Name("role")
	w.Plain(role)
	w.Name("content")
	w.Array()
}

// endTurn ends the open turn.
func (w *requestWriter) endTurn() {
	w.EndArray()
	w.EndObject()
}

// content writes the content of a message as blocks. Texts without a word stay out: the
// backend refuses them. Other models often begin a call with a few empty lines.
func (w *requestWriter) content(role string, content jsonscan.Value) *schema.Error {
	switch content.Kind() {
	case jsonscan.String:
		if !isBlank(content) {
			w.block(role)
			w.text(content, jsonscan.Value{})
		}
	case jsonscan.Array:
		for p := dialect.Rescan(&w.parts, content).First(); p.Kind() != jsonscan.Absent; p = p.Next() {
			if isEmptyText(p) {
				continue
			}
			w.block(role)
			if err := w.part(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveToSystem moves the texts of a system message to the system prompt.
func (w *requestWriter) moveToSystem(content jsonscan.Value) *schema.Error {
	if content.Kind() != jsonscan.Array {
		if text := dialect.RawText(content); len(text) > 0 {
			w.addSystem(text, jsonscan.Value{}, true)
		}
		return nil
	}
	first := true
	for p := dialect.Rescan(&w.parts, content).First(); p.Kind() != jsonscan.Absent; p = p.Next() {
		text := p.Get("text")
		if text.Kind() != jsonscan.String {
			return schema.InvalidValue("content", "may only have text parts.")
		}
		if len(dialect.RawText(text)) > 0 {
			w.addSystem(dialect.RawText(text), p.Get("cache_control"), first)
			first = false
		}
	}
	return nil
}

// addSystem adds a text, between the quotes of a JSON string, to the system
// prompt.
func (w *requestWriter) addSystem(text []byte, cache jsonscan.Value, apart bool) {
	if apart && len(w.system) > 0 {
		w.system = append(w.system, `\n\n`...)
	}
	w.system = append(w.system, text...)
	w.systemCached = w.systemCached || cache.Given()
	b := &w.systemBlocks
	b.Object()
	b.Name("type")
	b.Plain("text")
	b.Name("text")
	b.Escaped(text)
	b.Field("cache_control", cache)
	b.EndObject()
}

// addInstruction adds a text of the gateway, which needs no escaping, to the system
// prompt.
func (w *requestWriter) addInstruction(text []byte) { w.addSystem(text, jsonscan.Value{}, true) }

// writeSystem writes the system prompt; one that the caller gave in the
// backend's own words joins the lifted ones.
func (w *requestWriter) writeSystem() *schema.Error {
	if err := w.moveToSystem(w.req.Field("system")); err != nil {
		return schema.InvalidValue("system", "'system' may only have text blocks.")
	}
	switch {
	case len(w.system) == 0:
	case w.systemCached:
		w.Name("system")
		w.Array()
		w.Raw(w.systemBlocks.Out)
		w.EndArray()
	default:
		w.Name("system")
		w.Escaped(w.system)
	}
	return nil
}

// assistant writes what the model said earlier: first its thinking, which must
// come back as it was, then its words, then its calls.
func (w *requestWriter) assistant(m jsonscan.Value) *schema.Error {
	thinking := m.Get("thinking_blocks")
	if thinking.Kind() == jsonscan.Array {
		for b := dialect.Rescan(&w.parts, thinking).First(); b.Kind() != jsonscan.Absent; b = b.Next() {
			w.block("assistant")
			w.Raw(b.Raw())
		}
	}
	content := m.Get("content")
	if !content.Given() {
		content = m.Get("refusal")
	}
	if err := w.content("assistant", content); err != nil {
		return err
	}
	calls := m.Get("tool_calls")
	w.unsigned = calls.Kind() == jsonscan.Array && !calls.Empty() &&
		(thinking.Kind() != jsonscan.Array || thinking.Empty())
	if calls.Kind() == jsonscan.Array {
		i := 0
		for c := dialect.Rescan(&w.calls, calls).First(); c.Kind() != jsonscan.Absent; c = c.Next() {
			if err := w.toolUse(c.Get("id"), c.Get("function")); err != nil {
				return schema.InvalidValue("tool_calls["+strconv.Itoa(i)+"]."+*err.Param, err.Message)
			}
			i++
		}
	}
	if call := m.Get("function_call"); call.Given() {
		w.legacyCalls++
		w.unsigned = true
		return w.functionCall(dialect.Rescan(&w.calls, call))
	}
	return nil
}

// toolUse writes one call of a tool.
func (w *requestWriter) toolUse(id, function jsonscan.Value) *schema.Error {
	if len(dialect.RawText(id)) == 0 {
		return schema.InvalidValue("id", "must be a string that is not empty.")
	}
	w.block("assistant")
	w.Open(`{"type":"tool_use","id":`)
	w.toolID(id)
	return w.toolInput(function)
}

// functionCall writes a call in the old shape.
func (w *requestWriter) functionCall(function jsonscan.Value) *schema.Error {
	w.block("assistant")
	w.Open(`{"type":"tool_use","id":`)
	w.legacyID()
	if err := w.toolInput(function); err != nil {
		return schema.InvalidValue("function_call", err.Message)
	}
	return nil
}

// toolInput writes the name and the input of a call, which is an object there.
func (w *requestWriter) toolInput(function jsonscan.Value) *schema.Error {
	name := function.Get("name")
	if len(dialect.RawText(name)) == 0 {
		return schema.InvalidValue("function.name", "must be a string that is not empty.")
	}
	w.Member("name", name.Raw())
	arguments := function.Get("arguments")
	text := arguments.Raw()
	if arguments.Kind() == jsonscan.String {
		text = bytes.TrimSpace(arguments.Text())
	}
	if len(text) == 0 || string(text) == "null" {
		text = []byte("{}")
	}
	w.deep.AllowDuplicateKeys = true
	if w.deep.Parse(text) != nil || w.deep.Root().Kind() != jsonscan.Object {
		return schema.InvalidValue("function.arguments", "must be the text of a JSON object.")
	}
	w.Member("input", text)
	w.EndObject()
	return nil
}

// toolResult writes what a tool answered.
func (w *requestWriter) toolResult(id, content jsonscan.Value) *schema.Error {
	if len(dialect.RawText(id)) == 0 {
		return schema.InvalidValue("tool_call_id", "must be a string that is not empty.")
	}
	w.block("user")
	w.Open(`{"type":"tool_result","tool_use_id":`)
	w.toolID(id)
	return w.resultContent(content)
}

// functionResult writes the answer to the last call in the old shape.
func (w *requestWriter) functionResult(content jsonscan.Value) *schema.Error {
	if w.legacyCalls == 0 {
		return schema.InvalidValue("role", "is 'function', but no assistant's message before it has a 'function_call'.")
	}
	w.block("user")
	w.Open(`{"type":"tool_result","tool_use_id":`)
	w.legacyID()
	return w.resultContent(content)
}

func (w *requestWriter) resultContent(content jsonscan.Value) *schema.Error {
	w.Name("content")
	if content.Kind() != jsonscan.Array {
		w.Raw(content.Raw())
		w.EndObject()
		return nil
	}
	w.Array()
	for p := dialect.Rescan(&w.parts, content).First(); p.Kind() != jsonscan.Absent; p = p.Next() {
		if isEmptyText(p) {
			continue
		}
		if err := w.part(p); err != nil {
			return err
		}
	}
	w.EndArray()
	w.EndObject()
	return nil
}

// legacyID invents the id of the last call in the old shape.
func (w *requestWriter) legacyID() { w.Plain("call_legacy_" + strconv.Itoa(w.legacyCalls)) }

// toolID writes the id of a call. Other backends, which may have given it,
// use characters that this one refuses; a call and its result change alike.
func (w *requestWriter) toolID(id jsonscan.Value) {
	w.Text(bytes.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, id.Text()))
}
