package openai

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// chunkTemplate is a chunk of a stream with a gap where its text is. The chunks of an
// answer seldom differ in anything but their text, and a chunk that matches the
// template of an earlier one needs not be scanned.
type chunkTemplate struct {
	in, out  dialect.TextPattern // the chunk as it came, and as the caller gets it
	isEdited bool                // the two differ
	// isThinking says that the text is thinking of the model.
	isThinking bool
	delta      jsonscan.Document
}

// learn makes the template from a chunk that was scanned, and from the client's form of
// it.
func (m *chunkTemplate) learn(in []byte, choices jsonscan.Value, out []byte, edits []jsonscan.Edit) {
	m.in.Forget()
	choice := choices.First()
	if choice.Next().Kind() != jsonscan.Absent {
		return
	}
	from, to := m.textSpan(choice)
	m.isEdited = len(edits) > 0
	if to > 0 && (!m.isEdited || m.out.Learn(out, jsonscan.Moved(edits, from+1)-1, jsonscan.Moved(edits, to-1)+1)) {
		m.in.Learn(in, from, to)
	}
}

// textSpan returns where the text of a choice is in its chunk, with its quotes; it ends
// at 0 if there is none.
func (m *chunkTemplate) textSpan(choice jsonscan.Value) (from, to int) {
	if text := choice.Get("text"); text.Kind() == jsonscan.String { // of a completion
		return text.Span()
	}
	delta := choice.Get("delta")
	if delta.Kind() != jsonscan.Object {
		return 0, 0
	}
	said := m.delta.Rescan(delta)
	text := said.Get("content")
	m.isThinking = text.Kind() != jsonscan.String
	if m.isThinking {
		text = said.Get("reasoning_content")
	}
	if text.Kind() != jsonscan.String {
		return 0, 0
	}
	at, _ := delta.Span()
	from, to = text.Span()
	return at + from, at + to
}

// apply returns a chunk as the client gets it, as it came or written into a buffer, and its
// text. It returns false for one that differs from the template in more than its text.
func (m *chunkTemplate) apply(into *[]byte, chunk []byte) (out, text []byte, matches bool) {
	text, matches = m.in.Text(chunk)
	if !matches || !m.isEdited {
		return chunk, text, matches
	}
	*into = m.out.Append((*into)[:0], text)
	return *into, text, true
}
