package anthropic

import (
	"bytes"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// mark makes the API cache the prompt up to the block that has it.
const mark = `"cache_control":{"type":"ephemeral"}`

// Breakpoints marks the last tool, the last block of the system prompt and the last two turns of the
// user in the body of a call, if it has no marks and is part of a conversation: with tools, or with at
// least two turns of the user.
func Breakpoints(call *wire.Call) {
	body := slices.Concat(call.Body...)
	doc := jsonscan.Document{Deep: true}
	if bytes.Contains(body, []byte(`"cache_control"`)) || doc.Parse(body) != nil {
		return
	}
	var users, edits = []jsonscan.Value(nil), []jsonscan.Edit(nil)
	for message := range doc.Root().Get("messages").All() {
		if message.Is("role", "user") {
			users = append(users, message.Get("content"))
		}
	}
	tools := last(doc.Root().Get("tools"))
	if tools.Kind() != jsonscan.Object && len(users) < 2 {
		return
	}
	for _, v := range append(users[max(0, len(users)-2):], doc.Root().Get("system"), tools) {
		if v.Kind() == jsonscan.Array {
			v = last(v)
		}
		switch {
		case v.Kind() == jsonscan.Object:
			edits = append(edits, v.Insert([]byte(mark)))
		case v.Kind() == jsonscan.String && len(v.Text()) > 0: // an empty block cannot be marked
			block := slices.Concat([]byte(`[{"type":"text","text":`), v.Raw(), []byte(`,`+mark+`}]`))
			edits = append(edits, v.Replace(block))
		}
	}
	call.Body = append(call.Body[:0], slices.Concat(doc.Splice(nil, edits)...))
}

// last returns the last element of a list.
func last(list jsonscan.Value) (element jsonscan.Value) {
	for element = range list.All() { // only the last one counts
	}
	return element
}
