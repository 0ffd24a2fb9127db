package access

import (
	"crypto/sha256"
	"net/http"
	"strings"
	"time"
)

// Roster knows the bearers of management tokens by the hashes of the tokens. An open
// gateway has a nil Roster.
type Roster struct {
	entries map[[sha256.Size]byte]tokenEntry
	// prints finds the same bearers by the fingerprints that sessions have of
	// their tokens, and sessionKey signs sessions; nil means that there are none.
	prints     map[[fingerprintBytes]byte]tokenEntry
	sessionKey []byte
	disabled   *disabled
}

type tokenEntry struct {
	Identity
	expires time.Time // zero means never
}

func (b tokenEntry) expired(now time.Time) bool { return !b.expires.IsZero() && now.After(b.expires) }

func newRoster(sessionKey []byte) *Roster {
	return &Roster{entries: make(map[[sha256.Size]byte]tokenEntry), prints: make(map[[fingerprintBytes]byte]tokenEntry),
		sessionKey: sessionKey}
}

// add lets the bearer of a token in until it expires; an empty time is never.
func (r *Roster) add(token Token, expiresAt string) {
	sum, ok := decodeHash(token.TokenSHA256)
	if !ok || token.TokenSHA256 == NobodysHash {
		return
	}
	expires, _ := time.Parse(time.RFC3339, expiresAt) // it was checked
	found := tokenEntry{Identity{Name: token.Name, Role: token.Role, SeesSecrets: token.Role == Admin}, expires}
	r.entries[sum], r.prints[fingerprint(sum)] = found, found
}

// Empty reports whether there is no token.
func (r *Roster) Empty() bool { return len(r.entries) == 0 }

// HasAdmin reports whether there is a valid token with the role ADMIN.
func (r *Roster) HasAdmin(now time.Time) bool {
	for _, bearer := range r.entries {
		if bearer.Role == Admin && (bearer.expires.IsZero() || now.Before(bearer.expires)) {
			return true
		}
	}
	return false
}

// Identify finds the bearer of the token that a request presents, and reports whether it presents
// one at all. It compares only hashes: an unknown token takes as long as a known one, and the
// duration reveals nothing. A request without a token belongs to nobody, whatever the hashes are.
func (r *Roster) Identify(h http.Header, now time.Time) (who Identity, known, presents bool) {
	text := bearer(h)
	sum := sha256.Sum256([]byte(text))
	found, ok := r.entries[sum]
	if text == "" || !ok || found.expired(now) {
		r.disabled.note(sum, now)
		return Identity{}, false, text != ""
	}
	return found.Identity, true, true
}

// bearer returns the bearer token of a request, or "" if the request has none or
// several Authorization headers.
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
