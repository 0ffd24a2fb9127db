package dialect

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
)

// TextPattern recognizes events that differ from an earlier one in the content of one
// string only, as nearly all events of a stream do, so that they need not be scanned.
type TextPattern struct{ before, after []byte }

// longestPattern bounds what is remembered of an event.
const longestPattern = 2 << 10

// Learn remembers an event that was scanned, and returns false if it is too long. The span
// is that of the string, with its quotes.
func (p *TextPattern) Learn(event []byte, start, end int) bool {
	p.Forget()
	if len(event)-(end-start) > longestPattern {
		return false
	}
	p.before = append(p.before, event[:start+1]...)
	p.after = append(p.after[:0], event[end-1:]...)
	return true
}

// Forget forgets the event, so that no other is recognized by it.
func (p *TextPattern) Forget() { p.before = p.before[:0] }

// Text returns the content of the string, escaped, of an event that is otherwise the one
// that was learned. Such an event is valid JSON.
func (p *TextPattern) Text(event []byte) ([]byte, bool) {
	if len(p.before) == 0 || len(event) < len(p.before)+len(p.after) || len(event) > MaxKept {
		return nil, false
	}
	end := len(event) - len(p.after)
	if !bytes.Equal(event[end:], p.after) || !bytes.Equal(event[:len(p.before)], p.before) || !jsonscan.StringEnds(event, len(p.before), end) {
		return nil, false
	}
	return event[len(p.before):end], true
}

// Append appends the event that was learned, with another text.
func (p *TextPattern) Append(dst, text []byte) []byte {
	return append(append(append(dst, p.before...), text...), p.after...)
}
