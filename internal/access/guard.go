package access

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Guard knows the keys of the unified API by their hashes. A nil Guard lets
// everybody in.
type Guard struct {
	keys map[[sha256.Size]byte]*Grant
	// byID are the grants of the keys as they are now, by their ids.
	byID map[string]*Grant
	// visitors are let in by tokens, nil where there are no issuers of tokens.
	visitors *visitors
	// isVacant says that there never was a key or an issuer, so that nobody can be let in.
	isVacant bool
	// hasGuests says that callers without a good key are let in.
	hasGuests bool
	disabled  *disabled
}

func newGuard() *Guard {
	return &Guard{keys: make(map[[sha256.Size]byte]*Grant), byID: make(map[string]*Grant)}
}

// add lets the bearer of a key in, by the hash of its text.
func (g *Guard) add(hash string, grant *Grant) {
	if sum, ok := decodeHash(hash); ok {
		g.keys[sum] = grant
	}
}

// decodeHash decodes a hash; ok is false if it is not a complete SHA-256.
func decodeHash(hash string) (sum [sha256.Size]byte, ok bool) {
	n, err := hex.Decode(sum[:], []byte(hash[:min(len(hash), hex.EncodedLen(len(sum)))]))
	return sum, err == nil && n == len(sum)
}

// Identify finds the grant of the key or token that a request presents. It compares only hashes, and
// its duration reveals nothing about the keys that exist. A request without a key never matches one,
// whatever the hashes are.
func (g *Guard) Identify(h http.Header, now time.Time) (*Grant, *schema.Error) {
	text := presented(h)
	sum := sha256.Sum256([]byte(text))
	found := g.keys[sum]
	if found == nil {
		g.disabled.note(sum, now)
		if grant, refusal, isToken := g.visitors.identify(text, sum, now); isToken {
			return grant, refusal
		}
	}
	switch {
	case g.isVacant:
		return nil, schema.CodedError(schema.CodeInvalidAPIKey, "call.no_key_made")
	case text == "" || found == nil || found.expired(now):
		return nil, schema.CodedError(schema.CodeInvalidAPIKey, "call.no_key_any")
	}
	return found, nil
}

// IsVacant reports whether callers need a key, and there is none.
func (g *Guard) IsVacant() bool { return g != nil && g.isVacant }

// Presents reports whether a request carries anything that could be an API key.
func Presents(h http.Header) bool { return presented(h) != "" }

// presented returns the credential of a request; clients put it in one of five places.
func presented(h http.Header) string {
	if scheme, token, ok := strings.Cut(h.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(token)
	}
	return KeyIn(h)
}

// KeyIn returns the text that a request has in a header for keys.
func KeyIn(h http.Header) string {
	// Clients of JAiRouter use the last one. The names have the canonical form of headers
	// already, which saves converting them for every request.
	for _, name := range [...]string{"X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Jairouter_token"} {
		if keys := h[name]; len(keys) > 0 && keys[0] != "" {
			return keys[0]
		}
	}
	return ""
}
