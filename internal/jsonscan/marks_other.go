//go:build !amd64

package jsonscan

func passText(text *byte, blocks int) (passed int, stop uint64, found textTraits) {
	return portableText(text, blocks)
}

func markNumbers(block *[64]byte) (digit, zero, comma, point, minus, space uint64) {
	return portableNumbers(block)
}
