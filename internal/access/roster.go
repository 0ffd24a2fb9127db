package access

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// Identity is who asks for something at the management API.
type Identity struct {
	// Name is the name of the token, or "open" where nobody is asked for one.
	Name string
	Role Role
	// SeesSecrets tells whether the stored keys of backends may be shown.
	SeesSecrets bool
}

// Roster knows the bearers of management tokens by the hashes of the tokens. A
// nil Roster is that of an open gateway.
type Roster struct {
	bearers map[[sha256.Size]byte]Identity
}

// NewRoster returns the roster for the settings, nil when management is open.
func NewRoster(s Settings) *Roster {
	if !s.Enabled {
		return nil
	}
	r := &Roster{bearers: make(map[[sha256.Size]byte]Identity, len(s.Tokens))}
	for _, token := range s.Tokens {
		var sum [sha256.Size]byte
		_, _ = hex.Decode(sum[:], []byte(token.TokenSHA256)) // the settings were checked
		r.bearers[sum] = Identity{Name: token.Name, Role: token.Role, SeesSecrets: token.Role == Admin}
	}
	return r
}

// Identify finds the bearer of the token that a request presents. Only hashes
// are compared, so an unknown token costs what a known one does, and the time
// that it takes tells nothing.
func (r *Roster) Identify(h http.Header) (Identity, bool) {
	who, known := r.bearers[sha256.Sum256([]byte(bearer(h)))]
	return who, known
}

// bearer returns the token of a request. More than one credential is none.
func bearer(h http.Header) string {
	given := h["Authorization"]
	if len(given) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
