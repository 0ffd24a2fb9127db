package jsonscan

import (
	"encoding/binary"
	"unsafe"
)

// ones times a byte is a word of eight of it, and highs is the highest bit of each.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// portableText is markText for processors for which there is no other.
func portableText(text *byte, blocks int) (passed int, stop uint64, beyond bool) {
	var high uint64
	for ; passed < blocks; passed++ {
		block := (*[64]byte)(unsafe.Add(unsafe.Pointer(text), 64*passed))
		for i := 0; i < len(block); i += 8 {
			w := binary.LittleEndian.Uint64(block[i:])
			stop |= gather(below(w, ' ')|equal(w, '"')|equal(w, '\\'), i)
			high |= w & highs
		}
		if stop != 0 {
			break
		}
	}
	return passed, stop, high != 0
}

// portableNumbers is markNumbers for processors for which there is no other.
func portableNumbers(block *[64]byte) (digit, zero, comma, point, minus, space uint64) {
	for i := 0; i < len(block); i += 8 {
		w := binary.LittleEndian.Uint64(block[i:])
		digit |= gather(below(w^ones*'0', 10), i)
		zero |= gather(equal(w, '0'), i)
		comma |= gather(equal(w, ','), i)
		point |= gather(equal(w, '.'), i)
		minus |= gather(equal(w, '-'), i)
		space |= gather(equal(w, ' ')|equal(w, '\n'), i)
	}
	return digit, zero, comma, point, minus, space
}

// below marks the bytes of a word that are less than a bound of at most 128.
func below(w uint64, bound byte) uint64 {
	return ^((w&^highs + ones*uint64(0x80-bound)) | w) & highs
}

// equal marks the bytes of a word that are equal to c.
func equal(w uint64, c byte) uint64 { return below(w^ones*uint64(c), 1) }

// gather puts the highest bits of the bytes of a word beside each other, from bit at
// on.
func gather(w uint64, at int) uint64 {
	return w & highs >> 7 * 0x0102040810204080 >> 56 << at
}
