package manage

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// selfView describes the sender of a request.
type selfView struct {
	Name string      `json:"name" doc:"The name of the token or of the person; open where security is off."`
	Role access.Role `json:"role,omitzero" doc:"In the whole gateway; a person may have none."`
	// Permissions are the codes that the role holds.
	Permissions     []access.Permission `json:"permissions"`
	SecurityEnabled bool                `json:"securityEnabled"`
	Issuer          string              `json:"issuer,omitzero" doc:"Of a person who signed in."`
	Subject         string              `json:"subject,omitzero" doc:"Identifies the person, together with the issuer."`
	Provider        string              `json:"provider,omitzero" doc:"Where the person signed in."`
	Memberships     []membershipView    `json:"memberships,omitzero" doc:"The tenants of the person."`
	Session         string              `json:"session,omitzero" doc:"The id of the session of this request."`
	ExpiresAt       string              `json:"sessionExpiresAt,omitzero" format:"date-time"`
}

// membershipView is the role of a person in a tenant.
type membershipView struct {
	Tenant string          `json:"tenant"`
	Role   access.TeamRole `json:"role"`
}

func (a *API) self(c *web.Call) (selfView, error) {
	view := selfView{
		Name: c.Who.Name, Role: c.Who.Role, Permissions: c.Who.Role.Permissions(),
		SecurityEnabled: a.options.Credentials.Enforced(), Issuer: c.Who.Issuer, Subject: c.Who.Subject,
		Session: c.Who.Session,
	}
	for _, m := range c.Who.Memberships {
		view.Memberships = append(view.Memberships, membershipView{m.Tenant, m.Role})
	}
	if c.Who.Session != "" {
		if session, err := a.options.Sessions.Find(c.Context(), c.Who.Session, time.Now()); err == nil {
			view.Provider, view.ExpiresAt = session.Provider, web.Time(session.Until)
		}
	}
	return view, nil
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
		return view, web.BadInput("security.enabled", "manage.no_sessions")
	}
	if c.DryRun {
		c.Say("Dry run: a session would begin.")
		return view, nil
	}
	text, end, err := a.newSession(c)
	if errors.Is(err, access.ErrNoToken) {
		// Who has a session cannot make it last longer with it.
		return view, web.BadInput("Authorization", "field.token")
	}
	c.Cookie = a.options.PublicURL.NewCookie(c.Request, web.SessionCookie, text)
	c.Cookie.Expires = end
	return sessionView{end.UTC()}, err
}

// newSession begins a session of the token of a request. It is good even if it cannot be kept now,
// and not listed then.
func (a *API) newSession(c *web.Call) (text string, end time.Time, err error) {
	const tries = 20
	now, sooner := time.Now(), time.Duration(0)
	// Two sessions of a token have different ends, because one of them may be ended.
	for range tries {
		text, end, err = a.options.Credentials.BeginSession(c.Context(), c.Header, now, sooner)
		if err != nil {
			return "", end, err
		}
		err = a.options.Sessions.Begin(c.Context(), sessions.Session{ID: access.SessionID(text), Name: c.Who.Name,
			Since: now, Until: end, Address: web.ClientAddr(c.Request, a.options.TrustedProxies).String()})
		if !errors.Is(err, sessions.ErrExists) {
			break
		}
		sooner += rand.N(time.Minute) + time.Second //nolint:gosec // it only tells sessions apart
	}
	if err != nil {
		a.options.Log.Warn("a session has begun and is not listed", "who", c.Who.String(), "error", err)
	}
	return text, end, nil
}

func (a *API) endSession(c *web.Call) (view sessionView, err error) {
	if c.DryRun {
		c.Say("Dry run: the session would end.")
		return view, nil
	}
	if err := a.options.PublicURL.EndSession(c, a.options.Credentials.Roster(), a.options.Sessions); err != nil {
		a.options.Log.Error("a session cannot be ended now", "who", c.Who.String(), "error", err)
		return view, web.Away(say.New("manage.session_not_ended"))
	}
	return view, nil
}

// heldSession is a session of a browser.
type heldSession struct {
	ID       string `json:"id"`
	Name     string `json:"name" doc:"The name of the token, or of the person."`
	Provider string `json:"provider,omitzero" doc:"Where the person signed in; none for the session of a token."`
	Issuer   string `json:"issuer,omitzero"`
	Subject  string `json:"subject,omitzero" doc:"Identifies the person, together with the issuer."`
	Since    string `json:"since" format:"date-time"`
	Until    string `json:"until" format:"date-time" doc:"The end of its longest life."`
	Address  string `json:"address,omitzero" doc:"The address of the browser when it began."`
	Current  bool   `json:"current,omitzero" doc:"Whether it is the session of this request."`

	tenant string // of a person in one tenant
}

func viewOfSession(s *sessions.Session, c *web.Call) heldSession {
	tenant := ""
	if len(s.Places) == 1 {
		tenant = s.Places[0].Tenant
	}
	return heldSession{ID: s.ID, Name: s.Name, Provider: s.Provider, Issuer: s.Issuer, Subject: s.Subject,
		Since: web.Time(s.Since), Until: web.Time(s.Until), Address: s.Address, Current: s.ID == c.Who.Session,
		tenant: tenant}
}

func (a *API) listSessions(c *web.Call) (views []heldSession, err error) {
	if a.options.Sessions == nil {
		return nil, nil
	}
	list, err := a.options.Sessions.List(time.Now())
	if err != nil {
		return nil, web.Away(say.From(err))
	}
	for i := range list {
		views = append(views, viewOfSession(&list[i], c))
	}
	return views, nil
}

// endOne ends the session that a request names.
func (a *API) endOne(c *web.Call) (view heldSession, err error) {
	id := c.PathValue("id")
	if a.options.Sessions == nil {
		return view, noSession(id)
	}
	session, err := a.options.Sessions.Find(c.Context(), id, time.Now())
	switch {
	case errors.Is(err, sessions.ErrUnread):
		return view, web.Away(say.From(err))
	case err != nil:
		return view, noSession(id)
	case c.DryRun:
		c.Say("Dry run: the session of %s would end.", session.Name)
		return viewOfSession(&session, c), nil
	}
	c.Done("session of %s ended", session.Name)
	if err := a.options.Sessions.End(c.Context(), id, session.Until); err != nil {
		a.options.Log.Error("a session cannot be ended now", "session", id, "error", err)
		return view, web.Away(say.New("manage.session_not_ended"))
	}
	return viewOfSession(&session, c), nil
}

func noSession(id string) error {
	return web.NoSuch("manage.no_session", "id", web.Shorten(id))
}
