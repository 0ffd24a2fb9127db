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
	keys map[[sha256.Size]byte]*holder
}

type holder struct {
	Key
	expires time.Time // zero means never
}

// add lets the bearer of a key in.
func (g *Guard) add(key Key) {
	var sum [sha256.Size]byte
	// The settings were checked: the hash is hexadecimal, the time a time.
	_, _ = hex.Decode(sum[:], []byte(key.KeySHA256))
	expires, _ := time.Parse(time.RFC3339, key.ExpiresAt)
	g.keys[sum] = &holder{Key: key, expires: expires}
}

// Identify finds the key that a request presents. Only hashes are compared, so
// the time it takes tells nothing about the keys that exist.
func (g *Guard) Identify(h http.Header, now time.Time) (*Key, *schema.Error) {
	found := g.keys[sha256.Sum256([]byte(presented(h)))]
	if found == nil || !found.expires.IsZero() && now.After(found.expires) {
		return nil, &schema.Error{
			Message: "A valid API key is required, as 'Authorization: Bearer <key>' or 'X-API-Key: <key>'.",
			Type:    schema.TypeAuthentication,
			Code:    schema.CodeInvalidAPIKey,
		}
	}
	return &found.Key, nil
}

// May reports whether the key is good for a model of a service type.
func (k *Key) May(service schema.ServiceType, model []byte) *schema.Error {
	if len(k.Services) > 0 && !slices.Contains(k.Services, service) ||
		len(k.Models) > 0 && !slices.Contains(k.Models, string(model)) {
		return &schema.Error{
			Message: "This API key may not use this model.",
			Type:    schema.TypePermission,
			Code:    schema.CodePermissionDenied,
		}
	}
	return nil
}

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
