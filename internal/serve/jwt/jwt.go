// Package jwt verifies signed tokens (JSON Web Tokens) with the keys that their issuer
// publishes, and finds claims in them.
package jwt

import (
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Skew is how far the clocks of an issuer and a gateway may be apart.
const Skew = time.Minute

// MaxLength is the greatest length of a token in bytes.
const MaxLength = 16 << 10

// algorithms are the accepted signatures. Signatures with a shared secret (HS256) and unsigned
// tokens (none) are not among them: anybody who knows the public key could make those.
var algorithms = [...]jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// Why a token is refused. The sentences never contain the token.
var (
	errForm      = say.Error("token.form")
	errAlgorithm = say.Error("token.algorithm")
	errSignature = say.Error("token.signature")
	errIssuer    = say.Error("token.issuer")
	errAudience  = say.Error("token.audience")
	errExpired   = say.Error("token.expired")
	errFuture    = say.Error("token.future")
)

// Expected is the content that a good token has.
type Expected struct {
	Issuer string
	// Audience has the names of those that the token may be meant for; it needs one of them.
	Audience []string
	// MaxAge bounds the time from iat to exp; 0 sets no bound.
	MaxAge time.Duration
	// NoSubject says that the token need not have a subject.
	NoSubject bool
}

// IssuerOf returns the issuer that a text names, if it has the form of a token. Nothing of it
// is verified.
func IssuerOf(text string) (issuer string, isToken bool) {
	if len(text) > MaxLength || strings.Count(text, ".") != 2 {
		return "", false
	}
	_, rest, _ := strings.Cut(text, ".")
	part, _, _ := strings.Cut(rest, ".")
	payload, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		return "", false
	}
	var claims struct {
		Issuer string `json:"iss"`
	}
	if json.Unmarshal(payload, &claims) != nil {
		return "", false
	}
	return claims.Issuer, claims.Issuer != ""
}

// Verify returns the claims of a token that one of the keys signed and that is as expected. The
// error is a sentence for the bearer. It is ErrUnknownKey if the token was signed with a key that
// the set does not have.
func (s *Set) Verify(text string, want Expected, now time.Time) (Claims, error) {
	if len(text) > MaxLength || strings.Count(text, ".") != 2 {
		return nil, errForm
	}
	// The library refuses algorithms that are not listed, and headers marked as critical.
	signed, err := jose.ParseSignedCompact(text, algorithms[:])
	if err != nil {
		if isForeignAlgorithm(text) {
			return nil, errAlgorithm
		}
		return nil, errForm
	}
	header := signed.Signatures[0].Header
	candidates := s.find(header.KeyID, header.Algorithm)
	if len(candidates) == 0 {
		return nil, ErrUnknownKey
	}
	for _, key := range candidates {
		payload, err := signed.Verify(key)
		if err != nil {
			continue
		}
		claims, err := ReadClaims(payload)
		if err != nil {
			return nil, err
		}
		return claims, claims.check(want, now)
	}
	return nil, errSignature
}

// isForeignAlgorithm reports whether the header of a token can be read and names an algorithm
// that is not accepted.
func isForeignAlgorithm(text string) bool {
	part, _, _ := strings.Cut(text, ".")
	data, err := base64.RawURLEncoding.DecodeString(part)
	var header struct {
		Algorithm jose.SignatureAlgorithm `json:"alg"`
	}
	return err == nil && json.Unmarshal(data, &header) == nil && !slices.Contains(algorithms[:], header.Algorithm)
}
