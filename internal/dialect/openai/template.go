package openai

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
)

// chunkTemplate is a chunk of a stream with a gap where its text is. The chunks of an
// answer seldom differ in anything but their text, and a chunk that matches the
// template of an earlier one needs not be scanned.
type chunkTemplate struct {
	in, out        []byte // the chunk as it came, and as the caller gets it
	from, to       int    // where its text is in in, without the quotes
	outFrom, outTo int    // and in out, which is empty if it is the same as in

	delta jsonscan.Document
}

// maxTemplate is the longest chunk of which a template is kept.
const maxTemplate = 2 << 10

// learn makes the template from a chunk that was scanned, and from what the client
// gets of it.
func (m *chunkTemplate) learn(in []byte, choices jsonscan.Value, out []byte, edits []jsonscan.Edit) {
	m.in, m.out = m.in[:0], m.out[:0]
	choice := choices.First()
	if choice.Next().Kind() != jsonscan.Absent || len(in) > maxTemplate {
		return
	}
	from, to := m.textSpan(choice)
	if to == 0 {
		return
	}
	m.in = append(m.in, in...)
	m.from, m.to = from+1, to-1
	if len(edits) > 0 {
		m.out = append(m.out, out...)
		m.outFrom, m.outTo = jsonscan.Moved(edits, m.from), jsonscan.Moved(edits, m.to)
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
	m.delta.AllowDuplicateKeys = true
	if m.delta.Parse(delta.Raw()) != nil { // it was read before, as a part
		return 0, 0
	}
	text := m.delta.Root().Get("content")
	if text.Kind() != jsonscan.String {
		text = m.delta.Root().Get("reasoning_content")
	}
	if text.Kind() != jsonscan.String {
		return 0, 0
	}
	at, _ := delta.Span()
	from, to = text.Span()
	return at + from, at + to
}

// matches reports whether a chunk differs from the one that the template was made
// from in nothing but its text.
func (m *chunkTemplate) matches(chunk []byte) bool {
	if len(m.in) == 0 {
		return false
	}
	before, after := m.in[:m.from], m.in[m.to:]
	if len(chunk) < len(before)+len(after) || len(chunk) > dialect.MaxKept {
		return false
	}
	end := len(chunk) - len(after)
	return bytes.Equal(chunk[end:], after) && bytes.Equal(chunk[:m.from], before) && jsonscan.StringEnds(chunk, m.from, end)
}

// apply returns a chunk that matches as the client gets it: as it came, or written into a
// buffer.
func (m *chunkTemplate) apply(into *[]byte, chunk []byte) []byte {
	if len(m.out) == 0 {
		return chunk
	}
	out := append((*into)[:0], m.out[:m.outFrom]...)
	out = append(out, chunk[m.from:len(chunk)-(len(m.in)-m.to)]...)
	*into = append(out, m.out[m.outTo:]...)
	return *into
}
