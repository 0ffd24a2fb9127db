package access

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
)

// Where a credential comes from.
const (
	FromFile  = "config"
	FromIssue = "issued"
)

// Life records when a credential was created, rotated and revoked. A revoked
// credential stays on record: if the last record were removed, the gateway would
// require no key any more.
type Life struct {
	CreatedAt time.Time `json:"createdAt"`
	CreatedBy string    `json:"createdBy"`
	// RotatedAt is when the present text took the place of an earlier one.
	RotatedAt time.Time `json:"rotatedAt,omitzero"`
	// RevokedAt is when the credential was revoked; zero means that it was not.
	RevokedAt time.Time `json:"revokedAt,omitzero"`
	// Static says that a configuration file has the credential, and that this
	// record is there because it was revoked.
	Static bool `json:"static,omitzero"`
	// Source is FromFile or FromIssue.
	Source string `json:"-"`
}

// Issued is an API key and its life.
type Issued struct {
	Key
	Life
	// PreviousSHA256 is the hash of the text that the key had before its last rotation,
	// which is good until PreviousUntil.
	PreviousSHA256 string    `json:"previousSha256,omitzero"`
	PreviousUntil  time.Time `json:"previousUntil,omitzero"`
}

// IssuedToken is a management token and its life.
type IssuedToken struct {
	Token
	// ExpiresAt is an RFC 3339 time; empty means never.
	ExpiresAt string `json:"expiresAt,omitzero"`
	Life
}

// Status is ACTIVE, EXPIRED, REVOKED, or UNREADABLE for one that a newer release
// wrote, which is refused.
func (i Issued) Status(now time.Time) string { return i.status(i.KeySHA256, i.ExpiresAt, now) }

// Status is that of Issued, for tokens.
func (i IssuedToken) Status(now time.Time) string { return i.status(i.TokenSHA256, i.ExpiresAt, now) }

func (l Life) status(hash, expiresAt string, now time.Time) string {
	if hash == "" {
		return "UNREADABLE"
	}
	if !l.RevokedAt.IsZero() {
		return "REVOKED"
	}
	if expires, err := time.Parse(time.RFC3339, expiresAt); err == nil && now.After(expires) {
		return "EXPIRED"
	}
	return "ACTIVE"
}

// decodeKey reads a stored key. One that cannot be read is returned with its id
// alone, which no caller can present.
func decodeKey(id string, value []byte) (Issued, error) {
	var key Issued
	err := json.Unmarshal(value, &key, json.RejectUnknownMembers(true))
	if err == nil {
		err = problemsOf(Settings{Keys: []Key{key.Key}})
	}
	if err == nil && key.PreviousSHA256 != "" {
		err = problemsWith(func(report func(path, message string)) { checkHash(key.PreviousSHA256, "previousSha256", report) })
	}
	if err == nil && key.ID != id {
		err = fmt.Errorf("the record of %s is called %s", id, key.ID)
	}
	if err != nil {
		return Issued{Key: Key{ID: id}, Life: Life{Source: FromIssue}}, fmt.Errorf("key %s: %w", id, err)
	}
	key.Source = FromIssue
	return key, nil
}

// decodeToken is decodeKey for tokens.
func decodeToken(name string, value []byte) (IssuedToken, error) {
	var token IssuedToken
	err := json.Unmarshal(value, &token, json.RejectUnknownMembers(true))
	if err == nil {
		err = problemsOf(Settings{Tokens: []Token{token.Token}})
	}
	if err == nil {
		err = problemsWith(func(report func(path, message string)) { checkExpiry("", token.ExpiresAt, report) })
	}
	if err == nil && token.Name != name {
		err = fmt.Errorf("the record of %s is called %s", name, token.Name)
	}
	if err != nil {
		return IssuedToken{Token: Token{Name: name}, Life: Life{Source: FromIssue}}, fmt.Errorf("token %s: %w", name, err)
	}
	token.Source = FromIssue
	return token, nil
}

func problemsOf(s Settings) error { return problemsWith(s.Check) }

func problemsWith(check func(report func(path, message string))) error {
	var errs []error
	check(func(path, message string) { errs = append(errs, errors.New(path+" "+message)) })
	return errors.Join(errs...)
}
