package manage

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// selfView is who sends a request.
type selfView struct {
	Name string      `json:"name" doc:"The name of the token; open where security is off."`
	Role access.Role `json:"role"`
	// Permissions are the codes that the role holds.
	Permissions     []access.Permission `json:"permissions"`
	SecurityEnabled bool                `json:"securityEnabled"`
}

// Self answers GET /api/auth/me.
func (a *API) Self(q *Request) (Reply, error) {
	return Reply{message: "You.", data: selfView{
		Name: q.who.Name, Role: q.who.Role, Permissions: q.who.Role.Permissions(), SecurityEnabled: a.options.Credentials.Enforced(),
	}}, nil
}

// roleView is a role and the codes that it holds.
type roleView struct {
	Role        access.Role         `json:"role"`
	Permissions []access.Permission `json:"permissions"`
}

// Roles answers GET /api/auth/roles.
func (a *API) Roles(*Request) (Reply, error) {
	views := []roleView{}
	for role := access.Viewer; role.Valid(); role++ {
		views = append(views, roleView{role, role.Permissions()})
	}
	return Reply{message: "The roles, the least first.", data: views}, nil
}

// sessionView is the data of a reply that begins or ends a session. The session itself
// is in the cookie only.
type sessionView struct {
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// BeginSession answers POST /api/auth/session.
func (a *API) BeginSession(q *Request) (Reply, error) {
	if !a.options.Credentials.Enforced() {
		return Reply{}, invalidField("security.enabled", "is false: nobody is asked for a token, and there are no sessions")
	}
	if q.change.DryRun {
		return Reply{message: "Dry run: a session would begin.", data: sessionView{}}, nil
	}
	text, end, err := a.options.Credentials.BeginSession(q.Context(), q.Header, time.Now())
	if errors.Is(err, access.ErrNoToken) {
		// Who has a session cannot make it last longer with it.
		return Reply{}, invalidField("Authorization", "must hold a management token, as 'Bearer <token>'")
	}
	if err != nil {
		return Reply{}, err
	}
	cookie := newSessionCookie(q.Request, text)
	cookie.Expires = end
	return Reply{status: http.StatusCreated, message: "The session has begun.", data: sessionView{end.UTC()}, cookie: cookie}, nil
}

// EndSession answers DELETE /api/auth/session.
func (a *API) EndSession(q *Request) (Reply, error) {
	cookie := newSessionCookie(q.Request, "")
	cookie.MaxAge = -1
	return Reply{message: "The session has ended.", data: sessionView{}, cookie: cookie}, nil
}

// newSessionCookie returns the cookie of a session: out of the reach of scripts and
// of pages of other sites, and of anybody on the way where the way is encrypted.
func newSessionCookie(r *http.Request, value string) *http.Cookie {
	return &http.Cookie{
		Name: web.SessionCookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"),
	}
}
