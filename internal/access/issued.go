package access

import (
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Where a credential comes from.
const (
	FromFile  = "config"
	FromIssue = "issued"
)

// Origin is the way by which a key was made. It decides whether the administrators of a team may change
// the key.
type Origin string

// The origins of keys.
const (
	OriginFile       Origin = "file"       // the configuration file
	OriginManagement Origin = "management" // the management API or the program's verbs
	OriginTeam       Origin = "team"       // self-service, for a tenant
	OriginSelf       Origin = "self"       // self-service, for the person
)

// IsSelfService reports whether self-service made the key, within the terms of the tenant.
func (o Origin) IsSelfService() bool { return o == OriginTeam || o == OriginSelf }

// Life records when a credential was created, rotated and revoked. A revoked
// credential stays on record: if the last record were removed, the gateway would
// require no key any more.
type Life struct {
	CreatedAt time.Time `json:"createdAt"`
	CreatedBy string    `json:"createdBy"`
	// RotatedAt is the time when the present text replaced an earlier one.
	RotatedAt time.Time `json:"rotatedAt,omitzero"`
	// RevokedAt is the time of the revocation; zero means that the credential is not
	// revoked.
	RevokedAt time.Time `json:"revokedAt,omitzero"`
	// Static says that a configuration file has the credential, and that this
	// record is there because it was revoked.
	Static bool `json:"static,omitzero"`
	// DisabledBy is the id of the restore that brought the credential from a backup without a signature:
	// it is refused until an ADMIN enables or rotates it, or the restore is confirmed.
	DisabledBy string `json:"disabled,omitzero"`
	// Source is FromFile or FromIssue.
	Source string `json:"-"`
}

// IssuedKey is an API key and its life.
type IssuedKey struct {
	Key
	Life
	// Name is the name that its owner gave it, and Owner the person who made it for themselves.
	Name  string `json:"name,omitzero"`
	Owner Owner  `json:"owner,omitzero"`
	// Origin is OriginManagement for a record without one.
	Origin Origin `json:"origin"`
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
	// IsUnsigned says that there is a master key, and that the record has no signature made
	// with it.
	IsUnsigned bool `json:"-"`
}

// RoleInForce returns the role of the token's bearer. An unsigned token may be the work of
// somebody who wants a role.
func (i IssuedToken) RoleInForce() Role {
	if i.IsUnsigned {
		return min(i.Role, Viewer)
	}
	return i.Role
}

// Status is ACTIVE, EXPIRED, DISABLED or REVOKED. It is UNREADABLE if a newer release wrote the key;
// the gateway refuses that key.
func (i IssuedKey) Status(now time.Time) string { return i.status(i.KeySHA256, i.ExpiresAt, now) }

// Status is like the method of IssuedKey, for tokens.
func (i IssuedToken) Status(now time.Time) string { return i.status(i.TokenSHA256, i.ExpiresAt, now) }

func (l Life) status(hash, expiresAt string, now time.Time) string {
	if hash == "" {
		return "UNREADABLE"
	}
	if !l.RevokedAt.IsZero() {
		return "REVOKED"
	}
	if l.DisabledBy != "" {
		return "DISABLED"
	}
	if expires, err := time.Parse(time.RFC3339, expiresAt); err == nil && now.After(expires) {
		return "EXPIRED"
	}
	return "ACTIVE"
}

func (i *IssuedKey) parts() parts   { return parts{&i.ID, &i.KeySHA256, &i.Life} }
func (i *IssuedToken) parts() parts { return parts{&i.Name, &i.TokenSHA256, &i.Life} }

func (i *IssuedKey) checkStored(report say.Report) {
	Settings{Keys: []Key{i.Key}}.Check(report)
	if i.PreviousSHA256 != "" {
		checkHash(i.PreviousSHA256, "previousSha256", report)
	}
}

func (i *IssuedToken) checkStored(report say.Report) {
	Settings{Tokens: []Token{i.Token}}.Check(report)
	checkExpiry("", i.ExpiresAt, report)
}

// issue returns a text that tells the key apart from earlier keys with its id, and the time at
// which it was issued. Keys that are issued one after the other have different times. The gateway
// does not know the history of a key in the configuration file; another text there is another
// key.
func (i *IssuedKey) issue() (issue string, since time.Time) {
	if i.Source == FromFile {
		return "file-" + HashOf("issue " + i.KeySHA256)[:16], time.Time{}
	}
	return "at-" + i.CreatedAt.UTC().Format(time.RFC3339), i.CreatedAt
}

func problemsOf(check func(report say.Report)) error {
	var errs []error
	check(func(path string, fault say.Sentence) { errs = append(errs, errors.New(path+" "+fault.String())) })
	return errors.Join(errs...)
}
