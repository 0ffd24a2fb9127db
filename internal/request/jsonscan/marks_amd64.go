package jsonscan

import (
	"math/bits"

	"golang.org/x/sys/cpu"
)

// passText skips text from i on that only continues a string, and perhaps escape sequences of two
// bytes.
func passText(data []byte, i int) (passed text, end int) {
	if !cpu.X86.HasAVX2 || i+64 > len(data) {
		return passWords(data, i)
	}
	blocks, stop, found := vectorText(&data[i], (len(data)-i)/64)
	i += 64 * blocks
	if stop != 0 {
		i += bits.TrailingZeros64(stop)
	}
	if found&notASCII != 0 {
		passed.bits = highs
	}
	if stop != 0 && data[i] >= ' ' && data[i] != '"' || found&withinEscape != 0 {
		i-- // to the backslash of the sequence
	}
	passed.escaped = found&hasEscapes != 0
	return passed, i
}

// The facts about the blocks that vectorText looked at, also behind the string.
const (
	notASCII     = 1 << iota
	hasEscapes   // there were backslashes
	withinEscape // the last block that was passed ends with the backslash of a sequence
)

// vectorText skips the blocks of 64 bytes that only continue a string: text, and escape sequences of
// two bytes. It returns how many it skipped and the marks of the stops in the next block, which are 0
// if there is none: a closing quote, a control character, or a byte behind a backslash that does not
// end a sequence.
//
//go:noescape
func vectorText(text *byte, blocks int) (passed int, stop uint64, found uint8)

// passNumbers passes over the elements at the beginning of a text, which are the next ones of an array,
// that are short numbers without an exponent, each with the comma behind it, and returns their length in
// bytes: up to the last element or one that is something else, or to a space before it. Lists of
// numbers are long, and this is how almost all of them are written.
func passNumbers(text []byte) int {
	if !cpu.X86.HasAVX2 || len(text) < 64 {
		return 0
	}
	return vectorNumbers(&text[0], len(text)/64)
}

// vectorNumbers returns the length of the numbers in blocks of 64 bytes.
//
//go:noescape
func vectorNumbers(text *byte, blocks int) (passed int)

// passTriples returns the length of characters of three bytes at the beginning of a text that have
// usual first bytes; see usualLead.
func passTriples(text []byte) int {
	const block = 96
	if !cpu.X86.HasAVX2 || len(text) < block {
		return 0
	}
	return block * vectorTriples(&text[0], len(text)/block)
}

// vectorTriples returns how many blocks of 96 bytes consist of such characters.
//
//go:noescape
func vectorTriples(text *byte, blocks int) (passed int)
