package jsonscan

import (
	"bytes"
	"unsafe"
)

// Members finds the members of one object by their keys. Unlike Get it costs the same
// however many members there are: asking for all members of one object in another takes
// no quadratic time.
type Members struct {
	object Value
	nodes  table // empty while the members are few
}

// Members returns the members of v, none if v is no object. It is good for as
// long as v is.
func (v Value) Members() Members {
	m := Members{object: v}
	if v.Kind() != Object || v.stop != 0 {
		return m
	}
	all := v.doc.nodes
	o := &all[v.n]
	count := 0
	for i := v.n + 1; i < o.next; i = all[i].next {
		if count++; count == linearKeys {
			break
		}
	}
	if count < linearKeys {
		return m
	}
	for i := v.n + 1; i < o.next; i = all[i].next {
		key := Value{doc: v.doc, n: i}.Key()
		hash := v.doc.hash(key)
		if _, there := m.find(hash, key); !there { // of several the first counts, as with Get
			m.nodes.add(hash, i)
		}
	}
	return m
}

// Get returns the member with the given key.
func (m *Members) Get(name []byte) Value {
	if m.nodes.used == 0 {
		return m.object.Get(unsafe.String(unsafe.SliceData(name), len(name)))
	}
	if i, there := m.find(m.object.doc.hash(name), name); there {
		return m.object.doc.at(i, m.object.node().next)
	}
	return Value{}
}

func (m *Members) find(hash uint32, name []byte) (n uint32, ok bool) {
	return m.nodes.find(hash, func(n uint32) bool { return bytes.Equal(Value{doc: m.object.doc, n: n}.Key(), name) })
}
