package jwt

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Bounds of a set of keys.
const (
	maxKeys = 100
	// maxCandidates is how many keys a signature is compared with, where the token names no key,
	// or several have the name.
	maxCandidates = 4
	minModulus    = 2048 // bits of an RSA key
)

// Set holds the public keys of an issuer. It is immutable; a nil Set has no keys.
type Set struct{ keys []jose.JSONWebKey }

// ErrUnknownKey says that a token was signed with a key that is not in the set.
var ErrUnknownKey = say.Error("token.key")

// ReadSet reads a set of keys (JWKS). It passes over keys that are not for signatures, and keys of
// kinds that are not accepted.
func ReadSet(data []byte) (*Set, error) {
	var written struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(data, &written); err != nil {
		return nil, say.Error("issuer.no_set")
	}
	if len(written.Keys) > maxKeys {
		return nil, say.Error("issuer.many_keys", "most", maxKeys)
	}
	set := new(Set)
	for _, one := range written.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(one) == nil && (key.Use == "" || key.Use == "sig") && isAccepted(key.Key) {
			set.keys = append(set.keys, key)
		}
	}
	if len(set.keys) == 0 {
		return nil, say.Error("issuer.no_keys")
	}
	return set, nil
}

// isAccepted reports whether a key is public, and strong enough.
func isAccepted(key any) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= minModulus
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// Size returns how many keys the set has.
func (s *Set) Size() int {
	if s == nil {
		return 0
	}
	return len(s.keys)
}

// find returns the keys that may have made a signature. An empty id means every key for the
// algorithm.
func (s *Set) find(id, algorithm string) (found []any) {
	if s == nil {
		return nil
	}
	for i := range s.keys {
		key := &s.keys[i]
		if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) &&
			signs(key.Key, algorithm) && len(found) < maxCandidates {
			found = append(found, key.Key)
		}
	}
	return found
}

// signs reports whether a key is of the kind that an algorithm needs.
func signs(key any, algorithm string) bool {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(algorithm, "RS") || strings.HasPrefix(algorithm, "PS")
	case *ecdsa.PublicKey:
		size := key.Curve.Params().BitSize
		return algorithm == "ES256" && size == 256 || algorithm == "ES384" && size == 384 ||
			algorithm == "ES512" && size == 521
	case ed25519.PublicKey:
		return algorithm == string(jose.EdDSA)
	}
	return false
}
