package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/store/seal"
)

// A browser holds a session in place of a management token. A session consists of the time of its
// end, a fingerprint of the token, and the signature of both, made with a key that all gateways
// of a shared configuration have in common. Such a session is good while its token is, unless it
// was ended; package sessions knows which ones were.
//
// The session of a person who signed in is a pass: an id, and its signature. Package sessions
// knows who holds it.

// SessionLife is the longest life of a session where the settings say nothing.
const SessionLife = 12 * time.Hour

// SessionSettings are the settings of sessions.
type SessionSettings struct {
	// MaxAge is the longest life of a session; 0 is SessionLife.
	MaxAge schema.Duration `json:"maxAge" doc:"The longest life of a session of the console."`
}

// longestSession is the most that MaxAge may be.
const longestSession = 30 * 24 * time.Hour

// Life returns the longest life of a session.
func (s SessionSettings) Life() time.Duration {
	if s.MaxAge == 0 {
		return SessionLife
	}
	return s.MaxAge.Std()
}

func (s SessionSettings) check(report say.Report) {
	if age := s.MaxAge.Std(); age != 0 && age < time.Minute || age > longestSession {
		report("session.maxAge", say.New("field.from_to", "least", "1m", "most", "720h"))
	}
}

const (
	sessionKind = "session/"
	// sessionKeyName is the key as plain text. With a master key the key is stored encrypted under
	// sealedSessionName.
	sessionKeyName = sessionKind + "key"
	// subjectKeyName is the key for the ids of tokens' subjects after a restore, which makes a new
	// key of sessions, and after a change of the master key.
	subjectKeyName    = sessionKind + "subjects"
	sealedSessionName = sealedKind + "session"
	sessionKeyBytes   = 32
	sessionPrefix     = "s1."
	passPrefix        = "s2."
	passBytes         = 16
	fingerprintBytes  = 16
	sessionTimeBytes  = 8
	sessionTotalBytes = sessionTimeBytes + fingerprintBytes + sha256.Size
)

// ErrNoToken says that a session was asked for without a management token.
var ErrNoToken = errors.New("a session is given for a management token only")

// session is the key that signs sessions, nil before the first one.
type session struct{ key []byte }

// plainSessionKey and sealedSessionKey are the stored forms of the key.
type (
	plainSessionKey struct {
		Key []byte `json:"key"`
	}
	sealedSessionKey struct {
		Sealed string `json:"sealed"`
	}
)

// set takes a key that is stored as plain text.
func (s *session) set(value []byte) error {
	var stored plainSessionKey
	err := json.Unmarshal(value, &stored, json.RejectUnknownMembers(true))
	if err == nil && len(stored.Key) != sessionKeyBytes {
		err = fmt.Errorf("it has %d bytes", len(stored.Key))
	}
	if err != nil {
		return fmt.Errorf("the key of sessions: %w", err)
	}
	s.key = stored.Key
	return nil
}

// open takes a key that is stored encrypted.
func (s *session) open(master *seal.Keys, value []byte) error {
	var stored sealedSessionKey
	err := json.Unmarshal(value, &stored, json.RejectUnknownMembers(true))
	text := ""
	if err == nil {
		text, err = master.Open(sealedSessionName, stored.Sealed)
	}
	if err == nil && len(text) != sessionKeyBytes {
		err = fmt.Errorf("it has %d bytes", len(text))
	}
	if err != nil {
		return fmt.Errorf("the key of sessions: %w", err)
	}
	s.key = []byte(text)
	return nil
}

// newSessionKey returns a new key as it is stored, with its name.
func newSessionKey(master *seal.Keys) (name string, value any) {
	key := make([]byte, sessionKeyBytes)
	_, _ = rand.Read(key) // never fails
	if master == nil {
		return sessionKeyName, plainSessionKey{key}
	}
	return sealedSessionName, sealedSessionKey{master.Seal(sealedSessionName, string(key))}
}

// errKeyExists ends the making of a key where another gateway was faster.
var errKeyExists = errors.New("the key of sessions exists")

// makeSessionKey makes the key that signs sessions, unless there is one.
func (c *Credentials) makeSessionKey(ctx context.Context) error {
	err := c.change(ctx, func() (string, any, error) {
		if c.session.key != nil {
			return "", nil, errKeyExists
		}
		name, value := newSessionKey(c.master)
		return name, value, nil
	})
	if errors.Is(err, errKeyExists) {
		return nil
	}
	return err
}

// BeginSession returns a session for the bearer of the token that a request
// presents, and when it ends: as late as it may, or some time sooner, because sessions of a token
// with the same end are the same. The first session makes the key that signs all.
func (c *Credentials) BeginSession(ctx context.Context, h http.Header, now time.Time,
	sooner time.Duration) (text string, end time.Time, err error) {
	if c.Roster() == nil || bearer(h) == "" {
		return "", end, ErrNoToken
	}
	if err := c.needSessionKey(ctx); err != nil {
		return "", end, err
	}
	return c.Roster().beginSession(h, c.settings.Session.Life(), now, sooner)
}

// needSessionKey makes the key that signs sessions where there is none.
func (c *Credentials) needSessionKey(ctx context.Context) error {
	if c.Roster().sessionKey != nil {
		return nil
	}
	return c.makeSessionKey(ctx)
}

// NewPass returns a pass for a session, and its id.
func (c *Credentials) NewPass(ctx context.Context) (text, id string, err error) {
	if err := c.needSessionKey(ctx); err != nil {
		return "", "", err
	}
	data := make([]byte, passBytes, passBytes+sha256.Size)
	_, _ = rand.Read(data) // never fails
	id = hex.EncodeToString(data)
	return passPrefix + base64.RawURLEncoding.EncodeToString(c.Roster().sign(data)), id, nil
}

// SessionID returns the id of a session of a token. Nobody can make the session from it.
func SessionID(text string) string { return HashOf("session " + text)[:2*passBytes] }

// SessionOf returns the id of a session that this gateway, or another one of its configuration,
// signed; empty for any other text.
func (r *Roster) SessionOf(text string, now time.Time) string {
	if id, isPass, _ := r.PassID(text); isPass {
		return id
	}
	if _, err := r.Session(text, now); err != nil {
		return ""
	}
	return SessionID(text)
}

// SessionKey returns a key for a purpose, which all gateways of a shared configuration have in
// common.
func (c *Credentials) SessionKey(ctx context.Context, purpose string) ([]byte, error) {
	if err := c.needSessionKey(ctx); err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, c.Roster().sessionKey)
	mac.Write([]byte("key of " + purpose))
	return mac.Sum(nil), nil
}

// PassID returns the id of a session from its pass. It returns an error for one that was not
// signed here. isPass is false for a text of another form.
func (r *Roster) PassID(text string) (id string, isPass bool, err error) {
	encoded, isPass := strings.CutPrefix(text, passPrefix)
	if !isPass {
		return "", false, nil
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(data) != passBytes+sha256.Size || r.sessionKey == nil ||
		!hmac.Equal(r.sign(data[:passBytes:passBytes]), data) {
		return "", true, ErrSessionUnknown
	}
	return hex.EncodeToString(data[:passBytes]), true, nil
}

func (r *Roster) beginSession(h http.Header, life time.Duration, now time.Time,
	sooner time.Duration) (text string, end time.Time, err error) {
	sum := sha256.Sum256([]byte(bearer(h)))
	found, known := r.entries[sum]
	if !known || found.expired(now) {
		return "", end, ErrNoToken
	}
	end = now.Add(life)
	if !found.expires.IsZero() && found.expires.Before(end) {
		end = found.expires
	}
	end = end.Add(-min(sooner, end.Sub(now)/2)).Truncate(time.Second)
	signed := binary.BigEndian.AppendUint64(nil, uint64(end.Unix()))
	print := fingerprint(sum)
	signed = append(signed, print[:]...)
	return sessionPrefix + base64.RawURLEncoding.EncodeToString(r.sign(signed)), end, nil
}

// Errors of Session.
var (
	// ErrSessionOver means that the session has reached its end.
	ErrSessionOver = say.Error("manage.session_over")
	// ErrSessionToken means that the token of the session is gone.
	ErrSessionToken = say.Error("manage.session_token")
	// ErrSessionUnknown means that this gateway did not sign the session.
	ErrSessionUnknown = say.Error("manage.session_unknown")
)

// Session returns who holds a session of a token, or why it is no longer good.
func (r *Roster) Session(text string, now time.Time) (Identity, error) {
	if r.sessionKey == nil || len(text) != len(sessionPrefix)+base64.RawURLEncoding.EncodedLen(sessionTotalBytes) ||
		text[:len(sessionPrefix)] != sessionPrefix {
		return Identity{}, ErrSessionUnknown
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text[len(sessionPrefix):])
	if err != nil {
		return Identity{}, ErrSessionUnknown
	}
	const signed = sessionTimeBytes + fingerprintBytes
	if !hmac.Equal(r.sign(data[:signed:signed]), data) {
		return Identity{}, ErrSessionUnknown
	}
	end := time.Unix(int64(binary.BigEndian.Uint64(data)), 0)
	found, known := r.prints[[fingerprintBytes]byte(data[sessionTimeBytes:signed])]
	switch {
	case !known || found.expired(now):
		return Identity{}, ErrSessionToken
	case now.After(end):
		return Identity{}, ErrSessionOver
	}
	return found.Identity, nil
}

// sign returns data with its signature behind it.
func (r *Roster) sign(data []byte) []byte {
	mac := hmac.New(sha256.New, r.sessionKey)
	mac.Write(data)
	return mac.Sum(data)
}

// fingerprint names a token in sessions. It does not reveal the stored hash of the token.
func fingerprint(sum [sha256.Size]byte) [fingerprintBytes]byte {
	again := sha256.Sum256(append([]byte("session of "), sum[:]...))
	return [fingerprintBytes]byte(again[:])
}
