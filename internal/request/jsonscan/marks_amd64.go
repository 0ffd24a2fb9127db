package jsonscan

import "golang.org/x/sys/cpu"

// passText skips the blocks of 64 bytes that only continue a string: text, and escape
// sequences of two bytes. It returns how many it skipped and the marks of the stops in
// the next block, which are 0 if there is none: a closing quote, a control character,
// or a byte behind a backslash that does not end a sequence.
func passText(text *byte, blocks int) (passed int, stop uint64, found textTraits) {
	if cpu.X86.HasAVX2 {
		return vectorText(text, blocks)
	}
	return portableText(text, blocks)
}

// passNumbers skips the numbers at the beginning of a text, as skipNumbers says, and
// returns their length in bytes.
func passNumbers(text []byte) int {
	if cpu.X86.HasAVX2 && len(text) >= 64 {
		return vectorNumbers(&text[0], len(text)/64)
	}
	return portableNumbers(text)
}

//go:noescape
func vectorText(text *byte, blocks int) (passed int, stop uint64, found textTraits)

//go:noescape
func vectorNumbers(text *byte, blocks int) (passed int)
