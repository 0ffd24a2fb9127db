package jsonscan

import "unsafe"

// Members finds the members of one object by their keys. Unlike Get it costs the
// same however many members there are, so that asking for all of one object in
// another takes no quadratic time.
type Members struct {
	object Value
	nodes  map[string]uint32 // nil while the members are few
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
	m.nodes = make(map[string]uint32, 2*linearKeys)
	for i := v.n + 1; i < o.next; i = all[i].next {
		key := Value{doc: v.doc, n: i}.Key()
		name := unsafe.String(unsafe.SliceData(key), len(key)) // the text does not change while v is good
		if _, there := m.nodes[name]; !there {                 // of several the first counts, as with Get
			m.nodes[name] = i
		}
	}
	return m
}

// Get returns the member with the given key.
func (m *Members) Get(name []byte) Value {
	if m.nodes == nil {
		return m.object.Get(unsafe.String(unsafe.SliceData(name), len(name)))
	}
	if i, there := m.nodes[string(name)]; there {
		return Value{doc: m.object.doc, n: i, end: m.object.node().next}
	}
	return Value{}
}
