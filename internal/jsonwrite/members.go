package jsonwrite

import "github.com/patchbay-ai/patchbay/internal/jsonscan"

// Members writes the members of an object of which every name is written once:
// the first member of a name stands. The zero value is ready to use.
type Members struct {
	w     Writer
	names jsonscan.Keys
}

// Add adds a member whose value is JSON already.
func (m *Members) Add(name string, value []byte) {
	if m.names.Add(name) {
		m.w.TextName(name)
		m.w.Raw(value)
	}
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
