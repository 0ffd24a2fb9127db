package messages

import (
	"bytes"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// readMessages reads the system prompt and the turns.
func (r *reader) readMessages() *schema.Error {
	m := r.root.Get("messages").First()
	r.Messages = chat.Grow(&r.room, r.Messages, r.root.Get("messages"))
	i := 0
	var leading chat.Text // the texts of system messages before the first turn
	for ; m.Is("role", chat.System); m = m.Next() {
		text, err := r.systemTexts(m.Get("content"))
		if err != nil {
			return placed(err, i)
		}
		leading = chat.JoinApart(leading, text)
		i++
	}
	system, err := r.systemTexts(r.root.Get("system"))
	if err != nil {
		return schema.Invalid("system", err.Fault())
	}
	// Every backend takes one message with one text.
	if system = chat.JoinApart(system, leading); len(system) > 0 {
		r.add(chat.Said(chat.System, system))
	}
	for ; m.Kind() != jsonscan.Absent && r.room.Err == nil; m = m.Next() {
		if err := r.message(m); err != nil {
			return placed(err, i)
		}
		i++
	}
	r.endUser()
	if len(r.Messages) == 0 && r.room.Err == nil {
		return schema.BadField("messages", "value.all_empty")
	}
	return nil
}

func (r *reader) add(m chat.Message) { r.Messages = append(r.Messages, m) }

// placed puts an error that names a field of a message into the request.
func placed(err *schema.Error, message int) *schema.Error {
	return err.WithinElement("messages", message)
}

// BillingMark begins a text that Claude Code puts before its system prompt for the
// provider's accounts. It is no instruction, and as it changes it would spoil the
// cache of prompts.
const BillingMark = "x-anthropic-billing-header:"

// systemTexts returns the texts of a system prompt with an empty line between them.
func (r *reader) systemTexts(content jsonscan.Value) (joined chat.Text, err *schema.Error) {
	switch content.Kind() {
	case jsonscan.Absent, jsonscan.Null:
	case jsonscan.String:
		joined = chat.TextOf(content)
	case jsonscan.Array:
		for b := range r.blocks.Rescan(content).All() {
			text := chat.TextIn(b, "text")
			if !b.Is("type", "text") || text == nil {
				return nil, schema.BadField("content", "value.text_blocks")
			}
			if !bytes.HasPrefix(text, []byte(BillingMark)) {
				joined = chat.JoinApart(joined, text)
			}
		}
	default:
		return nil, schema.BadField("content", "value.string_or_text_blocks")
	}
	return joined, nil
}

// message reads one message; the error names fields relative to it.
func (r *reader) message(m jsonscan.Value) *schema.Error {
	if m.Kind() != jsonscan.Object {
		return schema.BadField("role", "value.or_message", "known", "user, assistant", "last", "system")
	}
	content := m.Get("content")
	switch content.Kind() {
	case jsonscan.String, jsonscan.Array:
	default:
		return schema.BadField("content", "value.string_or_blocks")
	}
	switch string(m.TextOf("role")) {
	case chat.User:
		return r.userMessage(content)
	case chat.Assistant:
		return r.assistant(content)
	case chat.System: // between turns it is a part of the user's
		text, err := r.systemTexts(content)
		if len(text) > 0 {
			r.addText(dialect.AppendReminder(nil, text))
		}
		return err
	}
	return schema.BadField("role", "value.or", "known", "user, assistant", "last", "system")
}

func (r *reader) addText(text chat.Text) { r.user = append(r.user, chat.NewText(text)) }

// endUser ends the user's turn that is open, if one is.
func (r *reader) endUser() {
	switch turn := r.user; {
	case len(turn) == 0:
		return
	case len(turn) == 1 && turn[0].Type == chat.TextPart:
		r.add(chat.Said(chat.User, turn[0].Text))
		r.user = turn[:0]
	default:
		r.add(chat.Message{Role: chat.User, Content: chat.Content{Parts: turn}})
		r.user = nil
	}
}

// userMessage reads a message of the user, and the results of tools.
func (r *reader) userMessage(content jsonscan.Value) *schema.Error {
	if content.Kind() == jsonscan.String {
		r.addText(chat.TextOf(content))
		return nil
	}
	blocks := r.blocks.Rescan(content)
	r.user = chat.Grow(&r.room, r.user, blocks)
	// Results must follow the calls at once, before whatever the user says.
	for _, results := range []bool{true, false} {
		for i, b := range r.room.All(blocks) {
			isResult := b.Is("type", "tool_result")
			var err *schema.Error
			switch {
			case isResult && results:
				err = r.toolResult(b)
			case !isResult && !results:
				err = r.block(b)
			}
			if err != nil {
				return err.InsideElement("content", i)
			}
		}
	}
	return nil
}

// toolResult reads the answer of a tool. A result there is a text; images and documents
// in it follow in the user's turn.
func (r *reader) toolResult(b jsonscan.Value) *schema.Error {
	if len(chat.TextIn(b, "tool_use_id")) == 0 {
		return schema.BadField("tool_use_id", "value.not_blank")
	}
	id, _ := unmarkCall(b.TextOf("tool_use_id"))
	text, media := chat.Text{}, 0
	switch content := b.Get("content"); content.Kind() {
	case jsonscan.Absent, jsonscan.Null:
	case jsonscan.String:
		text = chat.TextOf(content)
	case jsonscan.Array:
		for part := range content.All() {
			found, isText := textOf(part)
			if isText {
				text = chat.JoinApart(text, found)
				continue
			}
			if media++; media == 1 {
				r.addText(chat.Escape("The result of the tool call " + string(id) + ":"))
			}
			if err := r.block(part); err != nil {
				return schema.Invalid("content", err.Fault())
			}
		}
	default:
		return schema.BadField("content", "value.string_or_blocks")
	}
	isError := b.IsTrue("is_error") && !saysError(text)
	if len(text) == 0 && media > 0 {
		text = chat.Text("The result is in the next message.")
	}
	if isError {
		text = append(chat.Text("Error: "), text...)
	}
	r.add(chat.Message{Role: chat.ToolRole, CallID: chat.Escape(id), Content: chat.Content{Text: text}})
	return nil
}

// saysError reports whether a result says by itself that it is an error.
func saysError(text []byte) bool {
	const most = 40
	start := bytes.ToLower(text[:min(len(text), most)])
	return bytes.HasPrefix(start, []byte("error")) || bytes.Contains(start, []byte("_error>"))
}

// textOf returns the text of a block that is nothing else.
func textOf(b jsonscan.Value) (text chat.Text, ok bool) {
	switch string(b.TextOf("type")) {
	case "text":
		text = chat.TextIn(b, "text")
		return text, text != nil
	case "tool_reference":
		return chat.TextIn(b, "tool_name"), true
	case "search_result":
		text := chat.JoinApart(chat.TextIn(b, "title"), chat.TextIn(b, "source"))
		for part := range b.Get("content").All() {
			text = chat.JoinApart(text, chat.TextIn(part, "text"))
		}
		return text, true
	case "document":
		if source := b.Get("source"); source.Is("type", "text") {
			return chat.JoinApart(chat.TextIn(b, "title"), chat.TextIn(source, "data")), true
		}
	}
	return nil, false
}

// block reads a block of a user's message.
func (r *reader) block(b jsonscan.Value) *schema.Error {
	if text, ok := textOf(b); ok {
		r.addText(text)
		return nil
	}
	source := b.Get("source")
	switch kind := string(b.TextOf("type")); kind {
	case "image":
		return r.image(source)
	case "document":
		return r.document(b, source)
	case "":
		return schema.BadField("type", "value.block_type")
	default:
		return schema.BadField("type", "value.kind", "kind", kind)
	}
}

func (r *reader) image(source jsonscan.Value) *schema.Error {
	part := chat.Part{Type: chat.ImagePart}
	switch string(source.TextOf("type")) {
	case "base64":
		part.SetData(string(source.TextOf("media_type")), chat.TextIn(source, "data"))
		if part.MediaType == "" || len(part.Data) == 0 {
			return schema.BadField("source", "value.has_media")
		}
	case "url":
		part.SetSource(chat.TextIn(source, "url"))
		if part.URL == nil && part.Data == nil {
			return schema.BadField("source.url", "value.string")
		}
	default:
		return schema.BadField("source.type", "value.or_images", "known", "base64", "last", "url")
	}
	r.user = append(r.user, part)
	return nil
}

func (r *reader) document(b, source jsonscan.Value) *schema.Error {
	switch string(source.TextOf("type")) {
	case "base64":
		part := chat.Part{Type: chat.FilePart, Name: chat.TextIn(b, "title")}
		if len(part.Name) == 0 {
			part.Name = chat.Text("document.pdf")
		}
		part.SetData(string(source.TextOf("media_type")), append(chat.Text{}, chat.TextIn(source, "data")...))
		r.user = append(r.user, part)
		return nil
	case "content":
		content := source.Get("content")
		if content.Kind() == jsonscan.String {
			r.addText(chat.TextOf(content))
		}
		for part := range content.All() {
			if err := r.block(part); err != nil {
				return err
			}
		}
		return nil
	}
	return schema.BadField("source.type", "value.or_documents", "known", "base64, text", "last", "content")
}

// assistant reads the words, thoughts and calls of an earlier turn of the model.
func (r *reader) assistant(content jsonscan.Value) *schema.Error {
	r.endUser()
	said := chat.Said(chat.Assistant, chat.TextOf(content))
	if content.Kind() == jsonscan.Array {
		for i, b := range r.blocks.Rescan(content).Elements() {
			if err := addBlock(&said, b); err != nil {
				return err.InsideElement("content", i)
			}
		}
		if said.Text == nil && len(said.Calls) == 0 {
			said.Text = chat.Text{}
		}
	}
	r.add(said)
	return nil
}

// addBlock adds a block of an earlier answer to the message. Thinking that a backend of
// this dialect has signed is left out, because it is of no use to other models; so are
// records of the provider's tools.
func addBlock(m *chat.Message, b jsonscan.Value) *schema.Error {
	switch kind := string(b.TextOf("type")); kind {
	case "text":
		text := chat.TextIn(b, "text")
		if text == nil {
			return schema.BadField("text", "value.string")
		}
		if m.Text == nil {
			m.Text = text
		} else {
			m.Text = append(m.Text, text...)
		}
	case "thinking":
		signature, own := unmarkThinking(b.TextOf("signature"))
		if thinking := chat.TextIn(b, "thinking"); own && len(thinking) > 0 {
			m.Reasoning = append(m.Reasoning, thinking...)
		}
		if len(signature) > 0 {
			m.Extra = chat.Signed(chat.Escape(signature))
		}
	case "tool_use":
		return addCall(m, b)
	case "":
		return schema.BadField("type", "value.block_type")
	case "redacted_thinking", "server_tool_use":
	default:
		if !strings.HasSuffix(kind, "_tool_result") {
			return schema.BadField("type", "value.kind", "kind", kind)
		}
	}
	return nil
}

func addCall(m *chat.Message, b jsonscan.Value) *schema.Error {
	call := chat.ToolCall{ID: chat.TextIn(b, "id"), Name: chat.TextIn(b, "name"), Input: []byte("{}")}
	switch {
	case len(call.ID) == 0:
		return schema.BadField("id", "value.not_blank")
	case len(call.Name) == 0:
		return schema.BadField("name", "value.not_blank")
	}
	if input := b.Get("input"); input.Kind() == jsonscan.Object {
		call.Input = input.Raw()
	}
	id, signature := unmarkCall(b.TextOf("id"))
	call.ID = chat.Escape(id)
	call.Extra = chat.Signed(chat.Escape(signature))
	m.Calls = append(m.Calls, call)
	return nil
}
