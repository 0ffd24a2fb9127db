package manage

import (
	"context"
	"errors"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// lifeView holds the fields that a key and a token show alike.
type lifeView struct {
	Status string `json:"status" enum:"ACTIVE,SLEEPING,EXPIRED,DISABLED,REVOKED,UNREADABLE"`
	// Source is the place of the credential: the configuration file or the store.
	Source    string    `json:"source" enum:"config,issued"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	CreatedBy string    `json:"createdBy,omitzero"`
	RotatedAt time.Time `json:"rotatedAt,omitzero"`
}

func viewLife(life access.Life, status string) lifeView {
	return lifeView{status, life.Source, life.CreatedAt, life.CreatedBy, life.RotatedAt}
}

// CheckCredential returns the faults of a credential before it is issued or changed. One
// that has expired already would be useless.
func CheckCredential(check func(report say.Report), expiresAt string, now time.Time) error {
	return problemsOf(func(report say.Report) {
		check(report)
		if expires, err := time.Parse(time.RFC3339, expiresAt); err == nil && now.After(expires) {
			report("expiresAt", say.New("field.past"))
		}
	})
}

// ChangeAt returns who changes a credential now.
func ChangeAt(c *web.Call, now time.Time) access.Change {
	return access.Change{By: c.Who.String(), At: now, DryRun: c.DryRun, MayEnable: c.Who.Role.Holds(access.ManageKeys)}
}

// TellCredential describes the change of a credential, unless the message of the table
// does. The word is key or token, and done is issued, changed, enabled, rotated or revoked.
func TellCredential(c *web.Call, word, name, done string) {
	c.Done("%s %s %s", word, name, done)
	if c.DryRun {
		c.Say("Dry run: this %s would be %s.", word, done)
	}
}

// revokeCredential has a credential revoked. To revoke it again is no error, and changes
// nothing.
func revokeCredential(c *web.Call, word, name string,
	revoke func(context.Context, string, access.Change) error) (changed bool, err error) {
	c.Say("The %s was revoked; it is refused from now on.", word)
	TellCredential(c, word, name, "revoked")
	err = revoke(c.Context(), name, ChangeAt(c, time.Now()))
	if errors.Is(err, access.ErrRevoked) {
		c.Say("The %s was revoked before.", word)
		return false, nil
	}
	return err == nil, err
}
