package entry

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/wings/signin"
)

// A browser that goes to a provider carries what the gateway must know when it comes back: in a
// cookie that is encrypted, so the gateway keeps nothing of sign-ins that never end.

const (
	// flowCookie begins the name of that cookie. The state follows, so that tabs do not meet.
	flowCookie = "patchbay_signin_"
	flowPath   = "/auth/callback"
	// flowTime is how long a person may take at the provider.
	flowTime    = 10 * time.Minute
	secretBytes = 32
)

// flow is a sign-in that has begun.
type flow struct {
	signin.Challenge

	Provider string `json:"p"`
	To       string `json:"to"`
	Language string `json:"l,omitzero"`
	Began    int64  `json:"t"`
}

func newSecret() string {
	secret := make([]byte, secretBytes)
	_, _ = rand.Read(secret) // never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

// box returns the cipher of the cookies.
func (h *hall) box(ctx context.Context) (cipher.AEAD, error) {
	key, err := h.core.Credentials.SessionKey(ctx, "sign-ins")
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// cookieOf returns the name of the cookie of a sign-in.
func cookieOf(state string) string {
	const enough = 8
	return flowCookie + strings.Map(func(r rune) rune {
		if (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_' {
			return -1
		}
		return r
	}, state[:min(len(state), enough)])
}

// newCookie returns a cookie that the browser also sends when a provider sends it back.
func (h *hall) newCookie(r *http.Request, name, value string, age int) *http.Cookie {
	cookie := h.publicURL().NewCookie(r, name, value)
	cookie.MaxAge, cookie.SameSite = age, http.SameSiteLaxMode
	if !cookie.Secure { // the prefix of the name asks for the path /
		cookie.Path = flowPath
	}
	return cookie
}

func (h *hall) publicURL() web.PublicURL { return web.PublicURL(h.core.Document.Server.PublicURL) }

// find returns the provider with a name. Where there is one provider only, it needs no name.
func (h *hall) find(name string) *signin.Client {
	for _, p := range h.providers {
		if p.Name == name || name == "" && len(h.providers) == 1 {
			return p
		}
	}
	return nil
}

// login sends a browser to a provider.
func (h *hall) login(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	speak(w, r, query.Get("lang"))
	to := query.Get("to")
	if to == "" {
		to = "/"
	}
	p := h.find(query.Get("provider"))
	switch {
	case !isOwnPath(to):
		h.refuse(w, http.StatusBadRequest, say.New("signin.to"))
		return
	case p == nil:
		h.refuse(w, http.StatusNotFound, say.New("signin.provider"))
		return
	}
	f := flow{Challenge: signin.Challenge{State: newSecret(), Nonce: newSecret(), Verifier: newSecret()},
		Provider: p.Name, To: to, Language: w.Header().Get(languageHeader), Began: time.Now().Unix()}
	sum := sha256.Sum256([]byte(f.Verifier))
	address, err := p.Address(r.Context(), f.Challenge, base64.RawURLEncoding.EncodeToString(sum[:]))
	if err != nil {
		h.fail(w, p, err)
		return
	}
	text, err := h.seal(r.Context(), &f)
	if err != nil {
		h.fail(w, p, err)
		return
	}
	http.SetCookie(w, h.newCookie(r, cookieOf(f.State), text, int(flowTime/time.Second)))
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, address, http.StatusFound)
}

func (h *hall) seal(ctx context.Context, f *flow) (string, error) {
	box, err := h.box(ctx)
	if err != nil {
		return "", err
	}
	content, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, box.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(box.Seal(nonce, nonce, content, []byte(flowCookie))), nil
}

// open returns the sign-in that a browser comes back from.
func (h *hall) open(r *http.Request, state string) (*flow, error) {
	cookie, err := r.Cookie(h.publicURL().CookieName(r, cookieOf(state)))
	if state == "" || err != nil {
		return nil, say.Error("signin.state")
	}
	box, err := h.box(r.Context())
	if err != nil {
		return nil, err
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil || len(sealed) < box.NonceSize() {
		return nil, say.Error("signin.state")
	}
	content, err := box.Open(nil, sealed[:box.NonceSize()], sealed[box.NonceSize():], []byte(flowCookie))
	f := new(flow)
	if err != nil || json.Unmarshal(content, f) != nil || !hmac.Equal([]byte(f.State), []byte(state)) {
		return nil, say.Error("signin.state")
	}
	if time.Since(time.Unix(f.Began, 0)) > flowTime {
		return nil, say.Error("signin.slow")
	}
	return f, nil
}

// callback takes a browser back from a provider and begins the session of the person.
func (h *hall) callback(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	speak(w, r, "")
	f, err := h.open(r, query.Get("state"))
	if err != nil {
		h.deny(w, http.StatusBadRequest, err)
		return
	}
	speak(w, r, f.Language)
	http.SetCookie(w, h.newCookie(r, cookieOf(f.State), "", -1))
	p := h.find(f.Provider)
	switch {
	case p == nil:
		h.deny(w, http.StatusBadRequest, say.Error("signin.provider"))
		return
	case query.Get("iss") != "" && query.Get("iss") != p.Issuer:
		h.deny(w, http.StatusBadRequest, say.Error("token.issuer"))
		return
	case query.Get("error") != "":
		h.deny(w, http.StatusForbidden, say.Error("signin.refused", "error", web.Shorten(query.Get("error"))))
		return
	case query.Get("code") == "":
		h.deny(w, http.StatusBadRequest, say.Error("signin.state"))
		return
	}
	person, err := p.Identify(r.Context(), query.Get("code"), f.Challenge)
	if err != nil {
		h.fail(w, p, err)
		return
	}
	noteWho(w, "%s, subject %s, at %s", person.Name, web.Shorten(person.Subject), p.Name)
	who := p.Rights(signin.Restored(person.Claims))
	who.Name, who.Subject, who.Issuer = person.Name, person.Subject, p.Issuer
	if !who.Role.Valid() && len(who.Memberships) == 0 {
		web.ChangeOf(w).Who = who
		if err := h.core.Sessions.Left(r.Context(), p.Issuer, person.Subject); err != nil {
			h.core.Log.Error("a person without a role any more cannot be signed out now", "provider", p.Name,
				"who", person.Name, "error", err)
		}
		h.deny(w, http.StatusForbidden, say.Error("signin.no_rule", "name", person.Name, "provider", p.Name))
		return
	}
	if err := web.Intend(w, who); err != nil {
		h.core.SignIns.Failed.Add(1)
		h.refuse(w, http.StatusServiceUnavailable, say.From(err))
		return
	}
	if err := h.begin(w, r, p, person, who.Memberships); err != nil {
		h.core.Log.Error("a session cannot be begun", "provider", p.Name, "error", err)
		h.core.SignIns.Failed.Add(1)
		said := say.New("signin.not_kept")
		if errors.Is(err, sessions.ErrFull) {
			said = say.From(err)
		}
		h.refuse(w, http.StatusServiceUnavailable, said)
		return
	}
	h.core.SignIns.Accepted.Add(1)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, f.To, http.StatusSeeOther)
}

// begin keeps the session of a person and gives the browser its pass.
func (h *hall) begin(w http.ResponseWriter, r *http.Request, p *signin.Client, person *signin.Person,
	memberships []access.Membership) error {
	pass, id, err := h.core.Credentials.NewPass(r.Context())
	if err != nil {
		return err
	}
	now := time.Now()
	session := sessions.Session{ID: id, Name: person.Name, Provider: p.Name, Issuer: p.Issuer, Subject: person.Subject,
		Seat: person.Seat, Claims: person.Claims, Since: now,
		Until:   now.Add(h.core.Sessions.Life()).Truncate(time.Second),
		Address: web.ClientAddr(r, h.core.Document.Server.TrustedProxies).String()}
	session.Places = []sessions.Place{}
	for _, m := range memberships {
		session.Places = append(session.Places, sessions.Place{Tenant: m.Tenant, Role: m.Role.String()})
	}
	if err := h.core.Sessions.Begin(r.Context(), session); err != nil {
		return err
	}
	cookie := h.publicURL().NewCookie(r, web.SessionCookie, pass)
	cookie.Expires = session.Until
	http.SetCookie(w, cookie)
	return nil
}

// noteWho notes for the audit log who signed in.
func noteWho(w http.ResponseWriter, format string, args ...any) {
	web.ChangeOf(w).Summary = "sign-in of " + fmt.Sprintf(format, args...)
}

// deny shows a person why nobody is let in.
func (h *hall) deny(w http.ResponseWriter, status int, err error) {
	h.core.SignIns.Denied.Add(1)
	h.refuse(w, status, say.From(err))
}

// fail shows a person that the provider cannot be used now, or refuses the code, and logs why. A cause that is not
// a whole sentence is for the log alone.
func (h *hall) fail(w http.ResponseWriter, p *signin.Client, err error) {
	h.core.Log.Warn("a sign-in failed", "provider", p.Name, "error", err)
	if errors.Is(err, signin.ErrCode) {
		h.deny(w, http.StatusBadRequest, err)
		return
	}
	h.core.SignIns.Failed.Add(1)
	if !strings.HasSuffix(err.Error(), ".") {
		err = say.Error("signin.away")
	}
	h.refuse(w, http.StatusBadGateway, say.New("signin.failed", "provider", p.Name, "why", err))
}
