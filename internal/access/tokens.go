package access

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Tokens returns the management tokens of the configuration file, and then those
// that were issued, in that order.
func (c *Credentials) Tokens() []IssuedToken {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []IssuedToken
	for _, token := range c.settings.Tokens {
		listed := IssuedToken{Token: token, Life: Life{Source: FromFile}}
		if record, ok := c.tokens[token.Name]; ok && record.Static && record.TokenSHA256 == token.TokenSHA256 {
			listed.RevokedAt = record.RevokedAt
		}
		all = append(all, listed)
	}
	for _, token := range sortedByCreation(c.tokens, func(i IssuedToken) (time.Time, string) { return i.CreatedAt, i.Name }) {
		if c.staticToken(token.Name) == nil || !token.Static {
			all = append(all, token)
		}
	}
	return all
}

// staticToken returns a token of the configuration file, nil where it has none
// of that name.
func (c *Credentials) staticToken(name string) *Token {
	n := slices.IndexFunc(c.settings.Tokens, func(token Token) bool { return token.Name == name })
	if n < 0 {
		return nil
	}
	return &c.settings.Tokens[n]
}

// Check reports what is wrong with a token that is to be issued, by the names of
// its fields.
func (i IssuedToken) Check(report func(path, message string)) {
	checkName("name", i.Name, report)
	if !i.Role.Valid() {
		report("role", "is required (ADMIN, OPERATOR or VIEWER)")
	}
	checkExpiry("", i.ExpiresAt, report)
}

// IssueToken makes a management token with the name, role and expiry that are
// asked for, and returns its text, which is kept nowhere. A token without a name
// gets one. The name of a revoked token may be used again. A dry run changes
// nothing and returns no text.
func (c *Credentials) IssueToken(ctx context.Context, wanted IssuedToken, by string, now time.Time, dryRun bool) (text string, issued IssuedToken, err error) {
	if wanted.Name == "" {
		wanted.Name = generatedName("token-")
	}
	text, wanted.TokenSHA256 = newSecret(tokenPrefix)
	wanted.Life = Life{CreatedAt: now.UTC().Truncate(time.Second), CreatedBy: by, Source: FromIssue}
	err = c.change(ctx, dryRun, func() (string, any, error) {
		before, taken := c.tokens[wanted.Name]
		if c.staticToken(wanted.Name) != nil || taken && (before.Static || before.RevokedAt.IsZero()) {
			return "", nil, fmt.Errorf("the token %s %w", wanted.Name, ErrExists)
		}
		return tokenKind + wanted.Name, wanted, nil
	})
	if err != nil {
		return "", IssuedToken{}, err
	}
	if dryRun {
		return "", wanted, nil
	}
	return text, wanted, nil
}

// RotateToken gives a token that was issued a new text, which it returns; the
// old one is useless from then on.
func (c *Credentials) RotateToken(ctx context.Context, name string, now time.Time, dryRun bool) (text string, rotated IssuedToken, err error) {
	text, hash := newSecret(tokenPrefix)
	err = c.change(ctx, dryRun, func() (string, any, error) {
		record, known := c.tokens[name]
		if c.staticToken(name) != nil || record.Static {
			return "", nil, fmt.Errorf("the token %s %w", name, ErrStatic)
		}
		if err := refuseChange(known, record.TokenSHA256, &record.Life); err != nil {
			return "", nil, fmt.Errorf("the token %s %w", name, err)
		}
		rotated = record
		rotated.TokenSHA256, rotated.RotatedAt = hash, now.UTC().Truncate(time.Second)
		return tokenKind + name, rotated, nil
	})
	if err != nil {
		return "", IssuedToken{}, err
	}
	if dryRun {
		return "", rotated, nil
	}
	return text, rotated, nil
}

// RevokeToken makes a token useless, also one of the configuration file.
func (c *Credentials) RevokeToken(ctx context.Context, name, by string, now time.Time, dryRun bool) error {
	now = now.UTC().Truncate(time.Second)
	return c.change(ctx, dryRun, func() (string, any, error) {
		record, known := c.tokens[name]
		if static := c.staticToken(name); static != nil {
			if known && record.Static && record.TokenSHA256 == static.TokenSHA256 {
				return "", nil, fmt.Errorf("the token %s %w", name, ErrRevoked)
			}
			return tokenKind + name, IssuedToken{Token: *static, Life: Life{CreatedAt: now, CreatedBy: by, RevokedAt: now, Static: true}}, nil
		}
		if err := refuseChange(known, record.TokenSHA256, &record.Life); err != nil {
			return "", nil, fmt.Errorf("the token %s %w", name, err)
		}
		record.RevokedAt = now
		return tokenKind + name, record, nil
	})
}

// newRoster makes the roster for the tokens of the configuration and those
// issued; it is nil when management is open.
func (c *Credentials) newRoster() *Roster {
	if !c.settings.Enabled {
		return nil
	}
	r := newRoster(c.sessionKey)
	revoked := map[string]bool{}
	for _, token := range c.tokens {
		if !token.RevokedAt.IsZero() {
			revoked[token.TokenSHA256] = true
			continue
		}
		r.add(token.Token, token.ExpiresAt)
	}
	for _, token := range c.settings.Tokens {
		if !revoked[token.TokenSHA256] {
			r.add(token, "")
		}
	}
	return r
}
