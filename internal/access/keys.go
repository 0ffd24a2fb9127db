package access

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Keys returns the API keys of the configuration file, and then those that were
// issued, in that order.
func (c *Credentials) Keys() []Issued {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []Issued
	for _, key := range c.settings.Clone().Keys {
		listed := Issued{Key: key, Life: Life{Source: FromFile}}
		if record, ok := c.keys[key.ID]; ok && record.Static && record.KeySHA256 == key.KeySHA256 {
			listed.RevokedAt = record.RevokedAt
		}
		all = append(all, listed)
	}
	for _, key := range sortedByCreation(c.keys, func(i Issued) (time.Time, string) { return i.CreatedAt, i.ID }) {
		if c.staticKey(key.ID) == nil || !key.Static {
			all = append(all, key)
		}
	}
	return all
}

// staticKey returns a key of the configuration file, nil where it has none of
// that id.
func (c *Credentials) staticKey(id string) *Key {
	n := slices.IndexFunc(c.settings.Keys, func(key Key) bool { return key.ID == id })
	if n < 0 {
		return nil
	}
	return &c.settings.Keys[n]
}

// Check reports what is wrong with a key that is to be issued, by the names of
// its fields.
func (k Key) Check(report func(path, message string)) {
	checkName("id", k.ID, report)
	checkTenant("tenant", k.Tenant, report)
	k.Terms.check("", report)
}

// IssueKey makes a key with the id, tenant, scope and expiry that are asked for,
// and returns its text, which is kept nowhere. A key without an id gets one. The
// id of a revoked key may be used again. A dry run changes nothing and returns
// no text.
func (c *Credentials) IssueKey(ctx context.Context, wanted Key, by string, now time.Time, dryRun bool) (text string, issued Issued, err error) {
	if wanted.ID == "" {
		wanted.ID = generatedName("key-")
	}
	text, wanted.KeySHA256 = newSecret(keyPrefix)
	issued = Issued{Key: wanted, Life: Life{CreatedAt: now.UTC().Truncate(time.Second), CreatedBy: by, Source: FromIssue}}
	err = c.change(ctx, dryRun, func() (string, any, error) {
		before, taken := c.keys[wanted.ID]
		if c.staticKey(wanted.ID) != nil || taken && (before.Static || before.RevokedAt.IsZero()) {
			return "", nil, fmt.Errorf("the key %s %w", wanted.ID, ErrExists)
		}
		return keyKind + wanted.ID, issued, nil
	})
	if err != nil {
		return "", Issued{}, err
	}
	if dryRun {
		return "", issued, nil
	}
	return text, issued, nil
}

// RevokeKey makes a key useless, also one of the configuration file.
func (c *Credentials) RevokeKey(ctx context.Context, id, by string, now time.Time, dryRun bool) error {
	now = now.UTC().Truncate(time.Second)
	return c.change(ctx, dryRun, func() (string, any, error) {
		record, known := c.keys[id]
		if static := c.staticKey(id); static != nil {
			if known && record.Static && record.KeySHA256 == static.KeySHA256 {
				return "", nil, fmt.Errorf("the key %s %w", id, ErrRevoked)
			}
			return keyKind + id, Issued{Key: *static, Life: Life{CreatedAt: now, CreatedBy: by, RevokedAt: now, Static: true}}, nil
		}
		if err := refuseChange(known, record.KeySHA256, &record.Life); err != nil {
			return "", nil, fmt.Errorf("the key %s %w", id, err)
		}
		record.RevokedAt = now
		return keyKind + id, record, nil
	})
}

// refuseChange says why a credential that was issued cannot be changed, nil if it
// can.
func refuseChange(known bool, hash string, life *Life) error {
	if !known {
		return ErrUnknown
	}
	if hash == "" {
		return errUnreadable
	}
	if !life.RevokedAt.IsZero() {
		return ErrRevoked
	}
	return nil
}

// EditKey changes the tenant and the terms of a key that was issued; the edit gets the
// key as it is. Requests that run are not affected.
func (c *Credentials) EditKey(ctx context.Context, id string, edit func(Issued) (Key, error), dryRun bool) (edited Issued, err error) {
	err = c.change(ctx, dryRun, func() (string, any, error) {
		record, err := c.changeable(id)
		if err != nil {
			return "", nil, err
		}
		wanted, err := edit(record)
		if err != nil {
			return "", nil, err
		}
		record.Tenant, record.Terms = wanted.Tenant, wanted.Terms
		edited = record
		return keyKind + id, record, nil
	})
	return edited, err
}

// RotateKey gives a key that was issued a new text, which it returns. The text before it
// stays good for the overlap; one before that is useless from then on.
func (c *Credentials) RotateKey(ctx context.Context, id string, overlap time.Duration, now time.Time, dryRun bool) (text string, rotated Issued, err error) {
	text, hash := newSecret(keyPrefix)
	now = now.UTC().Truncate(time.Second)
	err = c.change(ctx, dryRun, func() (string, any, error) {
		record, err := c.changeable(id)
		if err != nil {
			return "", nil, err
		}
		record.PreviousSHA256, record.PreviousUntil = "", time.Time{}
		if overlap > 0 {
			record.PreviousSHA256, record.PreviousUntil = record.KeySHA256, now.Add(overlap)
		}
		record.KeySHA256, record.RotatedAt = hash, now
		rotated = record
		return keyKind + id, record, nil
	})
	if err != nil {
		return "", Issued{}, err
	}
	if dryRun {
		text = ""
	}
	return text, rotated, nil
}

// changeable returns a key that was issued and can be changed.
func (c *Credentials) changeable(id string) (Issued, error) {
	record, known := c.keys[id]
	if c.staticKey(id) != nil || record.Static {
		return Issued{}, fmt.Errorf("the key %s %w", id, ErrStatic)
	}
	if err := refuseChange(known, record.KeySHA256, &record.Life); err != nil {
		return Issued{}, fmt.Errorf("the key %s %w", id, err)
	}
	return record, nil
}

// newGuard makes the guard for the keys of the configuration and those issued.
func (c *Credentials) newGuard() *Guard {
	if !c.settings.Enabled || len(c.settings.Keys)+len(c.keys) == 0 {
		return nil
	}
	g := newGuard()
	grants := c.newCompiler()
	revoked := map[string]bool{}
	for _, key := range c.keys {
		if !key.RevokedAt.IsZero() {
			revoked[key.KeySHA256] = true
			continue
		}
		grant := grants.compile(key.Key)
		g.add(key.KeySHA256, grant)
		if key.PreviousSHA256 != "" {
			g.add(key.PreviousSHA256, grant.until(key.PreviousUntil))
		}
	}
	for _, key := range c.settings.Keys {
		if !revoked[key.KeySHA256] {
			g.add(key.KeySHA256, grants.compile(key))
		}
	}
	grants.end()
	return g
}
