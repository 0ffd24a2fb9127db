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

// shortestCredential is how many bytes the shortest credential that this gateway makes has.
const shortestCredential = len(keyPrefix) + 43

// MaskPath masks the segments of a path that are credentials: people who want to revoke a key may put
// the key where its id belongs, and paths are logged and kept.
func MaskPath(path string) string {
	if len(path) < shortestCredential {
		return path
	}
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		if isCredential(segment) {
			segments[i] = Mask(segment)
		}
	}
	return strings.Join(segments, "/")
}

// isCredential reports whether a text has the form of a key, a management token, the cookie of a session
// or a signed token.
func isCredential(text string) bool {
	if len(text) < shortestCredential {
		return false
	}
	for _, prefix := range [...]string{keyPrefix, tokenPrefix, sessionPrefix, passPrefix} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return strings.HasPrefix(text, "eyJ") && strings.Count(text, ".") == 2
}
