package responses

import (
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// turn holds the model's words between two messages of others. Its items become one
// message.
type turn struct {
	open     bool
	parts    []chat.Part
	calls    []chat.ToolCall
	thinking chat.Text
	state    state
}

// addContent adds the content of a message of the model.
func (t *turn) addContent(doc *jsonscan.Document, content jsonscan.Value, room *chat.Room) *schema.Error {
	t.open = true
	if content.Kind() == jsonscan.String {
		t.parts = append(t.parts, chat.NewText(chat.TextOf(content)))
		return nil
	}
	if content.Kind() != jsonscan.Array {
		return wrongContent(content)
	}
	parts, err := readParts(doc, content, room)
	t.parts = append(t.parts, parts...)
	return err
}

// endTurn adds the message that the items of the model make.
func (r *reader) endTurn() {
	t := &r.turn
	if !t.open {
		return
	}
	defer func() { *t = turn{} }()
	if len(t.parts) == 0 && len(t.calls) == 0 {
		return // The model thought and said nothing, as when it was interrupted.
	}
	r.addReminder()
	r.addSystem()
	m := chat.Message{Role: chat.Assistant, Calls: t.calls, Thinking: list(t.state.blocks.Out),
		Details: list(t.state.details.Out), Extra: t.state.extra}
	switch {
	case len(t.parts) == 1 && t.parts[0].Type == chat.RefusalPart:
		m.Refusal = t.parts[0].Text
	case len(t.parts) > 0:
		m.Content = contentOf(t.parts)
	}
	if m.Thinking == nil {
		m.Reasoning = t.thinking
	}
	extras := t.state.callExtras()
	for i := range m.Calls {
		m.Calls[i].Extra = extras[m.Calls[i].ID.String()]
	}
	r.Messages = append(r.Messages, m)
}

// list returns an array of elements, nil if there are none.
func list(elements []byte) []byte {
	if len(elements) == 0 {
		return nil
	}
	return append(append([]byte{'['}, elements...), ']')
}
