package jsonscan

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// ones times a byte is a word of eight of it, and highs is the highest bit of each.
const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// textTraits are facts about a string, up to the byte that stopped the scan.
type textTraits uint8

const (
	notASCII     textTraits = 1 << iota // in the blocks that were looked at, also behind the string
	hasEscapes                          // there were backslashes
	withinEscape                        // the last block that was passed ends with the backslash of a sequence
)

func (t textTraits) has(one textTraits) bool { return t&one != 0 }

// portableText is passText for processors without a version of their own.
func portableText(text *byte, blocks int) (passed int, stop uint64, found textTraits) {
	var carry uint64 // 1 if a backslash precedes the first byte
	for ; passed < blocks; passed++ {
		block := (*[64]byte)(unsafe.Add(unsafe.Pointer(text), 64*passed))
		var control, quote, backslash, high uint64
		for i := 0; i < len(block); i += 8 {
			w := binary.LittleEndian.Uint64(block[i:])
			control |= gather(below(w, ' '), i)
			quote |= gather(equal(w, '"'), i)
			backslash |= gather(equal(w, '\\'), i)
			high |= w & highs
		}
		if high != 0 {
			found |= notASCII
		}
		stop = control | quote
		if backslash|carry != 0 {
			var escaped uint64
			escaped, carry = behindBackslash(backslash, carry)
			stop = control | quote&^escaped | escaped&^endsOfEscapes(block, escaped)
			// stop-1 marks the bytes before the first stop, or all bytes if there is
			// none, and the later stops, which are no backslashes.
			if (stop-1)&backslash != 0 {
				found |= hasEscapes
			}
		}
		if stop != 0 {
			return passed, stop, found
		}
	}
	if carry != 0 {
		found |= withinEscape
	}
	return passed, 0, found
}

// behindBackslash marks the bytes that backslashes escape: of several in a row every
// second one is escaped itself. The carry is 1 if the block before escapes the first
// byte. The result next says the same of the next block.
func behindBackslash(backslash, carry uint64) (escaped, next uint64) {
	const odd = 0xaaaaaaaaaaaaaaaa
	// The subtraction borrows through each row of backslashes.
	begins := backslash &^ carry
	both := (begins<<1 | odd) - begins ^ odd // the backslashes that begin a sequence, and the bytes they escape
	return both ^ (backslash | carry), both & backslash >> 63
}

// endsOfEscapes marks the given bytes of a block that may follow a backslash and
// complete an escape sequence.
func endsOfEscapes(block *[64]byte, marks uint64) (ends uint64) {
	for ; marks != 0; marks &= marks - 1 {
		if i := bits.TrailingZeros64(marks); simpleEscape[block[i]] {
			ends |= 1 << i
		}
	}
	return ends
}

// markNumbers marks, in the bits of 64, the bytes of a block that can belong to a list
// of numbers. A zero is a digit as well; spaces are blanks and line feeds.
func markNumbers(block *[64]byte) (digit, zero, comma, point, minus, space uint64) {
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
