package access

import "strings"

// stars is what a mask begins with.
const stars = "****"

// Mask hides a secret from those who may not see it: all but its last four
// characters, or all of a short one, of which four would be too much. Nothing
// stays nothing.
func Mask(secret string) string {
	const short = 8
	switch {
	case secret == "":
		return ""
	case len(secret) <= short:
		return stars
	}
	return stars + secret[len(secret)-4:]
}

// IsMask tells whether a text looks like a mask rather than a secret.
func IsMask(text string) bool {
	return strings.HasPrefix(text, stars) && len(text) <= len(stars)+4
}
