package responses

import (
	"bytes"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// turn is what the model said between two messages of others. Its items become one
// message.
type turn struct {
	open     bool
	single   []byte           // the only text so far, as JSON
	parts    jsonwrite.Writer // all parts so far
	refusal  []byte           // the only part so far, if it is a refusal
	count    int
	calls    []call
	thinking []byte // escaped
	state    state
}

// call is a call of a tool; all members are JSON.
type call struct{ id, name, arguments []byte }

// addContent adds the content of a message of the model.
func (t *turn) addContent(doc *jsonscan.Document, content jsonscan.Value) *schema.Error {
	t.open = true
	if content.Kind() == jsonscan.String {
		t.addText(content.Raw())
		return nil
	}
	if content.Kind() != jsonscan.Array {
		return wrongContent(content)
	}
	i := 0
	for p := dialect.Rescan(doc, content).First(); p.Kind() != jsonscan.Absent; p = p.Next() {
		text := textOf(p)
		if text.Kind() == jsonscan.String {
			t.addText(text.Raw())
		} else {
			if t.count == 0 && string(p.Get("type").Text()) == "refusal" {
				t.refusal = bytes.Clone(p.Get("refusal").Raw())
			}
			if err := writePart(&t.parts, p); err != nil {
				return within("content["+strconv.Itoa(i)+"]", err)
			}
			t.count++
		}
		i++
	}
	return nil
}

// addText adds a text, which is JSON.
func (t *turn) addText(text []byte) {
	if t.count == 0 {
		t.single = bytes.Clone(text)
	}
	t.parts.Open(`{"type":"text","text":`)
	t.parts.Raw(text)
	t.parts.EndObject()
	t.count++
}

// endTurn writes the message that the items of the model make.
func (r *reader) endTurn() {
	t := &r.turn
	if !t.open {
		return
	}
	if t.count == 0 && len(t.calls) == 0 {
		// The model thought and said nothing, as when it was interrupted.
		*t = turn{}
		return
	}
	r.writeReminder()
	r.writeSystem()
	r.Object()
	r.Literal(`"role":"assistant"`)
	r.Name("content")
	switch {
	case t.count == 0, t.count == 1 && t.refusal != nil:
		r.Literal("null")
	case t.count == 1 && t.single != nil:
		r.Raw(t.single)
	default:
		r.Array()
		r.Raw(t.parts.Out)
		r.EndArray()
	}
	if t.count == 1 && t.refusal != nil {
		r.Member("refusal", t.refusal)
	}
	if len(t.thinking) > 0 && len(t.state.blocks.Out) == 0 {
		r.Name("reasoning_content")
		r.Escaped(t.thinking)
	}
	t.state.write(&r.Writer)
	if len(t.calls) > 0 {
		r.Name("tool_calls")
		r.Array()
		extras := t.state.callExtras()
		for _, c := range t.calls {
			dialect.BeginCall(&r.Writer, -1, c.id, c.name)
			r.Raw(c.arguments)
			r.Close("}")
			if extra := extras[string(c.id)]; extra != nil {
				r.Member("extra_content", extra)
			}
			r.EndObject()
		}
		r.EndArray()
	}
	r.EndObject()
	*t = turn{}
}
