package signin

import (
	"context"
	"strings"
	"time"
	"unicode"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/serve/jwt"
)

const (
	// logoutEvent is the event that makes a token one of a back-channel logout.
	logoutEvent = "http://schemas.openid.net/event/backchannel-logout"
	// logoutAge is how old the token of a logout may be.
	logoutAge = 5 * time.Minute
)

// LoggedOut returns the subject or the session of a person that a provider has signed out, from the
// token with which it tells so. One of them may be empty.
func (c *Client) LoggedOut(ctx context.Context, token string) (subject, seat string, err error) {
	_, keys, err := c.Discover(ctx)
	if err != nil {
		return "", "", err
	}
	ctx, cancel := context.WithTimeout(ctx, stepTime)
	defer cancel()
	now := time.Now()
	claims, err := keys.Verify(ctx, token, jwt.Expected{Issuer: c.Issuer, Audience: []string{c.ClientID},
		NoSubject: true}, now)
	if err != nil {
		return "", "", err
	}
	events, _ := claims["events"].(map[string]any)
	_, isLogout := events[logoutEvent].(map[string]any)
	_, hasNonce := claims["nonce"] // an id token has one, a token of a logout never
	if !isLogout || hasNonce {
		return "", "", say.Error("signin.no_logout")
	}
	if issued, _ := claims["iat"].(float64); now.Sub(time.Unix(int64(issued), 0)) > logoutAge {
		return "", "", say.Error("token.expired")
	}
	seat, _ = claims["sid"].(string)
	if subject = claims.Subject(); subject == "" && seat == "" {
		return "", "", say.Error("token.lacks", "claim", "sub")
	}
	return subject, seat, nil
}

// nameOf returns the name of a person for people to read.
func nameOf(sources []jwt.Claims) string {
	for _, claim := range []string{"name", "preferred_username", "email", "sub"} {
		for _, claims := range sources {
			if name, _ := claims.Verified(false)[claim].(string); strings.TrimSpace(name) != "" {
				return shorten(strings.TrimSpace(name))
			}
		}
	}
	return ""
}

// shorten returns a text of a provider that can be shown and logged.
func shorten(text string) string {
	const most = 128
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most])
	}
	return text
}
