package manage

import (
	"fmt"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
)

// tokenView is a management token as JSON. The token itself is shown once, when it is
// issued or rotated; the gateway stores only a hash.
type tokenView struct {
	Name      string      `json:"name"`
	Role      access.Role `json:"role"`
	ExpiresAt string      `json:"expiresAt" doc:"Empty for a token that does not expire."`
	lifeView
	RevokedAt time.Time `json:"revokedAt,omitzero"`
	Token     string    `json:"token,omitzero" doc:"Only in the reply that issues or rotates it."`
	DryRun    bool      `json:"dryRun,omitzero"`
}

// viewToken shows a token, and its text where it was just made.
func viewToken(q *Request, token access.IssuedToken, text string, now time.Time) tokenView {
	return tokenView{
		Name: token.Name, Role: token.RoleInForce(), ExpiresAt: token.ExpiresAt, lifeView: viewLife(token.Life, token.Status(now)),
		RevokedAt: token.RevokedAt, Token: text, DryRun: q.change.DryRun,
	}
}

// Tokens answers GET /api/auth/tokens.
func (a *API) Tokens(q *Request) (Reply, error) {
	now := time.Now()
	views := []tokenView{}
	for _, token := range a.options.Credentials.Tokens.List() {
		views = append(views, viewToken(q, token, "", now))
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
	now := time.Now()
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
	answer := q.changedCredential("token", issued.Name, "issued", "The token was issued. It is shown this once only.", viewToken(q, issued, text, now))
	answer.change += ", role " + issued.Role.String()
	return answer, nil
}

func readToken(body []byte, now time.Time) (access.IssuedToken, error) {
	var wanted tokenRequest
	if _, err := config.DecodeJSON(body, &wanted); err != nil {
		return access.IssuedToken{}, err
	}
	token := access.IssuedToken{Token: access.Token{Name: wanted.Name, Role: wanted.Role}, ExpiresAt: wanted.ExpiresAt}
	return token, checkCredential(token.Check, token.ExpiresAt, now)
}

// RotateToken answers POST /api/auth/tokens/{name}/rotate.
func (a *API) RotateToken(q *Request) (Reply, error) {
	now := time.Now()
	if err := a.refuseWhileOpen(); err != nil {
		return Reply{}, err
	}
	text, rotated, err := a.options.Credentials.Tokens.Rotate(q.Context(), q.PathValue("name"), q.changeAt(now))
	if err != nil {
		return Reply{}, err
	}
	return q.changedCredential("token", rotated.Name, "rotated",
		"The token has a new text, which is shown this once only; the old one is refused from now on.", viewToken(q, rotated, text, now)), nil
}

// RevokeToken answers DELETE /api/auth/tokens/{name}.
func (a *API) RevokeToken(q *Request) (Reply, error) {
	name := q.PathValue("name")
	answer, changed, err := q.revokeCredential("token", name, a.options.Credentials.Tokens.Revoke)
	answer.data = revokedToken{name, changed, q.change.DryRun}
	if changed && !q.change.DryRun && a.options.Credentials.Enforced() && !a.options.Credentials.Roster().HasAdmin(time.Now()) {
		answer.message += " It was the last one of the role ADMIN: issue another with patchbay tokens issue while the gateway is stopped."
	}
	return answer, err
}

// revokedToken is the data of the reply to a revocation.
type revokedToken struct {
	Name    string `json:"name"`
	Changed bool   `json:"changed"`
	DryRun  bool   `json:"dryRun,omitzero"`
}
