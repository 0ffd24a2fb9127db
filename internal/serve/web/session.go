package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/serve/access"
	"github.com/patchbay-ai/patchbay/internal/serve/access/sessions"
)

// NewSessionCookie returns the cookie of a session: out of the reach of scripts and
// of pages of other sites, and of anybody on the way where the way is encrypted.
func NewSessionCookie(r *http.Request, value string) *http.Cookie {
	return &http.Cookie{
		Name: SessionCookie, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"),
	}
}

// EndSession ends the session in the cookie of a call, and has the browser forget it. Without a
// session there is nothing to end. An error means that a copy of the cookie is good as before.
func EndSession(c *Call, roster *access.Roster, kept *sessions.Sessions) error {
	if cookie, missing := c.Request.Cookie(SessionCookie); missing == nil && roster != nil {
		now := time.Now()
		if id := roster.SessionOf(cookie.Value, now); id != "" {
			// A gateway of the release before may have begun it, with the life of that time.
			until := now.Add(max(kept.Life(), access.SessionLife))
			if err := kept.End(c.Context(), id, until); err != nil {
				return err
			}
		}
	}
	c.Cookie = NewSessionCookie(c.Request, "")
	c.Cookie.MaxAge = -1
	return nil
}
