// Package custominput finds the input of a custom tool in the arguments of the function in
// its place, while they arrive.
package custominput

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// Input finds the input of a custom tool in the arguments of the function in its place,
// {"input":"..."}, while they arrive.
type Input struct {
	all    []byte // the arguments so far
	tokens int    // how many tokens before the text were found
	at     int    // where they end
	from   int    // where the text begins, 0 until it was found
	sent   int    // up to where it was returned
	done   bool   // its closing quote was seen
}

// Add adds a piece of the arguments and returns the new part of the input, escaped.
func (c *Input) Add(piece []byte) []byte {
	c.all = append(c.all, piece...)
	if c.from == 0 {
		c.find()
	}
	if c.from == 0 || c.done {
		return nil
	}
	start, end := c.sent, c.wholeUntil()
	c.sent = end
	return c.all[start:end]
}

// Begun reports whether Add has returned something.
func (c *Input) Begun() bool { return c.sent > c.from }

// find looks for the beginning of the text, from where it has stopped before.
func (c *Input) find() {
	before := [...]string{"{", `"input"`, ":", `"`}
	for c.tokens < len(before) {
		rest := bytes.TrimLeft(c.all[c.at:], " \t\r\n")
		c.at = len(c.all) - len(rest)
		if !bytes.HasPrefix(rest, []byte(before[c.tokens])) {
			return
		}
		c.at += len(before[c.tokens])
		c.tokens++
	}
	c.from, c.sent = c.at, c.at
}

// wholeUntil returns the end of the part of the text without half escapes.
func (c *Input) wholeUntil() int {
	i := c.sent
	for i < len(c.all) {
		switch c.all[i] {
		case '"':
			c.done = true
			return i
		case '\\':
			length := escapeLength(c.all[i:])
			if length == 0 {
				return i
			}
			i += length
		default:
			i++
		}
	}
	return i
}

// escapeLength returns the length of the escape at the beginning of a text, 0 if it is
// not complete. The two halves of a surrogate pair are one.
func escapeLength(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	if text[1] != 'u' {
		return 2
	}
	if len(text) < 6 {
		return 0
	}
	if !isHighSurrogate(text) {
		return 6
	}
	switch rest := text[6:]; {
	case len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u':
		return 12
	case len(rest) == 0, rest[0] == '\\' && (len(rest) < 2 || rest[1] == 'u'):
		return 0 // the other half may follow
	}
	return 6
}

// isHighSurrogate reports whether an escape is the first half of a surrogate pair.
func isHighSurrogate(escape []byte) bool {
	return escape[2]|0x20 == 'd' && (escape[3] == '8' || escape[3] == '9' || escape[3]|0x20 == 'a' ||
		escape[3]|0x20 == 'b')
}

// End returns the whole input, escaped. Arguments that are something else than was asked
// for are the input as they are.
func (c *Input) End() []byte {
	doc := jsonscan.Document{AllowDuplicateKeys: true}
	if doc.Parse(bytes.TrimSpace(c.all)) == nil {
		switch root := doc.Root(); root.Kind() {
		case jsonscan.Object:
			if input := root.Get("input"); input.Kind() == jsonscan.String {
				raw := input.Raw()
				return raw[1 : len(raw)-1]
			}
		case jsonscan.String:
			raw := root.Raw()
			return raw[1 : len(raw)-1]
		}
	}
	if c.from > 0 {
		return c.all[c.from:c.sent] // cut off
	}
	quoted := jsonwrite.AppendText(nil, c.all)
	return quoted[1 : len(quoted)-1]
}
