package access

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Guard knows the keys of the unified API by their hashes. A nil Guard lets
// everybody in.
type Guard struct {
	keys map[[sha256.Size]byte]*keyEntry
}

type keyEntry struct {
	Key
	expires time.Time // zero means never
}

func newGuard() *Guard { return &Guard{keys: make(map[[sha256.Size]byte]*keyEntry)} }

// add lets the bearer of a key in.
func (g *Guard) add(key Key) {
	sum, ok := decodeHash(key.KeySHA256)
	if !ok {
		return
	}
	expires, _ := time.Parse(time.RFC3339, key.ExpiresAt) // the settings were checked
	g.keys[sum] = &keyEntry{Key: key, expires: expires}
}

// decodeHash decodes a hash; ok is false if it is not a complete SHA-256.
func decodeHash(hash string) (sum [sha256.Size]byte, ok bool) {
	n, err := hex.Decode(sum[:], []byte(hash[:min(len(hash), hex.EncodedLen(len(sum)))]))
	return sum, err == nil && n == len(sum)
}

// Identify finds the key that a request presents. Only hashes are compared, so
// the time it takes tells nothing about the keys that exist. A request without a
// key has no key, whatever the hashes are.
func (g *Guard) Identify(h http.Header, now time.Time) (*Key, *schema.Error) {
	text := presented(h)
	found := g.keys[sha256.Sum256([]byte(text))]
	if text == "" || found == nil || !found.expires.IsZero() && now.After(found.expires) {
		return nil, schema.NewError(schema.CodeInvalidAPIKey, "A valid API key is required, as 'Authorization: Bearer <key>' or 'X-API-Key: <key>'.")
	}
	return &found.Key, nil
}

// May returns an error unless the key is valid for a model of a service type.
func (k *Key) May(service schema.ServiceType, model []byte) *schema.Error {
	if len(k.Services) > 0 && !slices.Contains(k.Services, service) ||
		len(k.Models) > 0 && !slices.Contains(k.Models, string(model)) {
		return schema.NewError(schema.CodePermissionDenied, "This API key may not use this model.")
	}
	return nil
}

// Presents reports whether a request carries anything that could be an API key.
func Presents(h http.Header) bool { return presented(h) != "" }

// presented returns the credential of a request; clients put it in one of three places.
func presented(h http.Header) string {
	if scheme, token, ok := strings.Cut(h.Get("Authorization"), " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(token)
	}
	if key := h.Get("X-Api-Key"); key != "" {
		return key
	}
	return h.Get("Api-Key")
}
