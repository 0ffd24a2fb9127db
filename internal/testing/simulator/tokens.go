package simulator

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// The tokens of the simulator are words with the white space before them: a
// run of letters, digits and marks is one token, any other character is one
// by itself, and so is each character of scripts that put no space between
// words. White space at the end of a text is a token. The tokens of a text
// joined together are the text.

// imageTokens is how many tokens an image in a prompt counts as.
const imageTokens = 85

// countTokens returns the number of tokens of a text.
func countTokens(text string) int {
	count := 0
	for len(text) > 0 {
		text = text[tokenLength(text):]
		count++
	}
	return count
}

// tokenLength returns how many bytes the first token of a text has.
func tokenLength(text string) int {
	start := 0
	for start < len(text) {
		r, size := utf8.DecodeRuneInString(text[start:])
		if !unicode.IsSpace(r) {
			break
		}
		start += size
	}
	if start == len(text) {
		return start
	}
	first, size := utf8.DecodeRuneInString(text[start:])
	end := start + size
	if !inWord(first) {
		return end
	}
	for end < len(text) {
		r, size := utf8.DecodeRuneInString(text[end:])
		if !inWord(r) {
			break
		}
		end += size
	}
	return end
}

func inWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai) {
		return false
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
}

// Reasons why a text ended.
const (
	finishStop   = "stop"
	finishLength = "length"
	finishTool   = "tool_calls"
)

// limitTokens cuts a text after limit tokens (0 means no limit) and returns it
// beside its number of tokens and whether something was cut.
func limitTokens(text string, limit int) (string, int, bool) {
	count, end := 0, 0
	for end < len(text) {
		if limit > 0 && count == limit {
			return text[:end], count, true
		}
		end += tokenLength(text[end:])
		count++
	}
	return text, count, false
}

// cutAtStop cuts a text before the earliest stop sequence and returns that
// sequence beside it.
func cutAtStop(text string, stops []string) (before, hit string) {
	for _, stop := range stops {
		if stop == "" {
			continue
		}
		if shorter, _, found := strings.Cut(text, stop); found {
			text, hit = shorter, stop
		}
	}
	return text, hit
}
