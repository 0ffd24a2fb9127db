package jsonscan

import (
	"encoding/binary"
	"hash/maphash"
	"unsafe"
)

// table finds numbers by the hashes of keys. It holds no pointers and takes eight bytes
// for a slot: an object with a million keys costs about as much as its text. Zero is no
// number that it can hold.
type table struct {
	slots []uint64 // the hash in the upper half, the number in the lower
	used  int
}

const firstSlots = 64

// find returns the number with a hash that same accepts.
func (t *table) find(hash uint32, same func(number uint32) bool) (number uint32, ok bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	mask := uint32(len(t.slots) - 1)
	for i := hash & mask; t.slots[i] != 0; i = (i + 1) & mask {
		if slot := t.slots[i]; uint32(slot>>32) == hash && same(uint32(slot)) {
			return uint32(slot), true
		}
	}
	return 0, false
}

// full reports whether the next number makes the table grow, and by how many bytes.
func (t *table) full() (more int, full bool) {
	if 4*(t.used+1) <= 3*len(t.slots) {
		return 0, false
	}
	return 8 * max(firstSlots, len(t.slots)), true
}

// add adds a number.
func (t *table) add(hash, number uint32) {
	if _, full := t.full(); full {
		before := t.slots
		t.slots = make([]uint64, max(firstSlots, 2*len(before)))
		for _, slot := range before {
			if slot != 0 {
				t.place(slot)
			}
		}
	}
	t.place(uint64(hash)<<32 | uint64(number))
	t.used++
}

func (t *table) place(slot uint64) {
	mask := uint32(len(t.slots) - 1)
	i := uint32(slot>>32) & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = slot
}

// hasher hashes keys with a secret seed. No client can know which ones collide.
type hasher struct {
	seed   maphash.Seed
	seeded bool
}

func (h *hasher) hash(key []byte) uint32 {
	if !h.seeded {
		h.seed, h.seeded = maphash.MakeSeed(), true
	}
	return uint32(maphash.Bytes(h.seed, key))
}

// Keys is a set of keys that takes little more memory than they do. The zero
// value is empty and ready.
type Keys struct {
	table
	hasher
	text  []byte // every key after its length
	count int
}

// Add adds a key and reports whether it is new.
func (k *Keys) Add(key string) bool {
	if k.count < linearKeys {
		for at := uint32(0); at < uint32(len(k.text)); {
			other := k.at(at)
			if string(other) == key {
				return false
			}
			at += keyHead + uint32(len(other))
		}
		k.append(key)
		return true
	}
	if k.used == 0 {
		for at := uint32(0); at < uint32(len(k.text)); {
			other := k.at(at)
			k.add(k.hash(other), at+1)
			at += keyHead + uint32(len(other))
		}
	}
	hash := k.hash(unsafe.Slice(unsafe.StringData(key), len(key)))
	if _, found := k.find(hash, func(number uint32) bool { return string(k.at(number-1)) == key }); found {
		return false
	}
	k.add(hash, uint32(len(k.text)+1))
	k.append(key)
	return true
}

// keyHead is the size of a key's length.
const keyHead = 4

func (k *Keys) at(place uint32) []byte {
	length := binary.LittleEndian.Uint32(k.text[place:])
	return k.text[place+keyHead : place+keyHead+length]
}

func (k *Keys) append(key string) {
	k.count++
	k.text = binary.LittleEndian.AppendUint32(k.text, uint32(len(key)))
	k.text = append(k.text, key...)
}
