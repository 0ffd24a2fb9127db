package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/sessions"
)

// SessionCookie is the name of the cookie for the session of a browser, over http.
const SessionCookie = "patchbay_session"

// PublicURL is the address by which people know the gateway (server.public-url), empty if it is not set.
type PublicURL string

// IsSecure reports whether a browser sent a request over https.
func (u PublicURL) IsSecure(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") ||
		strings.HasPrefix(strings.ToLower(string(u)), "https:")
}

// CookieName returns the name that a cookie has for a request. Over https it has a prefix, with which
// browsers take the cookie from this very host only, and not from one with the same parent domain.
func (u PublicURL) CookieName(r *http.Request, name string) string {
	if u.IsSecure(r) {
		return "__Host-" + name
	}
	return name
}

// NewCookie returns a cookie that scripts cannot read, and that is sent only over https if the request came over it.
func (u PublicURL) NewCookie(r *http.Request, name, value string) *http.Cookie {
	return &http.Cookie{
		Name: u.CookieName(r, name), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: u.IsSecure(r),
	}
}

// session returns the session in the cookie of a request, empty if there is none.
func (u PublicURL) session(r *http.Request) string {
	cookie, err := r.Cookie(u.CookieName(r, SessionCookie))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// EndSession ends the session in the cookie of a call, and has the browser forget it. Without a
// session there is nothing to end. An error means that a copy of the cookie is good as before.
func (u PublicURL) EndSession(c *Call, roster *access.Roster, kept *sessions.Sessions) error {
	if session := u.session(c.Request); session != "" && roster != nil {
		now := time.Now()
		if id := roster.SessionOf(session, now); id != "" {
			// It may have begun with another life, before a change of the settings.
			until := now.Add(max(kept.Life(), access.SessionLife))
			if err := kept.End(c.Context(), id, until); err != nil {
				return err
			}
		}
	}
	c.Cookie = u.NewCookie(c.Request, SessionCookie, "")
	c.Cookie.MaxAge = -1
	return nil
}
