package responses

import (
	"errors"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// placed puts an error that an element of an array has in its place.
func placed(list string, index int, err error) error {
	var known *schema.Error
	if !errors.As(err, &known) {
		return err
	}
	return known.InsideElement(list, index)
}

// inputItem reads an item of the input, and keeps it for the store.
func (r *reader) inputItem(item jsonscan.Value) error {
	if item.Kind() != jsonscan.Object {
		return invalidValue("", "call.item_object")
	}
	if id, ok := ReferenceIn(item); ok {
		return r.reference(id)
	}
	if err := r.item(item); err != nil {
		return err
	}
	r.keep(item)
	return nil
}

// ReferenceIn returns the id of the item that an item refers to. The type of a reference
// may be left out.
func ReferenceIn(item jsonscan.Value) (id string, ok bool) {
	kind := item.Get("type")
	if string(kind.Text()) != "item_reference" && (kind.Given() || item.Get("role").Given()) {
		return "", false
	}
	return string(item.TextOf("id")), true
}

// reference reads the item that another one refers to.
func (r *reader) reference(id string) error {
	var found []byte
	if r.past != nil && id != "" {
		var err error
		if found, err = r.past.Item(id); err != nil {
			return err
		}
	}
	var doc jsonscan.Document
	doc.AllowDuplicateKeys = true
	if found == nil || doc.Parse(found) != nil {
		return invalidValue("id", "call.item_unknown", "id", shorten(id))
	}
	if err := r.item(doc.Root()); err != nil {
		return err
	}
	r.keep(doc.Root())
	return nil
}

// item reads one item. The error names values relative to it.
func (r *reader) item(item jsonscan.Value) *schema.Error {
	kind := string(item.TextOf("type"))
	switch kind {
	case "message", "":
		return r.messageItem(item)
	case "function_call", "custom_tool_call":
		return r.callItem(item, kind == "custom_tool_call")
	case "function_call_output", "custom_tool_call_output":
		return r.outputItem(item)
	case "reasoning":
		return r.reasoningItem(item)
	case "compaction":
		return r.compactionItem(item)
	case "additional_tools", "tool_search_output":
		return r.tools.addList(item.Get("tools"), "tools")
	case "web_search_call", "tool_search_call", "image_generation_call":
		// Records of a hosted tool, which no other backend can read. The answer that
		// was made of it is another item.
		return nil
	}
	return invalidValue("type", "call.item_type", "kind", shorten(kind))
}

// messageItem reads a message.
func (r *reader) messageItem(item jsonscan.Value) *schema.Error {
	content := item.Get("content")
	switch string(item.TextOf("role")) {
	case "user":
		r.endTurn()
		said, err := r.content(content)
		if err != nil {
			return err
		}
		r.userMessage(said)
		return nil
	case "system", "developer":
		r.endTurn()
		return r.systemItem(content)
	case "assistant":
		return r.turn.addContent(&r.parts, content, &r.room)
	case "":
		return schema.MissingParameter("role")
	}
	return invalidValue("role", "call.role")
}

// systemItem reads a message of the system or the developer, who are the same to most
// models. Between turns it is a reminder in the user's next message.
func (r *reader) systemItem(content jsonscan.Value) *schema.Error {
	to := &r.system
	if r.begun {
		to = &r.reminder
	}
	if content.Kind() == jsonscan.String {
		*to = chat.JoinApart(*to, chat.TextOf(content))
		return nil
	}
	if content.Kind() != jsonscan.Array {
		return wrongContent(content)
	}
	for i, p := range r.parts.Rescan(content).Elements() {
		text := chat.TextIn(p, "text")
		if text == nil {
			return invalidValue(schema.Element("content", i), "call.system_texts")
		}
		*to = chat.JoinApart(*to, text)
	}
	return nil
}

// compactionItem reads the rest of a conversation that was made short.
func (r *reader) compactionItem(item jsonscan.Value) *schema.Error {
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	root, ours := openSummary(&doc, string(item.TextOf("encrypted_content")))
	if !ours {
		return invalidValue("encrypted_content", "call.item_foreign")
	}
	for said := range root.Get("users").All() {
		if err := r.messageItem(said); err != nil {
			return err
		}
	}
	r.endTurn()
	to := &r.system
	if r.begun {
		to = &r.reminder
	}
	*to = chat.JoinApart(*to, append(chat.Escape("This is a summary of the conversation so far:\n\n"),
		chat.TextIn(root, "summary")...))
	return nil
}

// callItem reads a call that the model made.
func (r *reader) callItem(item jsonscan.Value, custom bool) *schema.Error {
	call := chat.ToolCall{ID: chat.TextIn(item, "call_id"), Name: chat.TextIn(item, "name")}
	if len(call.ID) == 0 {
		return schema.MissingParameter("call_id")
	}
	if len(call.Name) == 0 {
		return schema.MissingParameter("name")
	}
	if namespace := item.TextOf("namespace"); len(namespace) > 0 {
		call.Name = chat.Escape(flatName(string(namespace), call.Name.String()))
	}
	if custom {
		input := item.Get("input")
		if input.Kind() != jsonscan.String {
			return invalidValue("input", "call.tool_input")
		}
		call.Arguments = chat.Escape(customArguments(input.Raw()))
	} else if call.Arguments = chat.TextIn(item, "arguments"); call.Arguments == nil {
		return invalidValue("arguments", "call.arguments")
	}
	r.turn.open = true
	r.turn.calls = append(r.turn.calls, call)
	return nil
}

// outputItem reads the output of a tool.
func (r *reader) outputItem(item jsonscan.Value) *schema.Error {
	r.endTurn()
	id := chat.TextIn(item, "call_id")
	if len(id) == 0 {
		return schema.MissingParameter("call_id")
	}
	content, err := r.output(item.Get("output"), id)
	if err != nil {
		return err
	}
	r.addSystem()
	r.Messages = append(r.Messages, chat.Message{Role: chat.ToolRole, CallID: id, Content: content})
	return nil
}

// reasoningItem reads the thoughts of the model: the data that the backend wants back
// unchanged, and the text where it wants nothing else.
func (r *reader) reasoningItem(item jsonscan.Value) *schema.Error {
	t := &r.turn
	sealed := item.TextOf("encrypted_content")
	if len(sealed) == 0 && r.past != nil {
		sealed = r.storedState(item)
	}
	known := len(sealed) == 0
	if len(sealed) > 0 {
		known = t.addState(sealed)
	}
	if !known {
		return nil // of another provider, which alone can read it
	}
	t.open = true
	for _, list := range []string{"summary", "content"} {
		parts := item.Get(list)
		if parts.Kind() != jsonscan.Array {
			continue
		}
		for p := range r.parts.Rescan(parts).All() {
			t.thinking = chat.JoinApart(t.thinking, chat.TextIn(p, "text"))
		}
	}
	return nil
}

// storedState returns the state of a reasoning item that the client sent back without it.
func (r *reader) storedState(item jsonscan.Value) []byte {
	id := string(item.TextOf("id"))
	if _, ours := ResponseOf(id); !ours {
		return nil
	}
	found, err := r.past.Item(id)
	if err != nil || found == nil {
		return nil
	}
	r.inner.AllowDuplicateKeys = true
	if r.inner.Parse(found) != nil {
		return nil
	}
	return r.inner.Root().TextOf("encrypted_content")
}

// keepText keeps an input that is a text.
func (r *reader) keepText(text jsonscan.Value) {
	if !r.req.Store {
		return
	}
	w := &r.input
	w.Open(`{"type":"message","id":`).Plain(inputID(messagePrefix, r.req.ID, r.inputs))
	w.Literal(`"status":"completed","role":"user"`)
	w.Open(`"content":[{"type":"input_text","text":`).Raw(text.Raw())
	w.Close(`}]}`)
	r.inputs++
}

// keep keeps an input item in its listed form: with an id, a type and, if it is a
// message, with parts.
func (r *reader) keep(item jsonscan.Value) {
	if !r.req.Store {
		return
	}
	kind := string(item.TextOf("type"))
	if kind == "" {
		kind = "message"
	}
	w := &r.input
	w.Open(`{"type":`).Plain(kind)
	if !item.Get("id").Given() {
		w.Name("id").Plain(inputID(prefixOf(kind), r.req.ID, r.inputs))
	}
	if !item.Get("status").Given() && kind != "additional_tools" {
		w.Literal(`"status":"completed"`)
	}
	for m := range item.All() {
		name := string(m.Key())
		switch {
		case name == "type", !m.Given() && (name == "id" || name == "status"):
		case name == "content" && kind == "message" && m.Kind() == jsonscan.String:
			if item.Is("role", "assistant") {
				w.Open(`"content":[{"type":"output_text","annotations":[],"text":`)
			} else {
				w.Open(`"content":[{"type":"input_text","text":`)
			}
			w.Raw(m.Raw())
			w.Close(`}]`)
		default:
			w.Copy(m)
		}
	}
	w.EndObject()
	r.inputs++
}

func prefixOf(kind string) string {
	switch kind {
	case "message":
		return messagePrefix
	case "reasoning":
		return reasoningPrefix
	case "function_call":
		return callPrefix
	case "custom_tool_call":
		return customPrefix
	}
	return outputPrefix
}
