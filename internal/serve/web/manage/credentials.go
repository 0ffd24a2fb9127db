package manage

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/serve/access"
)

// lifeView is what is shown alike of a key and of a token.
type lifeView struct {
	Status string `json:"status" enum:"ACTIVE,EXPIRED,REVOKED,UNREADABLE"`
	// Source is where the credential is kept.
	Source    string    `json:"source" enum:"config,issued"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	CreatedBy string    `json:"createdBy,omitzero"`
	RotatedAt time.Time `json:"rotatedAt,omitzero"`
}

func viewLife(life access.Life, status string) lifeView {
	return lifeView{status, life.Source, life.CreatedAt, life.CreatedBy, life.RotatedAt}
}

// checkCredential returns what is wrong with a credential that is to be issued or changed.
// One that has expired already would be useless.
func checkCredential(check func(report func(path, message string)), expiresAt string, now time.Time) error {
	return problemsOf(func(report func(path, message string)) {
		check(report)
		if expires, err := time.Parse(time.RFC3339, expiresAt); err == nil && now.After(expires) {
			report("expiresAt", "is in the past")
		}
	})
}

// changeAt returns who changes a credential now.
func (q *Request) changeAt(now time.Time) access.Change {
	return access.Change{By: q.change.Author, At: now, DryRun: q.change.DryRun}
}

// changedCredential returns the reply to a change of a credential. The word is key or
// token, and done is issued, changed, rotated or revoked.
func (q *Request) changedCredential(word, name, done, message string, data any) Reply {
	answer := Reply{message: message, data: data, change: word + " " + name + " " + done}
	switch {
	case q.change.DryRun:
		answer.message = "Dry run: this " + word + " would be " + done + "."
	case done == "issued":
		answer.status = http.StatusCreated
	}
	return answer
}

// revokeCredential has a credential revoked. To revoke it again is no error, and changes
// nothing.
func (q *Request) revokeCredential(word, name string, revoke func(context.Context, string, access.Change) error) (answer Reply, changed bool, err error) {
	err = revoke(q.Context(), name, q.changeAt(time.Now()))
	answer = q.changedCredential(word, name, "revoked", "The "+word+" was revoked; it is refused from now on.", nil)
	if errors.Is(err, access.ErrRevoked) {
		answer.message = "The " + word + " was revoked before."
		return answer, false, nil
	}
	return answer, err == nil, err
}
