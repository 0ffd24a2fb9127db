package access

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
)

// Keys are the API keys of the unified API.
type Keys struct{ kind[IssuedKey, *IssuedKey] }

func newKeys(owner *Credentials) Keys {
	k := Keys{kind[IssuedKey, *IssuedKey]{owner: owner, word: "key", prefix: keyPrefix}}
	for _, key := range settings.Clone(owner.settings.Keys) {
		k.static = append(k.static, IssuedKey{Key: key, Origin: OriginFile, Life: Life{Source: FromFile}})
	}
	return k
}

// Check reports the faults of a key before it is issued, by the names of its fields.
func (k Key) Check(report say.Report) {
	checkName("id", k.ID, report)
	checkKeyID("id", k.ID, report)
	CheckTenant("tenant", k.Tenant, report)
	checkUserHeader("userHeader", k.UserHeader, report)
	k.Terms.CheckAt("", report)
}

// Edit changes all fields of a key that was issued, except its id and its text; the edit gets the key as
// it is. Requests that run are not affected.
func (k *Keys) Edit(ctx context.Context, id string, change Change,
	edit func(IssuedKey) (Key, error)) (edited IssuedKey, err error) {
	return k.edit(ctx, id, change, func(key *IssuedKey) error {
		wanted, err := edit(*key)
		wanted.ID, wanted.KeySHA256 = key.ID, key.KeySHA256
		key.Key = wanted
		return err
	})
}

// Rotate gives a key that was issued a new text, which it returns. The text before it
// stays good for the overlap; one before that is useless from then on.
func (k *Keys) Rotate(ctx context.Context, id string, overlap time.Duration,
	change Change) (text string, rotated IssuedKey, err error) {
	return k.rotate(ctx, id, change, func(key *IssuedKey) {
		key.PreviousSHA256, key.PreviousUntil = "", time.Time{}
		if overlap > 0 {
			key.PreviousSHA256, key.PreviousUntil = key.KeySHA256, change.at().Add(overlap)
		}
	})
}

// IssueOne issues a key under the first of some ids that no key has which is neither revoked nor
// expired. Keys of a person or a team that follow each other thus share their counts and
// budgets, and the number of records is bounded.
func (k *Keys) IssueOne(ctx context.Context, ids []string, wanted IssuedKey,
	change Change) (text string, issued IssuedKey, err error) {
	return k.issue(ctx, wanted, change, func() (string, error) {
		for _, id := range ids {
			before, taken := k.issued[id]
			if k.ofFile(id) == nil && (!taken || !before.Static && slices.Contains([]string{"REVOKED", "EXPIRED"},
				before.Status(change.At))) {
				return id, nil
			}
		}
		return "", say.Wrap(ErrExists, "manage.many_keys", "most", len(ids))
	})
}

// IsRemoved reports whether the key with an id and an issue no longer exists: it was
// revoked, its id was issued anew, or it left the configuration file. A key that has
// expired or was rotated still exists, and so does the subject of a token while its issuer is in
// the settings. Where keys are not required, or not known yet, none
// is removed.
func (c *Credentials) IsRemoved(id, issue string) bool {
	if c == nil || !c.settings.Enabled || !c.Known() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if issuer, isVisitor := issuerOf(id); isVisitor {
		return c.issuers == nil || !c.issuers.Has(issuer)
	}
	if found, ok := c.Keys.issued[id]; ok && (found.KeySHA256 == "" || found.DisabledBy != "") {
		return false // a newer release wrote it, or it may be enabled
	}
	for _, key := range c.Keys.inForce() {
		if key.ID != id {
			continue
		}
		if there, _ := key.issue(); there == issue {
			return false
		}
	}
	return true
}

// newGuard makes the guard for the keys of the configuration and the issued ones.
func (c *Credentials) newGuard() *Guard {
	isVacant := len(c.Keys.static)+len(c.Keys.issued) == 0 && c.issuers == nil
	if !c.settings.Enabled && c.book == nil || c.settings.AllowKeyless && isVacant {
		return nil
	}
	g := newGuard()
	g.disabled = c.Keys.disabled()
	g.isVacant, g.hasGuests = isVacant, !c.settings.Enabled
	grants := c.newCompiler()
	if c.issuers != nil {
		g.visitors = &visitors{owner: c, issuers: c.issuers, grants: grants,
			passes: map[[sha256.Size]byte]*Grant{}, by: map[string]int{}}
	}
	for _, key := range c.Keys.inForce() {
		grant := grants.compile(key.Key)
		grant.Issue, grant.Since = key.issue()
		grant.owner, grant.people = key.Owner, c.people
		g.add(key.KeySHA256, grant)
		g.byID[key.ID] = grant
		if key.PreviousSHA256 != "" {
			g.add(key.PreviousSHA256, grant.until(key.PreviousUntil))
		}
	}
	grants.end(c.isVisited)
	return g
}
