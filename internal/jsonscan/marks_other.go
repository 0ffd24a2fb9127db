//go:build !amd64

package jsonscan

func markText(text *byte, blocks int) (passed int, stop uint64, beyond bool) {
	return portableText(text, blocks)
}

func markNumbers(block *[64]byte) (digit, zero, comma, point, minus, space uint64) {
	return portableNumbers(block)
}
