package dialect

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
)

// TextPattern recognizes events that differ from an earlier one in the content of one
// string only, as nearly all events of a stream do, so that they need not be scanned.
type TextPattern struct{ before, after []byte }

// longestPattern bounds what is remembered of an event.
const longestPattern = 1 << 10

// Learn remembers an event that was scanned. The span is that of the string, with its
// quotes.
func (p *TextPattern) Learn(event []byte, start, end int) {
	if len(event)-(end-start) > longestPattern {
		return
	}
	p.before = append(p.before[:0], event[:start+1]...)
	p.after = append(p.after[:0], event[end-1:]...)
}

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
