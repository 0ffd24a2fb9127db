package jsonscan

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Error names the fault of a text and its place.
type Error struct {
	Offset int
	Reason say.Sentence
}

// Error returns the reason with its place.
func (e *Error) Error() string { return e.Said().String() }

// Said returns the reason with its place as a sentence.
func (e *Error) Said() say.Sentence { return say.New("json.at", "fault", e.Reason, "offset", e.Offset) }

// key is a key of an object that is still open.
type key struct {
	// print is the length and the first bytes: different prints mean different keys.
	print      uint64
	start, end uint32
	escaped    bool
}

// linearKeys is the largest number of an object's keys that are compared one by one;
// larger objects get a table: hostile ones cost no quadratic time.
const linearKeys = 24

// ByteOrderMark is the mark that some programs put in front of a text.
const ByteOrderMark = "\xef\xbb\xbf"

// Parse checks the text and records its upper levels. The Document keeps a reference to
// data. A byte order mark in front of the text is no part of it. The error is an
// *Error, or the error of Reserve.
func (d *Document) Parse(data []byte) error {
	if len(data) > len(ByteOrderMark) && string(data[:len(ByteOrderMark)]) == ByteOrderMark {
		data = data[len(ByteOrderMark):]
	}
	d.data = data
	d.nodes = d.nodes[:0]
	d.long = d.long[:0]
	d.keys = d.keys[:0]
	d.depth = recordDepth
	if d.Deep {
		d.depth = MaxDepth
	}
	i := skipSpace(data, 0)
	if i == len(data) {
		return faultAt(i, "json.empty")
	}
	i, err := d.value(i, 0, node{})
	if err != nil {
		d.nodes = d.nodes[:0]
		return err
	}
	if i = skipSpace(data, i); i != len(data) {
		d.nodes = d.nodes[:0]
		return faultAt(i, "json.behind")
	}
	return nil
}

// value scans the root or the value of a member, which starts at i, and returns
// where it ends. The node carries the key, if the value has one.
func (d *Document) value(i, depth int, n node) (end int, err error) {
	self := -1
	if depth <= d.depth {
		self = len(d.nodes)
		n.start = uint32(i)
		if err := d.record(n); err != nil {
			return 0, err
		}
	}
	kind := kindOf(d.data[i])
	var found traits
	switch kind {
	case String:
		var escapes bool
		end, escapes, err = d.str(i + 1)
		found = escaped.when(escapes)
		if self < 0 && end-i > longString {
			d.rememberLong(i, end)
		}
	case Object:
		end, err = d.object(i, depth+1)
	case Array:
		var numbers bool
		end, _, numbers, err = d.array(i, depth+1)
		found = onlyNumbers.when(numbers)
	default:
		end, err = d.scalar(i, kind)
	}
	if err == nil && self >= 0 {
		rec := &d.nodes[self]
		rec.end, rec.next, rec.kind = uint32(end), uint32(len(d.nodes)), kind
		rec.traits |= found | closed.when(depth == d.depth)
	}
	return end, err
}

// scalar scans a value that is neither a string nor in brackets.
func (d *Document) scalar(i int, kind Kind) (end int, err error) {
	switch kind {
	case True:
		return d.literal(i, "true")
	case False:
		return d.literal(i, "false")
	case Null:
		return d.literal(i, "null")
	}
	return d.number(i)
}

// record adds a node.
func (d *Document) record(n node) error {
	if len(d.nodes) == cap(d.nodes) {
		if err := d.grow(); err != nil {
			return err
		}
	}
	d.nodes = append(d.nodes, n)
	return nil
}

// grow makes room for more nodes: first for as many as a chunk of a stream has, because
// thousands of them are kept at once, then for many.
func (d *Document) grow() error {
	const first, second = 16, 128
	before := cap(d.nodes)
	after := 2 * before
	switch {
	case before < first:
		after = first
	case before < second:
		after = second
	}
	if d.Reserve != nil && after > keepNodes {
		if err := d.Reserve((after - before) * NodeSize); err != nil {
			return err
		}
	}
	d.nodes = append(make([]node, 0, after), d.nodes...)
	return nil
}

func (d *Document) object(i, depth int) (int, error) {
	if depth > MaxDepth {
		return 0, faultAt(i, "json.deep")
	}
	base := len(d.keys)
	var many map[string]bool
	i = skipSpace(d.data, i+1)
	if i < len(d.data) && d.data[i] == '}' {
		return i + 1, nil
	}
	for {
		if i >= len(d.data) || d.data[i] != '"' {
			return 0, d.unexpected(i, "json.key")
		}
		keyStart := i + 1
		keyEnd, escapes, err := d.str(keyStart)
		if err != nil {
			return 0, err
		}
		if !d.AllowDuplicateKeys {
			if err := d.remember(base, &many, keyStart, keyEnd-1, escapes); err != nil {
				return 0, err
			}
		}
		if i = skipSpace(d.data, keyEnd); i >= len(d.data) || d.data[i] != ':' {
			return 0, d.unexpected(i, "json.colon")
		}
		if i = skipSpace(d.data, i+1); i >= len(d.data) {
			return 0, d.unexpected(i, "json.value")
		}
		i, err = d.value(i, depth, node{keyStart: uint32(keyStart), keyEnd: uint32(keyEnd - 1),
			traits: escapedKey.when(escapes)})
		if err != nil {
			return 0, err
		}
		if i = skipSpace(d.data, i); i >= len(d.data) {
			return 0, d.unexpected(i, "json.object")
		}
		switch d.data[i] {
		case '}':
			d.keys = d.keys[:base]
			return i + 1, nil
		case ',':
			i = skipSpace(d.data, i+1)
		default:
			return 0, d.unexpected(i, "json.object")
		}
	}
}

// remember adds a key to the keys of the innermost object, which start at base or, if there
// are many, are in a map, and fails for a key that is there already.
func (d *Document) remember(base int, many *map[string]bool, start, end int, escapes bool) error {
	k := key{start: uint32(start), end: uint32(end), escaped: escapes}
	text := d.textOf(k)
	if *many != nil {
		return d.rememberIn(*many, text, start)
	}
	k.print = keyPrint(text)
	for _, other := range d.keys[base:] {
		if other.print == k.print && bytes.Equal(d.textOf(other), text) {
			return duplicate(start, text)
		}
	}
	d.keys = append(d.keys, k)
	if len(d.keys)-base < linearKeys {
		return nil
	}
	*many = make(map[string]bool, firstMap)
	for _, k := range d.keys[base:] {
		(*many)[shared(d.textOf(k))] = true
	}
	return nil
}

// textOf returns a key without escapes.
func (d *Document) textOf(k key) []byte {
	text := d.data[k.start:k.end]
	if k.escaped {
		return Unescape(nil, text)
	}
	return text
}

const (
	// firstMap is how many keys a map has room for at first, and keySize about the memory that
	// each of its keys takes.
	firstMap = 64
	keySize  = 32
)

// rememberIn adds a key to a map. Of the memory of the map that is not asked for which all objects of
// this size take.
func (d *Document) rememberIn(many map[string]bool, text []byte, start int) error {
	if many[shared(text)] {
		return duplicate(start, text)
	}
	if size := len(many); d.Reserve != nil && size >= firstMap && size&(size-1) == 0 { // it doubles
		if err := d.Reserve(size * keySize); err != nil {
			return err
		}
	}
	many[shared(text)] = true
	return nil
}

// shared returns a text as a string of the same memory, which nobody may change.
func shared(text []byte) string { return unsafe.String(unsafe.SliceData(text), len(text)) }

func keyPrint(text []byte) uint64 {
	length := uint64(len(text)) << 56
	switch {
	case len(text) >= 8:
		return length ^ binary.LittleEndian.Uint64(text)
	case len(text) >= 4: // the two halves overlap
		return length ^ uint64(binary.LittleEndian.Uint32(text))<<24 ^ uint64(binary.LittleEndian.Uint32(text[len(
			text)-4:]))
	}
	for i, c := range text {
		length |= uint64(c) << (8 * i)
	}
	return length
}

// array scans an array and returns where it ends. It is plain if none of its elements
// has a node or holds anything that was skipped: then its elements can be found in the
// text alone.
func (d *Document) array(i, depth int) (end int, plain, numbers bool, err error) {
	if depth > MaxDepth {
		return 0, false, false, faultAt(i, "json.deep")
	}
	plain, numbers = true, true
	i = skipSpace(d.data, i+1)
	if i < len(d.data) && d.data[i] == ']' {
		return i + 1, true, true, nil
	}
	for {
		if i >= len(d.data) {
			return 0, false, false, d.unexpected(i, "json.value")
		}
		start, short := i, true
		kind := kindOf(d.data[i])
		switch kind {
		case Object, Array:
			i, short, err = d.nested(i, depth, kind)
		case String:
			var escapes bool
			if i, escapes, err = d.str(i + 1); i-start > shortElement {
				short, err = false, d.recordLong(start, i, depth, kind, escaped.when(escapes))
			}
		default:
			if i, err = d.scalar(i, kind); i-start > shortElement {
				short, err = false, d.recordLong(start, i, depth, kind, 0)
			}
		}
		if err != nil {
			return 0, false, false, err
		}
		plain, numbers = plain && short, numbers && kind == Number
		if i = skipSpace(d.data, i); i >= len(d.data) {
			return 0, false, false, d.unexpected(i, "json.array")
		}
		switch d.data[i] {
		case ']':
			return i + 1, plain, numbers, nil
		case ',':
			if i = skipSpace(d.data, i+1); kind == Number {
				i = skipSpace(d.data, i+passNumbers(d.data[i:]))
			}
		default:
			return 0, false, false, d.unexpected(i, "json.array")
		}
	}
}

// recordLong adds the node of an element that was scanned and is not short.
func (d *Document) recordLong(start, end, depth int, kind Kind, found traits) error {
	if depth > d.depth {
		if kind == String && end-start > longString {
			d.rememberLong(start, end)
		}
		return nil
	}
	return d.record(node{start: uint32(start), end: uint32(end), next: uint32(len(d.nodes) + 1), kind: kind,
		traits: found})
}

// rememberLong remembers where a long string is that has no node, quotes included.
func (d *Document) rememberLong(start, end int) {
	d.long = append(d.long, span{uint32(start + 1), uint32(end - 1)})
}

// nested scans an element that is an array or an object. It is short, and has no
// node, if it is empty or a plain array of few bytes.
func (d *Document) nested(i, depth int, kind Kind) (end int, short bool, err error) {
	self := len(d.nodes)
	if depth <= d.depth {
		if err := d.record(node{start: uint32(i), kind: kind}); err != nil {
			return 0, false, err
		}
	}
	var plain, numbers bool
	if kind == Array {
		end, plain, numbers, err = d.array(i, depth+1)
	} else {
		end, err = d.object(i, depth+1)
		inner := skipSpace(d.data, i+1)
		plain = err == nil && inner == end-1
	}
	if err != nil {
		return 0, false, err
	}
	short = plain && end-i <= shortElement
	switch {
	case depth > d.depth:
	case short:
		d.nodes = d.nodes[:self]
	default:
		rec := &d.nodes[self]
		rec.end, rec.next = uint32(end), uint32(len(d.nodes))
		rec.traits = onlyNumbers.when(numbers) | closed.when(depth == d.depth)
	}
	return end, short, nil
}

func (d *Document) literal(i int, word string) (int, error) {
	if len(d.data)-i < len(word) || string(d.data[i:i+len(word)]) != word {
		return 0, d.unexpected(i, "json.value")
	}
	return i + len(word), nil
}

func (d *Document) unexpected(i int, reason say.Code) error {
	if i >= len(d.data) {
		return faultAt(len(d.data), "json.ended", "fault", say.New(reason))
	}
	return faultAt(i, reason)
}

func faultAt(offset int, reason say.Code, pairs ...any) *Error {
	return &Error{Offset: offset, Reason: say.New(reason, pairs...)}
}

func duplicate(offset int, name []byte) *Error {
	const shown = 64
	if len(name) > shown {
		name = name[:shown]
	}
	return faultAt(offset, "json.duplicate", "key", name)
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func skipSpace(data []byte, i int) int {
	for i < len(data) && data[i] <= ' ' && isSpace(data[i]) {
		i++
	}
	return i
}

// Names is a set of keys that are looked for together, in one pass over an object.
type Names struct {
	names []string
	// factor makes the hashes of the names different from each other, and places has
	// the number of a name, counted from 1, at its hash.
	factor uint64
	places [1 << nameBits]uint8
}

// nameBits is the length of the hash of a name.
const nameBits = 7

// NewNames returns a set of names: no more than there are places for, and each once.
func NewNames(names ...string) *Names {
	set := &Names{names: names, factor: 0x9e3779b97f4a7c15}
	for !set.place() {
		set.factor += 2 * 0x2545f4914f6cdd1d
	}
	return set
}

// place puts the names in their places, and reports whether each has one of its own.
func (s *Names) place() bool {
	clear(s.places[:])
	for i, name := range s.names {
		place := &s.places[s.hash([]byte(name))]
		if *place != 0 {
			return false
		}
		*place = uint8(i + 1)
	}
	return true
}

// hash looks at the length and at no more than sixteen bytes, which is enough to tell the
// names of a set apart.
func (s *Names) hash(key []byte) uint64 {
	var print uint64
	switch n := len(key); {
	case n >= 8:
		print = binary.LittleEndian.Uint64(key) ^ binary.LittleEndian.Uint64(key[n-8:])<<1
	case n >= 4: // the two halves overlap
		print = uint64(binary.LittleEndian.Uint32(key)) ^ uint64(binary.LittleEndian.Uint32(key[n-4:]))<<32
	case n > 0:
		print = uint64(key[0]) ^ uint64(key[n/2])<<8 ^ uint64(key[n-1])<<16
	}
	return (print + uint64(len(key))) * s.factor >> (64 - nameBits)
}

// Has reports whether a name is in the set.
func (s *Names) Has(name []byte) bool { return s.Number(name) >= 0 }

// Number returns the index of a name in the order that they were given, and -1 for a name
// that is not in the set.
func (s *Names) Number(name []byte) int {
	at := int(s.places[s.hash(name)]) - 1
	if at >= 0 && string(name) != s.names[at] {
		return -1
	}
	return at
}

// Find looks for the members of v that have one of the names, and puts each where found
// has the place of its name, unless something is there: of several with one name the
// first counts. Where found is shorter than the set, members with its last names are not
// put anywhere. Find returns how many members have names that are not in the set.
func (v Value) Find(names *Names, found []Value) (others int) {
	if v.Kind() != Object || v.stop != 0 {
		return 0
	}
	nodes, data := v.doc.nodes, v.doc.data
	end := nodes[v.n].next
	for i := v.n + 1; i < end; i = nodes[i].next {
		n := &nodes[i]
		key := data[n.keyStart:n.keyEnd]
		if n.traits.has(escapedKey) {
			key = Unescape(nil, key)
		}
		at := int(names.places[names.hash(key)]) - 1
		if at < 0 || string(key) != names.names[at] {
			others++
			continue
		}
		if at < len(found) && found[at].doc == nil {
			found[at] = Value{doc: v.doc, n: i, end: end, kind: n.kind}
		}
	}
	return others
}
