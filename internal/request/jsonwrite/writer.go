// Package jsonwrite writes JSON texts piece by piece onto a buffer, without
// building values first. It puts the commas; that the pieces make a valid text is
// up to the caller.
package jsonwrite

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// Writer appends JSON to Out. The zero value is ready to use. Set Out to begin
// with memory, or with a text that ends where the first member or element of an
// object or array belongs.
type Writer struct {
	Out []byte

	// comma means that a value was written last, at the level of the next one: the next
	// name, or value without a name, has a comma before it.
	comma bool
}

// Begin starts a new text behind prefix, which ends where the first member or
// element of an object or array belongs, and keeps the memory of buf.
func (w *Writer) Begin(buf, prefix []byte) {
	w.Out, w.comma = append(buf[:0], prefix...), false
}

// next returns Out with the comma that belongs before the next name or value. Callers
// go on with a local variable, because storing Out costs more than appending.
func (w *Writer) next() []byte {
	if w.comma {
		return append(w.Out, ',')
	}
	return w.Out
}

// Object begins an object.
func (w *Writer) Object() { w.Out, w.comma = append(w.next(), '{'), false }

// EndObject ends the object that was begun last.
func (w *Writer) EndObject() { w.Out, w.comma = append(w.Out, '}'), true }

// Array begins an array.
func (w *Writer) Array() { w.Out, w.comma = append(w.next(), '['), false }

// EndArray ends the array that was begun last.
func (w *Writer) EndArray() { w.Out, w.comma = append(w.Out, ']'), true }

// Open writes the beginning of a value at once, up to where the first member or
// element of the innermost object or array belongs, or the value of its first member. It
// returns the writer, which writes that next.
func (w *Writer) Open(text string) *Writer {
	w.Out, w.comma = append(w.next(), text...), false
	return w
}

// Close writes the end of a value at once, without a comma before it.
func (w *Writer) Close(text string) { w.Out, w.comma = append(w.Out, text...), true }

// Name begins a member of an object. The name has nothing to escape, or is escaped. It
// returns the writer, which writes the value next.
func (w *Writer) Name(name string) *Writer {
	out := append(w.next(), '"')
	out = append(out, name...)
	w.Out, w.comma = append(out, '"', ':'), false
	return w
}

// TextName is Name for a name that may have something to escape.
func (w *Writer) TextName(name string) *Writer {
	w.Out, w.comma = append(AppendText(w.next(), name), ':'), false
	return w
}

// Raw writes a value, or several with their commas, that is JSON already.
func (w *Writer) Raw(value []byte) { w.Out, w.comma = append(w.next(), value...), true }

// Literal writes a value that is JSON already.
func (w *Writer) Literal(value string) { w.Out, w.comma = append(w.next(), value...), true }

// Plain writes a string that has nothing to escape.
func (w *Writer) Plain(text string) {
	out := append(w.next(), '"')
	out = append(out, text...)
	w.Out, w.comma = append(out, '"'), true
}

// Escaped writes a string from the content between its quotes.
func (w *Writer) Escaped(text []byte) {
	out := append(w.next(), '"')
	out = append(out, text...)
	w.Out, w.comma = append(out, '"'), true
}

// EscapedOrNull is Escaped for a text, and writes null for an empty one.
func (w *Writer) EscapedOrNull(text []byte) {
	if len(text) == 0 {
		w.Literal("null")
		return
	}
	w.Escaped(text)
}

// Text writes text as a string.
func (w *Writer) Text(text []byte) { w.Out, w.comma = AppendText(w.next(), text), true }

// Int writes a whole number.
func (w *Writer) Int(n int64) {
	w.Out, w.comma = strconv.AppendInt(w.next(), n, 10), true
}

// Member writes a member with a value that is JSON already.
func (w *Writer) Member(name string, value []byte) {
	w.Name(name).Raw(value)
}

// EscapedMember writes a member that is a string, from the content between its quotes, if
// that is not nil.
func (w *Writer) EscapedMember(name string, text []byte) {
	if text != nil {
		w.Name(name).Escaped(text)
	}
}

// Given writes a member with a value that is JSON already, unless the value is nil.
func (w *Writer) Given(name string, value []byte) {
	if value != nil {
		w.Member(name, value)
	}
}

// Field writes a member with a value that was scanned, if that is given.
func (w *Writer) Field(name string, value jsonscan.Value) {
	if value.Given() {
		w.Member(name, value.Raw())
	}
}

// Copy writes a member of a scanned object as it is.
func (w *Writer) Copy(member jsonscan.Value) {
	out := append(w.next(), '"')
	out = append(out, member.RawKey()...)
	out = append(out, '"', ':')
	w.Out, w.comma = append(out, member.Raw()...), true
}

// AppendText appends text as a JSON string. Invalid UTF-8 is replaced.
func AppendText[T string | []byte](dst []byte, text T) []byte {
	// The error is about invalid UTF-8 only, and the result is good.
	dst, _ = jsontext.AppendQuote(dst, text)
	return dst
}

// Compact returns a copy of a JSON text without the spaces between its tokens. A text that is
// no JSON is copied as it is.
func Compact(text []byte) []byte {
	compact := jsontext.Value(append([]byte(nil), text...))
	if compact.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return append(compact[:0], text...)
	}
	return compact
}

// Members writes the members of an object, with every name only once: the first member
// of a name counts. The zero value is ready to use.
type Members struct {
	w     Writer
	names map[string]bool
}

// Add adds a member with a value that is JSON already.
func (m *Members) Add(name string, value []byte) {
	if m.names[name] {
		return
	}
	if m.names == nil {
		m.names = map[string]bool{}
	}
	m.names[name] = true
	m.w.TextName(name).Raw(value)
}

// AddField adds a member with a value that was scanned, if that is given.
func (m *Members) AddField(name string, value jsonscan.Value) {
	if value.Given() {
		m.Add(name, value.Raw())
	}
}

// Empty reports whether no member was added.
func (m *Members) Empty() bool { return len(m.w.Out) == 0 }

// Raw returns the members without the braces around them, ready for Writer.Raw.
func (m *Members) Raw() []byte { return m.w.Out }

// Object returns the members as an object.
func (m *Members) Object() []byte {
	object := make([]byte, 0, len(m.w.Out)+len("{}"))
	return append(append(append(object, '{'), m.w.Out...), '}')
}
