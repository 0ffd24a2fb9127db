package manage

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/see/say"
	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// selfView describes the sender of a request.
type selfView struct {
	Name string      `json:"name" doc:"The name of the token; open where security is off."`
	Role access.Role `json:"role"`
	// Permissions are the codes that the role holds.
	Permissions     []access.Permission `json:"permissions"`
	SecurityEnabled bool                `json:"securityEnabled"`
}

func (a *API) self(c *web.Call) (selfView, error) {
	return selfView{
		Name: c.Who.Name, Role: c.Who.Role, Permissions: c.Who.Role.Permissions(),
		SecurityEnabled: a.options.Credentials.Enforced(),
	}, nil
}

// roleView is a role and the codes that it holds.
type roleView struct {
	Role        access.Role         `json:"role"`
	Permissions []access.Permission `json:"permissions"`
}

func (a *API) roles(*web.Call) (views []roleView, err error) {
	for role := access.Viewer; role.Valid(); role++ {
		views = append(views, roleView{role, role.Permissions()})
	}
	return views, nil
}

// sessionView is the data of a reply that begins or ends a session. The session itself
// is in the cookie only.
type sessionView struct {
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

func (a *API) beginSession(c *web.Call) (view sessionView, err error) {
	if !a.options.Credentials.Enforced() {
		return view, web.Invalid("security.enabled", say.New("manage.no_sessions"))
	}
	if c.DryRun {
		c.Say("Dry run: a session would begin.")
		return view, nil
	}
	text, end, err := a.options.Credentials.BeginSession(c.Context(), c.Header, time.Now())
	if errors.Is(err, access.ErrNoToken) {
		// Who has a session cannot make it last longer with it.
		return view, web.Invalid("Authorization", say.New("field.token"))
	}
	c.Cookie = newSessionCookie(c.Request, text)
	c.Cookie.Expires = end
	return sessionView{end.UTC()}, err
}

func (a *API) endSession(c *web.Call) (sessionView, error) {
	c.Cookie = newSessionCookie(c.Request, "")
	c.Cookie.MaxAge = -1
	return sessionView{}, nil
}

// newSessionCookie returns the cookie of a session: out of the reach of scripts and
// of pages of other sites, and of anybody on the way where the way is encrypted.
func newSessionCookie(r *http.Request, value string) *http.Cookie {
	return &http.Cookie{
		Name: web.SessionCookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"),
	}
}
