package jsonscan

import "encoding/binary"

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

// place puts the names in their places, and tells whether each has one of its own.
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

// Has tells whether a name is in the set.
func (s *Names) Has(name []byte) bool {
	at := int(s.places[s.hash(name)]) - 1
	return at >= 0 && string(name) == s.names[at]
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
