package manage

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
)

// tokenView is a management token as JSON. The token itself is shown once, when it is
// issued or rotated; the gateway stores only a hash.
type tokenView struct {
	Name      string      `json:"name"`
	Role      access.Role `json:"role"`
	ExpiresAt string      `json:"expiresAt" doc:"Empty for a token that does not expire."`
	Status    string      `json:"status" enum:"ACTIVE,EXPIRED,REVOKED,UNREADABLE"`
	// Source is where the token is kept.
	Source    string    `json:"source" enum:"config,issued"`
	CreatedAt time.Time `json:"createdAt,omitzero"`
	CreatedBy string    `json:"createdBy,omitzero"`
	RotatedAt time.Time `json:"rotatedAt,omitzero"`
	RevokedAt time.Time `json:"revokedAt,omitzero"`
	Token     string    `json:"token,omitzero" doc:"Only in the reply that issues or rotates it."`
	DryRun    bool      `json:"dryRun,omitzero"`
}

func viewToken(token access.IssuedToken, now time.Time) tokenView {
	return tokenView{
		Name: token.Name, Role: token.Role, ExpiresAt: token.ExpiresAt, Status: token.Status(now), Source: token.Source,
		CreatedAt: token.CreatedAt, CreatedBy: token.CreatedBy, RotatedAt: token.RotatedAt, RevokedAt: token.RevokedAt,
	}
}

// Tokens answers GET /api/auth/tokens.
func (a *API) Tokens(q *Request) (Reply, error) {
	now := time.Now()
	views := []tokenView{}
	for _, token := range a.options.Credentials.Tokens.List() {
		views = append(views, viewToken(token, now))
	}
	data, err := list(q, views)
	return Reply{message: "The management tokens.", data: data}, err
}

// tokenRequest is the body of a request to issue a token.
type tokenRequest struct {
	Name      string      `json:"name" pattern:"^[A-Za-z0-9_.:-]*$" maxLength:"128" doc:"One is made where it is left out."`
	Role      access.Role `json:"role" required:"true"`
	ExpiresAt string      `json:"expiresAt" format:"date-time" pattern:"^(202[6-9]|20[3-9][0-9]|2[1-9][0-9]{2}|[3-9][0-9]{3})-" empty:"true" doc:"In the future; a token without it does not expire."`
}

// refuseWhileOpen returns an error while management needs no tokens: then anybody could
// issue one.
func (a *API) refuseWhileOpen() error {
	if a.options.Credentials.Enforced() {
		return nil
	}
	return fmt.Errorf("%w: a token that anybody may issue now would be good when security is on. "+
		"Turn security on first, or issue it with patchbay tokens issue while the gateway is stopped", errOpen)
}

// IssueToken answers POST /api/auth/tokens.
func (a *API) IssueToken(q *Request) (Reply, error) {
	now, dryRun := time.Now(), q.change.DryRun
	wanted, err := readToken(q.body, now)
	if err == nil {
		err = a.refuseWhileOpen()
	}
	if err != nil {
		return Reply{}, err
	}
	text, issued, err := a.options.Credentials.Tokens.Issue(q.Context(), wanted, q.changeAt(now))
	if err != nil {
		return Reply{}, err
	}
	view := viewToken(issued, now)
	view.Token, view.DryRun = text, dryRun
	answer := Reply{
		status: http.StatusCreated, message: "The token was issued. It is shown this once only.", data: view,
		change: "token " + issued.Name + " issued, role " + issued.Role.String(),
	}
	if dryRun {
		answer.status, answer.message = http.StatusOK, "Dry run: this token would be issued."
	}
	return answer, nil
}

func readToken(body []byte, now time.Time) (access.IssuedToken, error) {
	var wanted tokenRequest
	if _, err := config.DecodeJSON(body, &wanted); err != nil {
		return access.IssuedToken{}, err
	}
	token := access.IssuedToken{Token: access.Token{Name: wanted.Name, Role: wanted.Role}, ExpiresAt: wanted.ExpiresAt}
	return token, problemsOf(func(report func(path, message string)) {
		token.Check(report)
		checkEnd(token.ExpiresAt, now, report)
	})
}

// RotateToken answers POST /api/auth/tokens/{name}/rotate.
func (a *API) RotateToken(q *Request) (Reply, error) {
	now, dryRun := time.Now(), q.change.DryRun
	if err := a.refuseWhileOpen(); err != nil {
		return Reply{}, err
	}
	text, rotated, err := a.options.Credentials.Tokens.Rotate(q.Context(), q.PathValue("name"), q.changeAt(now))
	if err != nil {
		return Reply{}, err
	}
	view := viewToken(rotated, now)
	view.Token, view.DryRun = text, dryRun
	answer := Reply{
		message: "The token has a new text, which is shown this once only; the old one is refused from now on.", data: view,
		change: "token " + rotated.Name + " rotated",
	}
	if dryRun {
		answer.message = "Dry run: this token would be rotated."
	}
	return answer, nil
}

// RevokeToken answers DELETE /api/auth/tokens/{name}.
func (a *API) RevokeToken(q *Request) (Reply, error) {
	name, dryRun := q.PathValue("name"), q.change.DryRun
	err := a.options.Credentials.Tokens.Revoke(q.Context(), name, q.changeAt(time.Now()))
	already := errors.Is(err, access.ErrRevoked)
	if err != nil && !already {
		return Reply{}, err
	}
	message := "The token was revoked; it is refused from now on."
	switch {
	case already:
		message = "The token was revoked before."
	case dryRun:
		message = "Dry run: this token would be revoked."
	case a.options.Credentials.Enforced() && !a.options.Credentials.Roster().HasAdmin(time.Now()):
		message += " It was the last one of the role ADMIN: issue another with patchbay tokens issue while the gateway is stopped."
	}
	return Reply{message: message, change: "token " + name + " revoked", data: revokedToken{name, !already, dryRun}}, nil
}

// revokedToken is the data of the reply to a revocation.
type revokedToken struct {
	Name    string `json:"name"`
	Changed bool   `json:"changed"`
	DryRun  bool   `json:"dryRun,omitzero"`
}
