package manage

import (
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
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
func viewToken(c *web.Call, token access.IssuedToken, text string, now time.Time) tokenView {
	return tokenView{
		Name: token.Name, Role: token.RoleInForce(), ExpiresAt: token.ExpiresAt,
		lifeView:  viewLife(token.Life, token.Status(now)),
		RevokedAt: token.RevokedAt, Token: text, DryRun: c.DryRun,
	}
}

func (a *API) listTokens(c *web.Call) (views []tokenView, err error) {
	now := time.Now()
	for _, token := range a.options.Credentials.Tokens.List() {
		views = append(views, viewToken(c, token, "", now))
	}
	return views, nil
}

// tokenTerms are the members of a token that may change after it was issued.
type tokenTerms struct {
	Role      access.Role `json:"role"`
	ExpiresAt string      `json:"expiresAt" format:"date-time" pattern:"^(202[6-9]|20[3-9]|2[1-9]|[3-9])" empty:"true"`
}

// Docs says more about some members than a tag has room for.
func (tokenTerms) Docs() map[string]string {
	return map[string]string{
		"expiresAt": "In the future; a token without it does not expire.",
	}
}

// tokenRequest is the body of a request to issue a token.
type tokenRequest struct {
	Name      string      `json:"name" pattern:"^[A-Za-z0-9_.:-]*$" maxLength:"128" doc:"One is made if left out."`
	Role      access.Role `json:"role" required:"true" want:"field.role"`
	ExpiresAt string      `json:"expiresAt" format:"date-time" pattern:"^(202[6-9]|20[3-9]|2[1-9]|[3-9])" empty:"true"`
}

// Docs says more about some members than a tag has room for.
func (tokenRequest) Docs() map[string]string { return tokenTerms{}.Docs() }

// refuseWhileOpen returns an error while management needs no tokens: then anybody could
// issue one.
func (a *API) refuseWhileOpen() error {
	if a.options.Credentials.Enforced() || a.options.isOffline {
		return nil
	}
	return &web.RequestError{Status: http.StatusForbidden, Why: say.New("manage.open").About("security.enabled")}
}

func (a *API) issueToken(c *web.Call, wanted *tokenRequest) (tokenView, error) {
	now := time.Now()
	token := access.IssuedToken{Token: access.Token{Name: wanted.Name, Role: wanted.Role}, ExpiresAt: wanted.ExpiresAt}
	err := CheckCredential(token.Check, token.ExpiresAt, now)
	if err == nil {
		err = a.refuseWhileOpen()
	}
	if err != nil {
		return tokenView{}, err
	}
	text, issued, err := a.options.Credentials.Tokens.Issue(c.Context(), token, ChangeAt(c, now))
	TellCredential(c, "token", issued.Name, "issued")
	c.Change.Summary += ", role " + issued.Role.String()
	return viewToken(c, issued, text, now), err
}

func (a *API) editToken(c *web.Call) (tokenView, error) {
	now := time.Now()
	if err := a.refuseWhileOpen(); err != nil {
		return tokenView{}, err
	}
	edited, err := a.options.Credentials.Tokens.Edit(c.Context(), c.PathValue("name"), ChangeAt(c, now),
		func(token *access.IssuedToken) error {
			wanted := tokenTerms{token.Role, token.ExpiresAt}
			if _, err := config.DecodeJSON(c.Content, &wanted); err != nil {
				return err
			}
			isSame := wanted.ExpiresAt == token.ExpiresAt // an unchanged value may be in the past
			token.Role, token.ExpiresAt = wanted.Role, wanted.ExpiresAt
			if isSame {
				return problemsOf(token.Check)
			}
			return CheckCredential(token.Check, token.ExpiresAt, now)
		})
	TellCredential(c, "token", edited.Name, "changed")
	c.Change.Summary += ", role " + edited.Role.String()
	return viewToken(c, edited, "", now), err
}

func (a *API) rotateToken(c *web.Call) (tokenView, error) {
	now := time.Now()
	if err := a.refuseWhileOpen(); err != nil {
		return tokenView{}, err
	}
	text, rotated, err := a.options.Credentials.Tokens.Rotate(c.Context(), c.PathValue("name"), ChangeAt(c, now))
	TellCredential(c, "token", rotated.Name, "rotated")
	return viewToken(c, rotated, text, now), err
}

func (a *API) enableToken(c *web.Call) (tokenView, error) {
	now := time.Now()
	if err := a.refuseWhileOpen(); err != nil {
		return tokenView{}, err
	}
	enabled, err := a.options.Credentials.Tokens.Enable(c.Context(), c.PathValue("name"), ChangeAt(c, now))
	TellCredential(c, "token", enabled.Name, "enabled")
	return viewToken(c, enabled, "", now), err
}

func (a *API) revokeToken(c *web.Call) (revokedToken, error) {
	name := c.PathValue("name")
	changed, err := revokeCredential(c, "token", name, a.options.Credentials.Tokens.Revoke)
	if changed && !c.DryRun && a.options.Credentials.Enforced() &&
		!a.options.Credentials.Roster().HasAdmin(time.Now()) {
		c.Message += " It was the last one of the role ADMIN: issue another with patchbay tokens create while the " +
			"gateway is stopped."
	}
	return revokedToken{name, changed, c.DryRun}, err
}

// revokedToken is the data of the reply to a revocation.
type revokedToken struct {
	Name    string `json:"name"`
	Changed bool   `json:"changed"`
	DryRun  bool   `json:"dryRun,omitzero"`
}
