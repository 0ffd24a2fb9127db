package jsonscan

// markText passes over the blocks of 64 bytes in which nothing stops a string: no
// quote, no backslash, no control character. It returns how many it passed, the
// marks of what stops the string in the next block, which are 0 if there is none,
// and whether anything that it looked at is not ASCII.
//
//go:noescape
func markText(text *byte, blocks int) (passed int, stop uint64, beyond bool)

// markNumbers marks, in the bits of 64, the bytes of a block of which a list of
// numbers consists. A zero is a digit as well; spaces are blanks and line feeds.
//
//go:noescape
func markNumbers(block *[64]byte) (digit, zero, comma, point, minus, space uint64)
