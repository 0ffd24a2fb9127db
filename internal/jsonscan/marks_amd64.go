package jsonscan

import "golang.org/x/sys/cpu"

// passText passes over the blocks of 64 bytes in which a string goes on: text, and
// escape sequences of two bytes. It returns how many it passed and the marks of what
// stops it in the next block, which are 0 if there is none: a closing quote, a control
// character, or what stands behind a backslash and is no end of a sequence.
func passText(text *byte, blocks int) (passed int, stop uint64, found textTraits) {
	if cpu.X86.HasAVX2 {
		return vectorText(text, blocks)
	}
	return portableText(text, blocks)
}

// markNumbers marks, in the bits of 64, the bytes of a block of which a list of
// numbers consists. A zero is a digit as well; spaces are blanks and line feeds.
func markNumbers(block *[64]byte) (digit, zero, comma, point, minus, space uint64) {
	if cpu.X86.HasAVX2 {
		return vectorNumbers(block)
	}
	return portableNumbers(block)
}

//go:noescape
func vectorText(text *byte, blocks int) (passed int, stop uint64, found textTraits)

//go:noescape
func vectorNumbers(block *[64]byte) (digit, zero, comma, point, minus, space uint64)
