// Package entry is the wing of sign-in: people come from their provider (OpenID Connect) and get a
// session.
package entry

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
	"github.com/patchbay-ai/patchbay/internal/serve/jwt"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/actuator"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/wings/signin"
)

// hall is where people come in.
type hall struct {
	core      *wing.Core
	providers []*signin.Client
}

// New returns the wing of sign-in.
func New(core *wing.Core) *wing.Wing {
	h := &hall{core: core}
	w := &wing.Wing{Routes: h.routes, Close: h.close, Families: families[:]}
	if len(core.Document.Security.OIDC) == 0 {
		return w
	}
	w.Session, w.State, w.Health = h.session, h.state, h.health
	w.Open = func() error {
		for _, p := range core.Document.Security.OIDC {
			h.providers = append(h.providers, signin.NewClient(p, core.Document.Server.PublicURL, core.Log))
		}
		return nil
	}
	return w
}

func (h *hall) close() {
	for _, p := range h.providers {
		p.Close()
	}
}

const tag = "Sign-in"

func (h *hall) routes() []web.Route {
	page := func(pattern string, handler http.HandlerFunc) web.Route {
		return web.Route{Pattern: pattern, Permission: access.Anyone, Handler: handler, Undescribed: true,
			Concerns: web.OfGateway}
	}
	callback := page("GET /auth/callback", h.callback)
	callback.Audited, callback.SignsIn = true, true
	return []web.Route{
		page("GET /auth/login", h.login),
		callback,
		page("POST /auth/backchannel-logout", h.backChannel),
		{
			Pattern: "GET /auth/providers", Tag: tag, Permission: access.Anyone, Does: web.Do(h.list),
			Summary: "The providers where people can sign in", Says: "The providers.",
		},
		{
			Pattern: "POST /auth/logout", Tag: tag, Takes: web.Always, Permission: access.Anyone,
			Does: web.Do(h.logout), Concerns: web.OfGateway,
			Summary: "End the session of this request; a copy of its cookie is worth nothing from then on",
			Says:    "The session has ended.", Errors: []int{http.StatusServiceUnavailable},
		},
	}
}

// providerView is a provider on the page of sign-in.
type providerView struct {
	Name  string `json:"name"`
	Login string `json:"login" doc:"Where the browser goes to sign in."`
}

// entranceView has the ways to sign in.
type entranceView struct {
	Providers []providerView `json:"providers"`
}

func (h *hall) list(*web.Call) (view entranceView, err error) {
	view.Providers = []providerView{}
	for _, p := range h.providers {
		view.Providers = append(view.Providers, providerView{p.Name, "/auth/login?provider=" + url.QueryEscape(p.Name)})
	}
	return view, nil
}

// leavingView says how a logout goes on.
type leavingView struct {
	ProviderLogout string `json:"providerLogout,omitzero" doc:"Where the browser ends the session at the provider too."`
}

func (h *hall) logout(c *web.Call) (view leavingView, err error) {
	if h.core.Sessions == nil {
		return view, nil // there are no sessions where security is off
	}
	session, _ := h.core.Sessions.Find(c.Context(), c.Who.Session, time.Now()) // none is fine, too
	for _, p := range h.providers {
		if session.Subject != "" && p.Name == session.Provider && p.Issuer == session.Issuer {
			view.ProviderLogout = p.LogoutAddress(h.core.Document.Server.PublicURL)
		}
	}
	if c.DryRun {
		c.Say("Dry run: the session would end.")
		return view, nil
	}
	if c.Who.Session == "" {
		c.Say("There was no session.")
		return view, nil
	}
	if err := h.publicURL().EndSession(c, h.core.Credentials.Roster(), h.core.Sessions); err != nil {
		h.core.Log.Error("a session cannot be ended now", "who", c.Who.String(), "error", err)
		return view, web.Away(say.New("manage.session_not_ended"))
	}
	return view, nil
}

// session returns who holds a pass. The rules of now decide about the claims of the sign-in.
func (h *hall) session(text string, now time.Time) (who access.Identity, known bool, err error) {
	id, isPass, err := h.core.Credentials.Roster().PassID(text)
	if !isPass || err != nil {
		return who, isPass, err
	}
	session, err := h.core.Sessions.Find(context.Background(), id, now)
	if err != nil {
		return who, true, err
	}
	for _, p := range h.providers {
		if p.Name == session.Provider && p.Issuer == session.Issuer {
			return identity(p, &session), true, nil
		}
	}
	return who, true, sessions.ErrEnded // the file does not have the provider any more
}

func identity(p *signin.Client, s *sessions.Session) access.Identity {
	who := p.Rights(signin.Restored(s.Claims))
	who.Name, who.Issuer, who.Subject, who.Session = s.Name, s.Issuer, s.Subject, s.ID
	who.SeesSecrets = who.Role == access.Admin
	return who
}

// backChannel ends the sessions of a person whom a provider has signed out.
func (h *hall) backChannel(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	r.Body = http.MaxBytesReader(w, r.Body, 2*jwt.MaxLength)
	token := r.PostFormValue("logout_token")
	err := h.endByToken(w, r, token)
	var refused *notKept
	switch {
	case errors.As(err, &refused):
		h.core.Log.Error("a logout at a provider cannot be kept now", "error", refused.cause)
		web.Refuse(w, http.StatusServiceUnavailable, say.New("manage.session_not_ended"))
	case err != nil:
		h.core.Log.Warn("a logout at a provider is refused", "error", err,
			"from", web.ClientAddr(r, h.core.Document.Server.TrustedProxies).String())
		web.Refuse(w, http.StatusBadRequest, say.From(err))
	default:
		w.WriteHeader(http.StatusOK)
	}
}

// notKept is why a logout could not be stored.
type notKept struct{ cause error }

func (n *notKept) Error() string { return n.cause.Error() }

func (h *hall) endByToken(w http.ResponseWriter, r *http.Request, token string) error {
	ctx := r.Context()
	issuer, isToken := jwt.IssuerOf(token)
	if !isToken {
		return say.Error("token.form")
	}
	err := say.Error("token.issuer")
	for _, p := range h.providers {
		if p.Issuer != issuer {
			continue
		}
		var subject, seat string
		if subject, seat, err = p.LoggedOut(ctx, token); err != nil {
			continue // another client of the same issuer may be meant
		}
		// A session that ends is taken away, so it ends also where that cannot be recorded now.
		_ = web.Intend(w, access.Identity{Name: "provider " + p.Name})
		noteEnd(w, subject, seat)
		if seat != "" {
			err = h.core.Sessions.EndSeat(ctx, issuer, seat)
		} else {
			err = h.core.Sessions.EndPerson(ctx, issuer, subject)
		}
		if err != nil {
			return &notKept{err}
		}
		h.core.Log.Info("a provider has signed a person out", "provider", p.Name)
		return nil
	}
	return err
}

// noteEnd notes for the audit whose sessions a provider has ended.
func noteEnd(w http.ResponseWriter, subject, seat string) {
	var parts []string
	for _, part := range [...]struct{ name, value string }{{"subject", subject}, {"sid", seat}} {
		if part.value != "" {
			parts = append(parts, part.name+" "+web.Shorten(part.value))
		}
	}
	web.ChangeOf(w).Summary = "sessions ended of " + strings.Join(parts, ", ")
}

// state adds the sessions to the state for a scrape.
func (h *hall) state(to *metrics.State, now time.Time) {
	to.Count("model_router_sessions", int64(h.core.Sessions.Count(now)))
}

// providerDetails say why a provider cannot be used.
type providerDetails struct {
	Failing map[string]string `json:"failing,omitzero"`
}

// health tells which providers could not be asked the last time. Tokens are accepted all the same,
// so the gateway is not degraded by it.
func (h *hall) health(to map[string]actuator.Component) {
	details := providerDetails{Failing: map[string]string{}}
	for _, p := range h.providers {
		if err := p.Failure(); err != nil {
			details.Failing[p.Name] = actuator.Shorten(err.Error())
		}
	}
	to["signIn"] = actuator.Component{Details: details}
}

// isOwnPath reports whether a text is a path of this gateway, and cannot lead a browser elsewhere.
func isOwnPath(to string) bool {
	parsed, err := url.Parse(to)
	return err == nil && len(to) <= maxPath && strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") &&
		parsed.Scheme == "" && parsed.Host == "" && parsed.User == nil &&
		!strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r == '\\' || r > '~' })
}

const maxPath = 1024

// families are the metrics of this wing.
var families = [...]metrics.Family{
	{
		Name: "model_router_sessions", Dotted: "model.router.sessions", Kind: metrics.KindGauge,
		Category: metrics.CategoryCustom, Unit: "sessions",
		Help: "Sessions of browsers that have not ended.",
	},
}
