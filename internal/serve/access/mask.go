package access

import (
	"strings"
	"unicode/utf8"
)

const (
	// stars is what a mask begins with, and shown how many characters of the
	// secret may follow it.
	stars = "****"
	shown = 4
)

// Mask hides a secret from those who may not see it: all but its last four
// characters, or all of a short one, of which four would be too much. Nothing
// stays nothing.
func Mask(secret string) string {
	const short = 8
	characters := []rune(secret)
	if secret == "" {
		return ""
	}
	if len(characters) <= short {
		return stars
	}
	return stars + string(characters[len(characters)-shown:])
}

// IsMask tells whether a text looks like a mask rather than a secret.
func IsMask(text string) bool {
	rest, masked := strings.CutPrefix(text, stars)
	return masked && utf8.RuneCountInString(rest) <= shown
}
