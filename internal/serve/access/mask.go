package access

import (
	"strings"
	"unicode/utf8"
)

const (
	// stars is the beginning of every mask, and shown the number of characters of the secret that
	// may follow it.
	stars = "****"
	shown = 4
)

// Mask hides a secret from people who may not see it: all but its last four characters. It hides
// a short secret entirely, because four characters would give too much of it away. Nothing stays
// nothing.
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

// IsMask reports whether a text looks like a mask rather than a secret.
func IsMask(text string) bool {
	rest, masked := strings.CutPrefix(text, stars)
	return masked && utf8.RuneCountInString(rest) <= shown
}
