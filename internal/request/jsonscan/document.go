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
	"bytes"
	"iter"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// MaxDepth is how deeply arrays and objects may be nested.
const MaxDepth = 128

// recordDepth is how deep values can be looked up: the root is 0, so messages[i].role
// and choices[i].finish_reason are within reach. Deeper values are checked and skipped,
// unless the Document is Deep.
const recordDepth = 3

const (
	// shortElement is the longest element of an array that has no node: finding
	// its end again costs less than remembering it, and a list of a million
	// numbers costs no more than its text.
	shortElement = 32
	// keepNodes is how many nodes a Document keeps for its next text, and may take
	// without asking Reserve.
	keepNodes = 4096
	// longString is the least length in bytes of a string with a remembered place, at
	// any depth: finding its end again costs more, and the place takes a part of its
	// memory that does not count.
	longString = 512
)

// NodeSize is the memory that a value takes which can be looked up.
const NodeSize = int(unsafe.Sizeof(node{}))

// Kind is the type of a Value.
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
	traits           traits
}

// span is the place of the content of a string, between its quotes.
type span struct{ start, end uint32 }

// traits are further facts about a value.
type traits uint8

const (
	escapedKey  traits = 1 << iota
	escaped            // a string with escapes
	closed             // its contents were not recorded
	onlyNumbers        // an array of nothing else
)

func (t traits) has(one traits) bool { return t&one != 0 }

// when returns the trait where it applies.
func (t traits) when(applies bool) traits {
	if applies {
		return t
	}
	return 0
}

// Document is a scanned JSON text. The zero value is ready; reuse it to keep
// its memory. A Value of it is good until the next Parse.
type Document struct {
	// AllowDuplicateKeys switches the check for duplicate keys off, for replies: nobody
	// can tell their authors.
	AllowDuplicateKeys bool
	// Deep makes values of every depth available for looking up.
	Deep bool
	// Reserve is asked before a text takes more memory than a Document keeps anyway.
	// Its error ends the scan, and Parse returns it. Nil asks nobody.
	Reserve func(bytes int) error

	data  []byte
	depth int // the deepest recorded values
	nodes []node
	long  []span // the long strings below that, in the order of the text
	keys  []key
}

// Value is one value of a Document. The zero Value is absent, and asking
// anything of it is allowed.
type Value struct {
	doc *Document
	n   uint32 // its node; for a value without one, the node that follows it
	end uint32 // where the nodes of the siblings end
	// start and stop are the place of a value without a node. For any other value stop
	// is 0.
	start, stop uint32
	// kind is the kind of the node. It has a field because callers ask for it most.
	kind Kind
}

// at returns the value of a node.
func (d *Document) at(n, end uint32) Value {
	return Value{doc: d, n: n, end: end, kind: d.nodes[n].kind}
}

// Data returns the text that was scanned last.
func (d *Document) Data() []byte { return d.data }

// Root returns the outermost value.
func (d *Document) Root() Value {
	if len(d.nodes) == 0 {
		return Value{}
	}
	return d.at(0, 1)
}

// Reset forgets the text and gives up memory that only a large text needs. A pooled
// Document then keeps neither alive.
func (d *Document) Reset() {
	d.data, d.Reserve = nil, nil
	d.nodes = d.nodes[:0]
	if cap(d.nodes) > keepNodes {
		d.nodes = nil
	}
	d.long = d.long[:0]
	if cap(d.long) > keepNodes {
		d.long = nil
	}
	d.keys = d.keys[:0]
}

func (v Value) node() *node { return &v.doc.nodes[v.n] }

// Kind returns the kind of v.
func (v Value) Kind() Kind { return v.kind }

// kindOf tells the kind of a checked value by its first byte.
func kindOf(first byte) Kind {
	switch first {
	case '"':
		return String
	case '{':
		return Object
	case '[':
		return Array
	case 't':
		return True
	case 'f':
		return False
	case 'n':
		return Null
	}
	return Number
}

// Given reports whether v is there and not null: an explicit null means the
// same as leaving a field out.
func (v Value) Given() bool { return v.kind != Absent && v.kind != Null }

// Get returns the member of an object with the given key. It looks at one member after
// the other; callers that ask for many use Members.
func (v Value) Get(name string) Value {
	if v.doc == nil || v.stop != 0 {
		return Value{}
	}
	nodes, data := v.doc.nodes, v.doc.data
	object := &nodes[v.n]
	if object.kind != Object {
		return Value{}
	}
	for i, end := v.n+1, object.next; i < end; {
		n := &nodes[i]
		if int(n.keyEnd-n.keyStart) == len(name) || n.traits.has(escapedKey) {
			key := data[n.keyStart:n.keyEnd]
			if n.traits.has(escapedKey) {
				key = Unescape(nil, key)
			}
			if string(key) == name {
				return v.doc.at(i, end)
			}
		}
		i = n.next
	}
	return Value{}
}

// First returns the first member or element of v, absent if there is none or
// if it lies deeper than values are recorded. Of short arrays within arrays the
// elements are found at any depth.
func (v Value) First() Value {
	switch v.Kind() {
	case Object:
		if v.stop != 0 || v.n+1 >= v.node().next {
			return Value{}
		}
		return v.doc.at(v.n+1, v.node().next)
	case Array:
		if v.stop != 0 {
			return v.doc.firstElement(v.start, v.n, v.n)
		}
		if n := v.node(); !n.traits.has(closed) {
			return v.doc.firstElement(n.start, v.n+1, n.next)
		}
	}
	return Value{}
}

// Next returns the sibling that follows v.
func (v Value) Next() Value {
	if v.doc == nil {
		return Value{}
	}
	if v.stop != 0 {
		return v.doc.elementAfter(v.stop, v.n, v.end)
	}
	n := v.node()
	if n.keyStart == 0 { // no member, so an element or the root
		return v.doc.elementAfter(n.end, n.next, v.end)
	}
	if n.next >= v.end {
		return Value{}
	}
	return v.doc.at(n.next, v.end)
}

// All returns the members or elements of v, as First and Next do.
func (v Value) All() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for m := v.First(); m.kind != Absent && yield(m); m = m.Next() {
		}
	}
}

// Elements is All with the place of each value.
func (v Value) Elements() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		i := 0
		for m := v.First(); m.kind != Absent && yield(i, m); m = m.Next() {
			i++
		}
	}
}

// Len returns how many members or elements of v All returns.
func (v Value) Len() int {
	n := 0
	for range v.All() {
		n++
	}
	return n
}

// Rescan makes d a document of one value of another. The inner parts of that value lie
// deeper than the other document records. A part of a text that was scanned has no faults.
func (d *Document) Rescan(v Value) Value {
	d.AllowDuplicateKeys = true
	if d.Parse(v.Raw()) != nil {
		return Value{}
	}
	return d.Root()
}

// firstElement returns the first element of the array that starts at a place. The nodes
// of its elements, if they have any, lie from n to end.
func (d *Document) firstElement(array, n, end uint32) Value {
	at := skipSpace(d.data, int(array)+1)
	if d.data[at] == ']' {
		return Value{}
	}
	return d.elementAt(at, n, end)
}

// elementAfter returns the element that follows one which ends at a place. The
// node of that element, if it has one, is n.
func (d *Document) elementAfter(place, n, end uint32) Value {
	at := skipSpace(d.data, int(place))
	if at >= len(d.data) || d.data[at] != ',' {
		return Value{}
	}
	return d.elementAt(skipSpace(d.data, at+1), n, end)
}

func (d *Document) elementAt(at int, n, end uint32) Value {
	if n < end && d.nodes[n].start == uint32(at) {
		return d.at(n, end)
	}
	return Value{doc: d, n: n, end: end, start: uint32(at), stop: uint32(d.EndOfValue(at)), kind: kindOf(d.data[at])}
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

// OnlyNumbers reports whether v is an array that holds nothing but numbers.
func (v Value) OnlyNumbers() bool {
	if v.Kind() != Array {
		return false
	}
	if v.stop == 0 {
		return v.node().traits.has(onlyNumbers)
	}
	for element := range v.All() {
		if element.Kind() != Number {
			return false
		}
	}
	return true
}

// Key returns the key of a member, without escapes.
func (v Value) Key() []byte {
	if v.doc == nil || v.stop != 0 {
		return nil
	}
	n := v.node()
	raw := v.doc.data[n.keyStart:n.keyEnd]
	if n.traits.has(escapedKey) {
		return Unescape(nil, raw)
	}
	return raw
}

// RawKey returns the key of a member as it came, between its quotes.
func (v Value) RawKey() []byte {
	if v.doc == nil || v.stop != 0 {
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
	if v.stop != 0 {
		return v.doc.data[v.start:v.stop]
	}
	n := v.node()
	return v.doc.data[n.start:n.end]
}

// Span returns the place of v in the text.
func (v Value) Span() (start, end int) {
	if v.doc == nil {
		return 0, 0
	}
	if v.stop != 0 {
		return int(v.start), int(v.stop)
	}
	n := v.node()
	return int(n.start), int(n.end)
}

// MemberSpan returns the place of the member v in the text, from its key's opening
// quote to the end of its value.
func (v Value) MemberSpan() (start, end int) {
	if v.doc == nil || v.stop != 0 {
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
	raw := v.Raw()
	raw = raw[1 : len(raw)-1]
	if v.stop != 0 && bytes.IndexByte(raw, '\\') >= 0 || v.stop == 0 && v.node().traits.has(escaped) {
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
	f, err := strconv.ParseFloat(shared(raw), 64)
	return f, err == nil
}

// Int returns the value of a number that is whole; 1.0 and 1e2 are whole.
func (v Value) Int() (i int64, ok bool) {
	if v.Kind() != Number {
		return 0, false
	}
	raw := v.Raw()
	if i, err := strconv.ParseInt(shared(raw), 10, 64); err == nil {
		return i, true
	}
	f, ok := v.Float()
	if !ok || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Unescape appends to dst the content of a checked JSON string, given in its raw form
// without quotes. Half of a surrogate pair becomes U+FFFD.
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

// TextOf returns the content of a member that is a string, as Text does.
func (v Value) TextOf(name string) []byte { return v.Get(name).Text() }

// Is reports whether a member is a string with the given content.
func (v Value) Is(name, text string) bool { return string(v.TextOf(name)) == text }

// IsTrue reports whether a member is true.
func (v Value) IsTrue(name string) bool { return v.Get(name).Kind() == True }
