package messages

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
)

// textTemplate recognizes chunks that differ from an earlier one in their text only,
// which nearly all chunks of a stream do, so that they need not be scanned. Chunks are
// valid JSON, because they were scanned or written before.
type textTemplate struct{ before, after []byte }

// learn remembers a chunk that says nothing but a text.
func (t *textTemplate) learn(chunk []byte, choice, delta jsonscan.Value) {
	content := delta.Get("content")
	members := 0
	for m := delta.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		members++
	}
	if content.Kind() != jsonscan.String || members != 1 || choice.Get("finish_reason").Given() {
		return
	}
	start, end := content.Span()
	if len(chunk)-(end-start) > longestTemplate {
		return
	}
	t.before = append(t.before[:0], chunk[:start+1]...)
	t.after = append(t.after[:0], chunk[end-1:]...)
}

// longestTemplate bounds what is remembered.
const longestTemplate = 1 << 10

// text returns the text of a chunk that is like the one that was learned, escaped.
func (t *textTemplate) text(chunk []byte) ([]byte, bool) {
	if t.before == nil || len(chunk) < len(t.before)+len(t.after) || !bytes.HasPrefix(chunk, t.before) || !bytes.HasSuffix(chunk, t.after) {
		return nil, false
	}
	text := chunk[len(t.before) : len(chunk)-len(t.after)]
	for at := 0; ; {
		quote := bytes.IndexByte(text[at:], '"')
		if quote < 0 {
			return text, !endsInEscape(text)
		}
		if !endsInEscape(text[:at+quote]) {
			return nil, false // the text ends here, and something else follows
		}
		at += quote + 1
	}
}

// endsInEscape tells whether what follows an escaped text is escaped.
func endsInEscape(text []byte) bool {
	slashes := 0
	for i := len(text) - 1; i >= 0 && text[i] == '\\'; i-- {
		slashes++
	}
	return slashes%2 == 1
}
