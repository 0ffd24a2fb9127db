package ollama

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Ollama cannot be told that the model must call a tool. It can be told the form of the text,
// which it enforces while the model writes: so a forced call is asked for as a text in the
// form of a call, and the answer is read as one.

// isForced reports whether the model must call a tool.
func isForced(asked *chat.Request) bool {
	return len(asked.Tools) > 0 && (asked.ToolChoice.Mode == "required" || len(asked.ToolChoice.Name) > 0)
}

// isForcedBy reports whether the answer to a request must be a call.
func isForcedBy(req *schema.Request) bool {
	if req == nil || req.Door == schema.DoorCompletions {
		return false
	}
	asked, err := req.Chat() // it was read when the call was written
	return err == nil && isForced(asked)
}

// force gives the text the form of a call of one of the functions that may be called.
func (b *requestWriter) force(asked *chat.Request) error {
	if !isForced(asked) {
		return nil
	}
	var forms [][]byte
	for i := range asked.Tools {
		tool := &asked.Tools[i]
		if name := asked.ToolChoice.Name; tool.IsFunction && (len(name) == 0 || tool.Name.String() == name.String()) {
			forms = append(forms, callForm(tool))
		}
	}
	switch len(forms) {
	case 0: // the tools report the fault
	case 1:
		b.top.Add("format", forms[0])
	default:
		b.top.Add("format", append(append([]byte(`{"anyOf":[`), bytes.Join(forms, []byte(","))...), "]}"...))
	}
	return nil
}

// callForm returns the schema of a call of a function. References in the schema of its
// parameters would point to other places there, and so such parameters are any object.
func callForm(tool *chat.Tool) []byte {
	parameters := tool.Schema
	if len(parameters) == 0 || parameters[0] != '{' || bytes.Contains(parameters, []byte(`"$ref"`)) {
		parameters = []byte(`{"type":"object"}`)
	}
	var w jsonwrite.Writer
	w.Open(`{"type":"object","properties":{"name":{"type":"string","enum":[`).Escaped(tool.Name)
	w.Close(`]},"arguments":`)
	w.Out = append(w.Out, parameters...)
	w.Close(`},"required":["name","arguments"]}`)
	return w.Out
}

// gather keeps the text of a line for the last one: then it becomes a call.
func (r *answerReader) gather(line *answerLine, choice *chat.Choice) error {
	r.text = append(r.text, choice.Text...)
	if len(r.text) > dialect.MaxEvent {
		return dialect.Invalid("it is too long")
	}
	choice.Text = nil
	if line.done {
		choice.Text = r.text
		r.readForced(choice)
	}
	return nil
}

// readForced reads a text in the form of a call as one, if it is one: a text that a limit
// has cut stays a text.
func (r *answerReader) readForced(choice *chat.Choice) {
	if r.calls > 0 || len(choice.Text) == 0 {
		return
	}
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	if doc.Parse(chat.Unescape(choice.Text)) != nil {
		return
	}
	name, arguments := chat.TextIn(doc.Root(), "name"), doc.Root().Get("arguments")
	if len(name) == 0 || arguments.Kind() != jsonscan.Object {
		return
	}
	choice.Calls = append(choice.Calls, chat.ToolCall{Index: r.calls, ID: r.callID(), Name: name,
		Arguments: chat.Escape(dialect.CompactObject(arguments))})
	choice.Text = nil
	r.calls++
}
