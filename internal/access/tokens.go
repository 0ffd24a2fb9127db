package access

import (
	"context"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// Tokens are the tokens of the management API.
type Tokens struct {
	kind[IssuedToken, *IssuedToken]
}

func newTokens(owner *Credentials) Tokens {
	t := Tokens{kind[IssuedToken, *IssuedToken]{owner: owner, word: "token", prefix: tokenPrefix}}
	for _, token := range owner.settings.Tokens {
		t.static = append(t.static, IssuedToken{Token: token, Life: Life{Source: FromFile}})
	}
	return t
}

// Check reports the faults of a token before it is issued, by the names of its fields.
func (i IssuedToken) Check(report say.Report) {
	checkName("name", i.Name, report)
	if !i.Role.Valid() {
		report("role", say.New("field.role"))
	}
	checkExpiry("", i.ExpiresAt, report)
}

// Rotate gives an issued token a new text and returns it; the old text is useless from then
// on.
func (t *Tokens) Rotate(ctx context.Context, name string, change Change) (text string, rotated IssuedToken, err error) {
	return t.rotate(ctx, name, change, func(token *IssuedToken) { token.IsUnsigned = false })
}

// Edit changes role and expiry of an issued token, at once. edit gets the token with the role
// that is in force.
func (t *Tokens) Edit(ctx context.Context, name string, change Change,
	edit func(*IssuedToken) error) (edited IssuedToken, err error) {
	return t.edit(ctx, name, change, func(token *IssuedToken) error {
		token.Role, token.IsUnsigned = token.RoleInForce(), false
		return edit(token)
	})
}

// markUnsigned notes whether the token of a stored value is not signed.
func (t *Tokens) markUnsigned(stored string, isUnsigned bool) {
	name := strings.TrimPrefix(stored, t.storedName(""))
	if token, known := t.issued[name]; known {
		token.IsUnsigned = isUnsigned
		t.issued[name] = token
	}
}

// newRoster makes the roster for the tokens of the configuration and the issued ones; it is
// nil when management is open.
func (c *Credentials) newRoster() *Roster {
	if !c.settings.Enabled {
		return nil
	}
	r := newRoster(c.session.key)
	r.disabled = c.Tokens.disabled()
	for _, token := range c.Tokens.inForce() {
		valid := token.Token
		valid.Role = token.RoleInForce()
		r.add(valid, token.ExpiresAt)
	}
	return r
}
