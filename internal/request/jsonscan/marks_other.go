//go:build !amd64

package jsonscan

func passText(text *byte, blocks int) (passed int, stop uint64, found textTraits) {
	return portableText(text, blocks)
}

func passNumbers(text []byte) int { return portableNumbers(text) }
