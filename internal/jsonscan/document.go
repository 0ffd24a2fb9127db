// Package jsonscan checks a JSON text strictly and remembers where its upper
// levels are, in one pass and without decoding. Requests and replies are mostly
// passed on as they came; this package finds the few places that matter.
//
// Strict means: RFC 8259 grammar, valid UTF-8, no duplicate keys at any depth, no
// nesting beyond MaxDepth, nothing after the text. An escape that is half of a
// surrogate pair is grammatical and is passed on; as text it is U+FFFD, and keys
// that are the same as text are duplicates.
package jsonscan

import (
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// MaxDepth is how deeply arrays and objects may be nested.
const MaxDepth = 128

// recordDepth is how deep values can be looked up: the root is 0, so
// messages[i].role and choices[i].finish_reason are within reach. What lies
// deeper is checked and passed over.
const recordDepth = 3

// Kind tells what a Value is.
type Kind uint8

// The kinds of values. Absent is the kind of a lookup that found nothing.
const (
	Absent Kind = iota
	Null
	False
	True
	Number
	String
	Object
	Array
)

// node is one recorded value. Positions fit 32 bits because no body that is
// scanned is larger than 4 GiB.
type node struct {
	keyStart, keyEnd uint32 // between the quotes
	start, end       uint32 // quotes and brackets included
	next             uint32 // the node after this one and all it contains
	kind             Kind
	escapedKey       bool
	escaped          bool
}

// Document is a scanned JSON text. The zero value is ready; reuse it to keep
// its memory. A Value of it is good until the next Parse.
type Document struct {
	// AllowDuplicateKeys switches the check for duplicate keys off, for replies
	// whose authors cannot be told.
	AllowDuplicateKeys bool

	data  []byte
	nodes []node
	keys  []key
}

// Value is one value of a Document. The zero Value is absent, and asking
// anything of it is allowed.
type Value struct {
	doc *Document
	n   uint32
	end uint32 // where the siblings end
}

// Data returns the text that was scanned last.
func (d *Document) Data() []byte { return d.data }

// Root returns the outermost value.
func (d *Document) Root() Value {
	if len(d.nodes) == 0 {
		return Value{}
	}
	return Value{doc: d, end: 1}
}

// Reset forgets the text, so that a pooled Document does not keep it alive.
func (d *Document) Reset() {
	d.data = nil
	d.nodes = d.nodes[:0]
	clear(d.keys[:cap(d.keys)])
	d.keys = d.keys[:0]
}

func (v Value) node() *node { return &v.doc.nodes[v.n] }

// Kind returns what v is.
func (v Value) Kind() Kind {
	if v.doc == nil {
		return Absent
	}
	return v.node().kind
}

// Given reports whether v is there and not null: an explicit null means the
// same as leaving a field out.
func (v Value) Given() bool { k := v.Kind(); return k != Absent && k != Null }

// Get returns the member of an object with the given key.
func (v Value) Get(name string) Value {
	if v.Kind() != Object {
		return Value{}
	}
	for m := v.First(); m.doc != nil; m = m.Next() {
		if n := m.node(); !n.escapedKey {
			if string(v.doc.data[n.keyStart:n.keyEnd]) == name {
				return m
			}
		} else if string(m.Key()) == name {
			return m
		}
	}
	return Value{}
}

// First returns the first member or element of v, absent if there is none or
// if it lies deeper than values are recorded.
func (v Value) First() Value {
	if v.doc == nil || v.n+1 >= v.node().next {
		return Value{}
	}
	return Value{doc: v.doc, n: v.n + 1, end: v.node().next}
}

// Next returns the sibling that follows v.
func (v Value) Next() Value {
	if v.doc == nil || v.node().next >= v.end {
		return Value{}
	}
	return Value{doc: v.doc, n: v.node().next, end: v.end}
}

// Empty reports whether v is an object or array without content.
func (v Value) Empty() bool {
	switch v.Kind() {
	case Object, Array:
	default:
		return false
	}
	raw := v.Raw()
	for _, c := range raw[1 : len(raw)-1] {
		if !isSpace(c) {
			return false
		}
	}
	return true
}

// Key returns the key of a member, without escapes.
func (v Value) Key() []byte {
	if v.doc == nil {
		return nil
	}
	n := v.node()
	raw := v.doc.data[n.keyStart:n.keyEnd]
	if n.escapedKey {
		return Unescape(nil, raw)
	}
	return raw
}

// RawKey returns the key of a member as it came, between its quotes.
func (v Value) RawKey() []byte {
	if v.doc == nil {
		return nil
	}
	n := v.node()
	return v.doc.data[n.keyStart:n.keyEnd]
}

// Raw returns the bytes of v as they came.
func (v Value) Raw() []byte {
	if v.doc == nil {
		return nil
	}
	n := v.node()
	return v.doc.data[n.start:n.end]
}

// Span returns where v stands in the text.
func (v Value) Span() (start, end int) {
	if v.doc == nil {
		return 0, 0
	}
	n := v.node()
	return int(n.start), int(n.end)
}

// MemberSpan returns where the member v stands in the text, from its key's
// opening quote to the end of its value.
func (v Value) MemberSpan() (start, end int) {
	if v.doc == nil {
		return 0, 0
	}
	n := v.node()
	return int(n.keyStart) - 1, int(n.end)
}

// Text returns the content of a string, without quotes and escapes, and nil for
// anything else. The bytes belong to the Document unless there were escapes.
func (v Value) Text() []byte {
	if v.Kind() != String {
		return nil
	}
	n := v.node()
	raw := v.doc.data[n.start+1 : n.end-1]
	if n.escaped {
		return Unescape(nil, raw)
	}
	return raw
}

// Float returns the value of a number; ok is false for anything else and for
// numbers beyond the range of a float64.
func (v Value) Float() (f float64, ok bool) {
	if v.Kind() != Number {
		return 0, false
	}
	raw := v.Raw()
	f, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(raw), len(raw)), 64)
	return f, err == nil
}

// Int returns the value of a number that is whole; 1.0 and 1e2 are whole.
func (v Value) Int() (i int64, ok bool) {
	if v.Kind() != Number {
		return 0, false
	}
	raw := v.Raw()
	if i, err := strconv.ParseInt(unsafe.String(unsafe.SliceData(raw), len(raw)), 10, 64); err == nil {
		return i, true
	}
	f, ok := v.Float()
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Unescape appends to dst the content of a checked JSON string whose raw form,
// without quotes, is given. Half of a surrogate pair becomes U+FFFD.
func Unescape(dst, raw []byte) []byte {
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			dst = append(dst, raw[i])
			continue
		}
		i++
		switch raw[i] {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hexRune(raw[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				pair := rune(utf8.RuneError)
				if rest := raw[i+1:]; len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
					pair = utf16.DecodeRune(r, hexRune(rest[2:]))
				}
				if r = pair; r != utf8.RuneError {
					i += 6
				}
			}
			dst = utf8.AppendRune(dst, r)
		default: // quote, backslash, slash
			dst = append(dst, raw[i])
		}
	}
	return dst
}
