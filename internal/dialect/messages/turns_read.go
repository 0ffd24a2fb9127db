package messages

import (
	"bytes"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// writeMessages writes the system prompt and the turns.
func (u *unifier) writeMessages() *schema.Error {
	u.Name("messages")
	u.Array()
	start := len(u.Out)
	m := u.f[fieldMessages].First()
	i := 0
	var leading jsonwrite.Writer // the texts of system messages before the first turn
	for ; string(m.Get("role").Text()) == "system"; m = m.Next() {
		if err := u.systemTexts(&leading, m.Get("content")); err != nil {
			return placed(err, i)
		}
		i++
	}
	if err := u.writeSystem(leading.Out); err != nil {
		return err
	}
	for ; m.Kind() != jsonscan.Absent; m = m.Next() {
		if err := u.message(m); err != nil {
			return placed(err, i)
		}
		i++
	}
	u.endUser()
	if len(u.Out) == start {
		return schema.InvalidValue("messages", "'messages' must say something: the content of all messages is empty.")
	}
	u.EndArray()
	return nil
}

// placed puts an error that names a field of a message into the request.
func placed(err *schema.Error, message int) *schema.Error {
	param := "messages[" + strconv.Itoa(message) + "]." + *err.Param
	return schema.InvalidValue(param, "'"+param+"' "+err.Message)
}

// writeSystem writes the system prompt as one message with one text, which every
// backend takes.
func (u *unifier) writeSystem(leading []byte) *schema.Error {
	var text jsonwrite.Writer
	if err := u.systemTexts(&text, u.f[fieldSystem]); err != nil {
		return schema.InvalidValue("system", "'system' "+err.Message)
	}
	text.Out = joinTexts(text.Out, leading)
	if len(text.Out) == 0 {
		return nil
	}
	u.Open(`{"role":"system","content":"`)
	u.Out = append(u.Out, text.Out...)
	u.Close(`"}`)
	return nil
}

// billingMark begins a text that Claude Code puts before its system prompt for the
// provider's accounts. It is no instruction, and as it changes it would spoil the
// cache of prompts.
const billingMark = "x-anthropic-billing-header:"

// systemTexts adds the texts of a system prompt to Out, escaped, with an empty line
// between them.
func (u *unifier) systemTexts(to *jsonwrite.Writer, content jsonscan.Value) *schema.Error {
	switch content.Kind() {
	case jsonscan.Absent, jsonscan.Null:
	case jsonscan.String:
		to.Out = joinTexts(to.Out, dialect.RawText(content))
	case jsonscan.Array:
		for b := dialect.Rescan(&u.blocks, content).First(); b.Kind() != jsonscan.Absent; b = b.Next() {
			text := b.Get("text")
			if string(b.Get("type").Text()) != "text" || text.Kind() != jsonscan.String {
				return schema.InvalidValue("content", "may only have text blocks.")
			}
			if !bytes.HasPrefix(dialect.RawText(text), []byte(billingMark)) {
				to.Out = joinTexts(to.Out, dialect.RawText(text))
			}
		}
	default:
		return schema.InvalidValue("content", "must be a string or an array of text blocks.")
	}
	return nil
}

// joinTexts joins two texts that are the content of JSON strings. Where one of them is
// empty, it returns the other one itself.
func joinTexts(a, b []byte) []byte {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	return append(append(a, `\n\n`...), b...)
}

// message writes one message; the error names fields relative to it.
func (u *unifier) message(m jsonscan.Value) *schema.Error {
	if m.Kind() != jsonscan.Object {
		return schema.InvalidValue("role", "must be user, assistant or system: a message is an object with a role and a content.")
	}
	content := m.Get("content")
	switch content.Kind() {
	case jsonscan.String, jsonscan.Array:
	default:
		return schema.InvalidValue("content", "must be a string or an array of content blocks.")
	}
	switch string(m.Get("role").Text()) {
	case "user":
		return u.userMessage(content)
	case "assistant":
		return u.assistant(content)
	case "system":
		return u.reminder(content)
	}
	return schema.InvalidValue("role", "must be user, assistant or system.")
}

// userTurn are the content parts of a user's message.
type userTurn struct {
	count int
	// text is the only part, if that is a text: the content of a JSON string, which is
	// not copied.
	text  []byte
	parts jsonwrite.Writer // all parts, as elements of an array, unless there is only a text
}

func (t *userTurn) addText(text []byte) {
	if t.count == 0 {
		t.count, t.text = 1, text
		return
	}
	dialect.WriteTextPart(t.addPart(), text)
}

// addPart makes room for a part that is not the only text.
func (t *userTurn) addPart() *jsonwrite.Writer {
	if t.isText() {
		dialect.WriteTextPart(&t.parts, t.text)
		t.text = nil
	}
	t.count++
	return &t.parts
}

// isText reports whether there is nothing but one text.
func (t *userTurn) isText() bool { return t.count == 1 && len(t.parts.Out) == 0 }

// endUser writes the user's turn that is open, if one is.
func (u *unifier) endUser() {
	t := &u.user
	if t.count == 0 {
		return
	}
	u.Open(`{"role":"user","content":`)
	if t.isText() {
		u.Escaped(t.text)
	} else {
		u.Array()
		u.Raw(t.parts.Out)
		u.EndArray()
	}
	u.EndObject()
	t.parts.Begin(t.parts.Out, nil)
	t.count, t.text = 0, nil
}

// reminder adds a system message that stands between turns to the user's turn.
func (u *unifier) reminder(content jsonscan.Value) *schema.Error {
	var text jsonwrite.Writer
	if err := u.systemTexts(&text, content); err != nil || len(text.Out) == 0 {
		return err
	}
	u.user.addText(dialect.AppendReminder(nil, text.Out))
	return nil
}

// userMessage adds what the user said, and writes the results of tools.
func (u *unifier) userMessage(content jsonscan.Value) *schema.Error {
	if content.Kind() == jsonscan.String {
		u.user.addText(dialect.RawText(content))
		return nil
	}
	blocks := dialect.Rescan(&u.blocks, content)
	// Results must follow the calls at once, before whatever the user says.
	i := 0
	for b := blocks.First(); b.Kind() != jsonscan.Absent; b = b.Next() {
		if string(b.Get("type").Text()) == "tool_result" {
			if err := u.toolResult(b); err != nil {
				return within(err, i)
			}
		}
		i++
	}
	i = 0
	for b := blocks.First(); b.Kind() != jsonscan.Absent; b = b.Next() {
		if string(b.Get("type").Text()) != "tool_result" {
			if err := u.user.add(b); err != nil {
				return within(err, i)
			}
		}
		i++
	}
	return nil
}

// within puts an error about a content block into its message.
func within(err *schema.Error, block int) *schema.Error {
	place := "content[" + strconv.Itoa(block) + "]"
	if *err.Param != "" {
		place += "." + *err.Param
	}
	return schema.InvalidValue(place, err.Message)
}

// toolResult writes what a tool answered. A result there is a text; images and
// documents in it follow in the user's turn.
func (u *unifier) toolResult(b jsonscan.Value) *schema.Error {
	if len(dialect.RawText(b.Get("tool_use_id"))) == 0 {
		return schema.InvalidValue("tool_use_id", "must be a string that is not empty.")
	}
	id, _ := unmarkCall(b.Get("tool_use_id").Text())
	text, media := []byte(nil), 0
	switch content := b.Get("content"); content.Kind() {
	case jsonscan.Absent, jsonscan.Null:
	case jsonscan.String:
		text = dialect.RawText(content)
	case jsonscan.Array:
		for part := content.First(); part.Kind() != jsonscan.Absent; part = part.Next() {
			switch found, isText := textOf(part); {
			case isText:
				text = joinTexts(text, found)
			default:
				if media++; media == 1 {
					quoted := jsonwrite.AppendText(nil, "The result of the tool call "+string(id)+":")
					u.user.addText(quoted[1 : len(quoted)-1])
				}
				if err := u.user.add(part); err != nil {
					return schema.InvalidValue("content", err.Message)
				}
			}
		}
	default:
		return schema.InvalidValue("content", "must be a string or an array of content blocks.")
	}
	u.Open(`{"role":"tool","tool_call_id":`)
	u.Text(id)
	u.Open(`"content":"`)
	if b.Get("is_error").Kind() == jsonscan.True && !saysError(text) {
		u.Out = append(u.Out, "Error: "...)
	}
	if len(text) == 0 && media > 0 {
		text = []byte("The result is in the next message.")
	}
	u.Out = append(u.Out, text...)
	u.Close(`"}`)
	return nil
}

// saysError tells whether a result says by itself that it is an error.
func saysError(text []byte) bool {
	const most = 40
	start := bytes.ToLower(text[:min(len(text), most)])
	return bytes.HasPrefix(start, []byte("error")) || bytes.Contains(start, []byte("_error>"))
}

// textOf returns the text of a block that is nothing else, escaped.
func textOf(b jsonscan.Value) (text []byte, ok bool) {
	switch string(b.Get("type").Text()) {
	case "text":
		return dialect.RawText(b.Get("text")), b.Get("text").Kind() == jsonscan.String
	case "tool_reference":
		return dialect.RawText(b.Get("tool_name")), true
	case "search_result":
		text := joinTexts(dialect.RawText(b.Get("title")), dialect.RawText(b.Get("source")))
		for part := b.Get("content").First(); part.Kind() != jsonscan.Absent; part = part.Next() {
			text = joinTexts(text, dialect.RawText(part.Get("text")))
		}
		return text, true
	case "document":
		if source := b.Get("source"); string(source.Get("type").Text()) == "text" {
			return joinTexts(dialect.RawText(b.Get("title")), dialect.RawText(source.Get("data"))), true
		}
	}
	return nil, false
}

// add adds a block of a user's message.
func (t *userTurn) add(b jsonscan.Value) *schema.Error {
	if text, ok := textOf(b); ok {
		t.addText(text)
		return nil
	}
	source := b.Get("source")
	switch kind := string(b.Get("type").Text()); kind {
	case "image":
		return t.image(source)
	case "document":
		return t.document(b, source)
	case "":
		return schema.InvalidValue("type", "must be the type of a content block.")
	default:
		return schema.InvalidValue("type", "is '"+kind+"', which the backend of this model does not take.")
	}
}

func (t *userTurn) image(source jsonscan.Value) *schema.Error {
	switch string(source.Get("type").Text()) {
	case "base64":
		mediaType, data := dialect.RawText(source.Get("media_type")), dialect.RawText(source.Get("data"))
		if len(mediaType) == 0 || len(data) == 0 {
			return schema.InvalidValue("source", "must have a media_type and data.")
		}
		w := t.addPart()
		w.Open(`{"type":"image_url","image_url":{"url":"data:`)
		w.Out = append(append(append(w.Out, mediaType...), ";base64,"...), data...)
		w.Close(`"}}`)
	case "url":
		if source.Get("url").Kind() != jsonscan.String {
			return schema.InvalidValue("source.url", "must be a string.")
		}
		w := t.addPart()
		w.Open(`{"type":"image_url","image_url":{`)
		w.Member("url", source.Get("url").Raw())
		w.Close("}}")
	default:
		return schema.InvalidValue("source.type", "must be base64 or url: the backend of this model takes no other images.")
	}
	return nil
}

func (t *userTurn) document(b, source jsonscan.Value) *schema.Error {
	switch string(source.Get("type").Text()) {
	case "base64":
		w := t.addPart()
		w.Open(`{"type":"file","file":{`)
		w.Name("filename")
		if title := b.Get("title"); len(dialect.RawText(title)) > 0 {
			w.Raw(title.Raw())
		} else {
			w.Plain("document.pdf")
		}
		w.Open(`"file_data":"data:`)
		w.Out = append(append(append(w.Out, dialect.RawText(source.Get("media_type"))...), ";base64,"...), dialect.RawText(source.Get("data"))...)
		w.Close(`"}}`)
		return nil
	case "content":
		if content := source.Get("content"); content.Kind() == jsonscan.String {
			t.addText(dialect.RawText(content))
			return nil
		}
		for part := source.Get("content").First(); part.Kind() != jsonscan.Absent; part = part.Next() {
			if err := t.add(part); err != nil {
				return err
			}
		}
		return nil
	}
	return schema.InvalidValue("source.type", "must be base64, text or content: the backend of this model takes no other documents.")
}

// assistant writes what the model said, thought and called earlier.
func (u *unifier) assistant(content jsonscan.Value) *schema.Error {
	u.endUser()
	u.Open(`{"role":"assistant"`)
	if content.Kind() == jsonscan.String {
		u.Open(`,"content":`)
		u.Raw(content.Raw())
		u.EndObject()
		return nil
	}
	var said earlierAnswer
	i := 0
	for b := dialect.Rescan(&u.blocks, content).First(); b.Kind() != jsonscan.Absent; b = b.Next() {
		if err := said.add(b); err != nil {
			return within(err, i)
		}
		i++
	}
	said.write(&u.Writer)
	return nil
}

// earlierAnswer collects the blocks of an earlier answer by what they become.
type earlierAnswer struct {
	text, thinking, signature []byte
	hasText                   bool
	calls                     jsonwrite.Writer
}

// add adds a block. Thinking that a backend of this dialect has signed is left out,
// because it is of no use to other models; so is what tools of the provider did.
func (a *earlierAnswer) add(b jsonscan.Value) *schema.Error {
	switch kind := string(b.Get("type").Text()); kind {
	case "text":
		if b.Get("text").Kind() != jsonscan.String {
			return schema.InvalidValue("text", "must be a string.")
		}
		a.text, a.hasText = append(a.text, dialect.RawText(b.Get("text"))...), true
	case "thinking":
		signature, own := unmarkThinking(b.Get("signature").Text())
		if own {
			a.thinking = append(a.thinking, dialect.RawText(b.Get("thinking"))...)
		}
		if len(signature) > 0 {
			a.signature = signature
		}
	case "tool_use":
		return a.call(b)
	case "":
		return schema.InvalidValue("type", "must be the type of a content block.")
	case "redacted_thinking", "server_tool_use":
	default:
		if !bytes.HasSuffix([]byte(kind), []byte("_tool_result")) {
			return schema.InvalidValue("type", "is '"+kind+"', which the backend of this model does not take.")
		}
	}
	return nil
}

func (a *earlierAnswer) call(b jsonscan.Value) *schema.Error {
	id, name := b.Get("id"), b.Get("name")
	switch {
	case len(dialect.RawText(id)) == 0:
		return schema.InvalidValue("id", "must be a string that is not empty.")
	case len(dialect.RawText(name)) == 0:
		return schema.InvalidValue("name", "must be a string that is not empty.")
	}
	own, signature := unmarkCall(id.Text())
	w := &a.calls
	dialect.BeginCall(w, -1, jsonwrite.AppendText(nil, own), name.Raw())
	w.Text(dialect.CompactObject(b.Get("input")))
	w.EndObject()
	writeGoogleSignature(w, signature)
	w.EndObject()
	return nil
}

// writeGoogleSignature writes a signature where the unified shape has it.
func writeGoogleSignature(w *jsonwrite.Writer, signature []byte) {
	if len(signature) == 0 {
		return
	}
	w.Open(`"extra_content":{"google":{"thought_signature":`)
	w.Text(signature)
	w.Close("}}")
}

// write writes the members of the message behind its role, and ends it.
func (a *earlierAnswer) write(w *jsonwrite.Writer) {
	w.Open(`,"content":`)
	if a.hasText || len(a.calls.Out) == 0 {
		w.Escaped(a.text)
	} else {
		w.Literal("null")
	}
	if len(a.thinking) > 0 {
		w.Name("reasoning_content")
		w.Escaped(a.thinking)
	}
	if len(a.calls.Out) > 0 {
		w.Name("tool_calls")
		w.Array()
		w.Raw(a.calls.Out)
		w.EndArray()
	}
	writeGoogleSignature(w, a.signature)
	w.EndObject()
}
