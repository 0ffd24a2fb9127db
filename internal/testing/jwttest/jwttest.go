// Package jwttest has an issuer of signed tokens for tests.
package jwttest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer signs tokens and publishes its keys at URL.
type Issuer struct {
	URL string
	// Reads counts how often the keys were read, and Away makes the issuer answer with an error.
	Reads atomic.Int64
	Away  atomic.Bool

	t    testing.TB
	mu   sync.Mutex
	keys []jose.JSONWebKey // the last one signs
}

// New starts an issuer that signs with ES256.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t}
	i.Rotate(jose.ES256)
	server := httptest.NewServer(i.Handler())
	t.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

// Handler publishes the keys.
func (i *Issuer) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.Reads.Add(1)
		if i.Away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write(i.JWKS())
	})
}

// PEM returns a certificate as a file of authorities has it.
func PEM(of *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: of.Raw})
}

// Rotate replaces the key that signs. The earlier keys are no longer published.
func (i *Issuer) Rotate(algorithm jose.SignatureAlgorithm) {
	i.t.Helper()
	key, err := newKey(algorithm)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	id := "key-" + strconv.Itoa(len(i.keys)+1)
	i.keys = append(i.keys, jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(algorithm), Use: "sig"})
}

func newKey(algorithm jose.SignatureAlgorithm) (crypto.Signer, error) {
	switch algorithm {
	case jose.ES256:
		return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.ES384:
		return ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case jose.ES512:
		return ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case jose.EdDSA:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	default:
		return rsa.GenerateKey(rand.Reader, 2048)
	}
}

func (i *Issuer) current() jose.JSONWebKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[len(i.keys)-1]
}

// Public returns the public key that verifies the tokens.
func (i *Issuer) Public() jose.JSONWebKey {
	key := i.current()
	return key.Public()
}

// JWKS returns the published set of keys.
func (i *Issuer) JWKS() []byte {
	data, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.Public()}})
	if err != nil {
		i.t.Error(err)
	}
	return data
}

// Claims returns the claims of a good token for a subject, valid for an hour, with others that
// replace or complete them. A claim that is nil is left out.
func Claims(issuer, audience, subject string, others map[string]any) map[string]any {
	now := time.Now().Unix()
	claims := map[string]any{"iss": issuer, "aud": audience, "sub": subject, "iat": now, "exp": now + 3600}
	maps.Copy(claims, others)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

// Sign returns a token with claims.
func (i *Issuer) Sign(claims map[string]any) string {
	i.t.Helper()
	return SignWith(i.t, i.SigningKey(), claims)
}

// SigningKey returns the key that signs.
func (i *Issuer) SigningKey() jose.SigningKey {
	key := i.current()
	return jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}
}

// SignWith returns a token that a key of any kind signed.
func SignWith(t testing.TB, key jose.SigningKey, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return SignBytes(t, key, payload)
}

// SignBytes returns a token with a payload of any form.
func SignBytes(t testing.TB, key jose.SigningKey, payload []byte) string {
	t.Helper()
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}
