package dialect

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// TextPattern recognizes events that differ from an earlier one in the content of one
// string only, as nearly all events of a stream do. They need not be scanned.
type TextPattern struct {
	around []byte // the event without that content
	at     int    // where it is
}

// longestPattern bounds the remembered bytes of an event.
const longestPattern = 2 << 10

// Learn remembers an event that was scanned, and returns false if it is too long. The span
// covers the string, with its quotes.
func (p *TextPattern) Learn(event []byte, start, end int) bool {
	p.Forget()
	length := len(event) - (end - start) + len(`""`)
	if length > longestPattern {
		return false
	}
	if cap(p.around) < length {
		p.around = make([]byte, 0, length)
	}
	p.at = start + 1
	p.around = append(append(p.around, event[:p.at]...), event[end-1:]...)
	return true
}

// Forget forgets the event: no other is recognized by it.
func (p *TextPattern) Forget() { p.around = p.around[:0] }

// Text returns the content of the string, escaped, of an event that is otherwise equal
// to the learned one. Such an event is valid JSON.
func (p *TextPattern) Text(event []byte) ([]byte, bool) {
	if len(p.around) == 0 || len(event) < len(p.around) || len(event) > MaxKept {
		return nil, false
	}
	after := p.around[p.at:]
	end := len(event) - len(after)
	if !bytes.Equal(event[end:], after) || !bytes.Equal(event[:p.at], p.around[:p.at]) ||
		!jsonscan.StringEnds(event, p.at, end) {
		return nil, false
	}
	return event[p.at:end], true
}

// Append appends the event that was learned, with another text.
func (p *TextPattern) Append(dst, text []byte) []byte {
	return append(append(append(dst, p.around[:p.at]...), text...), p.around[p.at:]...)
}
