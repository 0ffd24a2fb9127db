package jsonscan

// Members finds the members of one object by their keys. Unlike Get it costs the same
// however many members there are: asking for all members of one object in another takes
// no quadratic time.
type Members struct {
	object Value
	nodes  map[string]uint32 // empty while the members are few
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
	for i := v.n + 1; i < o.next && count < linearKeys; i = all[i].next {
		count++
	}
	if count < linearKeys {
		return m
	}
	m.nodes = make(map[string]uint32, firstMap)
	for i := v.n + 1; i < o.next; i = all[i].next {
		key := shared(Value{doc: v.doc, n: i}.Key())
		if _, there := m.nodes[key]; !there { // of several the first counts, as with Get
			m.nodes[key] = i
		}
	}
	return m
}

// Get returns the member with the given key.
func (m *Members) Get(name []byte) Value {
	if m.nodes == nil {
		return m.object.Get(shared(name))
	}
	if i, there := m.nodes[shared(name)]; there {
		return m.object.doc.at(i, m.object.node().next)
	}
	return Value{}
}
