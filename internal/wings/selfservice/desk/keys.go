package desk

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
	"github.com/patchbay-ai/patchbay/internal/wings/selfservice"
)

const created = http.StatusCreated

// maxTeamKeys bounds the keys that a team has at a time, beside those of its members.
const maxTeamKeys = 1000

// teamWish is the body of a request to make a key of a team.
type teamWish struct {
	Name string `json:"name" maxLength:"128" doc:"A name for people; at most 128 bytes."`
	selfservice.AskedTerms
}

// wish is the body of a request to make a key for oneself.
type wish struct {
	teamWish
	Tenant string `json:"tenant" maxLength:"128"`
}

// Docs says more about some members than a tag has room for.
func (w wish) Docs() map[string]string {
	docs := w.AskedTerms.Docs()
	docs["tenant"] = "The tenant that the key belongs to; it may be left out by a member of one."
	return docs
}

func (d *desk) isOwn(c *web.Call) func(*access.IssuedKey) bool {
	id := c.Who.Owner().ID()
	return func(key *access.IssuedKey) bool { return key.Owner.IsSet() && key.Owner.ID() == id }
}

func isOfTenant(c *web.Call) func(*access.IssuedKey) bool {
	tenant := c.PathValue("tenant")
	return func(key *access.IssuedKey) bool { return key.Tenant == tenant }
}

func (d *desk) ownKeys(c *web.Call) ([]manage.KeyView, error) {
	return d.keys().KeysOf(c, d.isOwn(c)), nil
}

func (d *desk) teamKeys(c *web.Call) ([]manage.KeyView, error) {
	return d.keys().KeysOf(c, isOfTenant(c)), nil
}

// membership returns the membership for which a person makes a key.
func membership(c *web.Call, tenant string) (access.Membership, error) {
	if tenant == "" && len(c.Who.Memberships) == 1 {
		return c.Who.Memberships[0], nil
	}
	if found := c.Who.In(tenant); found.Role.Valid() {
		return found, nil
	}
	return access.Membership{}, web.BadInput("tenant",
		"field.which_tenant", "known", strings.Join(c.Scope.Tenants, ", "))
}

func (d *desk) makeOwnKey(c *web.Call, wanted *wish) (manage.KeyView, error) {
	member, err := membership(c, wanted.Tenant)
	if err != nil {
		return manage.KeyView{}, err
	}
	key := access.IssuedKey{Key: access.Key{Tenant: member.Tenant}, Name: wanted.Name, Owner: c.Who.Owner(),
		Origin: access.OriginSelf}
	now := time.Now()
	ids := idsOf("me-"+key.Owner.ID(), d.settings().Keys)
	return d.issue(c, key, wanted.Over(access.Terms{}), d.bounds(member, now), ids, now)
}

func (d *desk) makeTeamKey(c *web.Call, wanted *teamWish) (manage.KeyView, error) {
	tenant, now := c.PathValue("tenant"), time.Now()
	sum := sha256.Sum256([]byte(tenant))
	key := access.IssuedKey{Key: access.Key{Tenant: tenant}, Name: wanted.Name, Origin: access.OriginTeam}
	ids := idsOf("team-"+hex.EncodeToString(sum[:8]), maxTeamKeys)
	return d.issue(c, key, wanted.Over(access.Terms{}), d.teamBounds(c, now), ids, now)
}

// idsOf returns the ids that the keys of a person or a team may have.
func idsOf(prefix string, count int) []string {
	ids := make([]string, count)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%d", prefix, i+1)
	}
	return ids
}

// bounds returns the bounds of a key that a member makes now.
func (d *desk) bounds(member access.Membership, now time.Time) []selfservice.Bound {
	terms, _, _ := d.core.Control.Terms()
	return d.settings().Bounds(member, terms, now)
}

// teamBounds returns the bounds of the keys of the team in the path. An administrator of the
// gateway is bound by the terms of the tenant alone.
func (d *desk) teamBounds(c *web.Call, now time.Time) []selfservice.Bound {
	tenant := c.PathValue("tenant")
	if !c.Scope.All {
		return d.bounds(c.Who.In(tenant), now)
	}
	terms, _, _ := d.core.Control.Terms()
	return selfservice.TenantBounds(tenant, terms)
}

// issue makes a key with the first free one of some ids.
func (d *desk) issue(c *web.Call, key access.IssuedKey, wanted access.Terms, bounds []selfservice.Bound, ids []string,
	now time.Time) (manage.KeyView, error) {
	err := manage.CheckCredential(func(report say.Report) {
		if len(key.Name) > 128 || !utf8.ValidString(key.Name) || strings.ContainsFunc(key.Name, unicode.IsControl) {
			report("name", say.New("field.label"))
		}
		key.Terms = selfservice.Narrow(wanted, bounds, report)
		key.Check(report)
	}, wanted.ExpiresAt, now)
	if err != nil {
		return manage.KeyView{}, err
	}
	text, issued, err := d.core.Credentials.Keys.IssueOne(c.Context(), ids, key, manage.ChangeAt(c, now))
	manage.TellCredential(c, "key", issued.ID, "issued")
	return d.keys().ViewKey(c, issued, text, now), err
}

func (d *desk) editTeamKey(c *web.Call) (manage.KeyView, error) {
	now := time.Now()
	if _, err := d.findChangeable(c); err != nil {
		return manage.KeyView{}, err
	}
	bounds := d.teamBounds(c, now)
	edited, err := d.core.Credentials.Keys.Edit(c.Context(), c.PathValue("id"), manage.ChangeAt(c, now),
		func(before access.IssuedKey) (access.Key, error) {
			fields := selfservice.AskedOf(settings.Clone(before.Terms))
			if _, err := config.DecodeJSON(c.Content, &fields); err != nil {
				return access.Key{}, err
			}
			wanted := fields.Over(access.Terms{})
			key := before.Key
			expiry := wanted.ExpiresAt
			if expiry == before.ExpiresAt {
				expiry = "" // an unchanged value may be in the past
			}
			return key, manage.CheckCredential(func(report say.Report) {
				key.Terms = selfservice.Change(before.Terms, wanted, bounds, report)
				key.Check(report)
			}, expiry, now)
		})
	manage.TellCredential(c, "key", edited.ID, "changed")
	return d.keys().ViewKey(c, edited, "", now), err
}

// find returns the key with the id in the path. A key that does not belong to the caller is not
// found, like one that does not exist.
func (d *desk) find(c *web.Call, belongs func(*access.IssuedKey) bool) (access.IssuedKey, error) {
	id := c.PathValue("id")
	for _, key := range d.core.Credentials.Keys.List() {
		if key.ID == id && belongs(&key) {
			return key, nil
		}
	}
	return access.IssuedKey{}, web.NotFound(say.New("manage.unknown_key", "name", web.Shorten(id)).About("id"))
}

// findChangeable returns the key of the tenant with the id in the path. Administrators of a team may
// neither edit nor rotate a key that an administrator of the gateway made: its terms may be wider than
// those of the tenant, and its text would make them the team administrator's.
func (d *desk) findChangeable(c *web.Call) (access.IssuedKey, error) {
	key, err := d.find(c, isOfTenant(c))
	if err == nil && !c.Scope.All && !key.Origin.IsSelfService() {
		err = &web.RequestError{Status: http.StatusForbidden, Why: say.New("manage.gateways_key")}
	}
	return key, err
}

func (d *desk) rotateOwnKey(c *web.Call, wanted *manage.RotationRequest) (manage.KeyView, error) {
	if _, err := d.find(c, d.isOwn(c)); err != nil {
		return manage.KeyView{}, err
	}
	return d.keys().RotateKey(c, wanted)
}

func (d *desk) rotateTeamKey(c *web.Call, wanted *manage.RotationRequest) (manage.KeyView, error) {
	key, err := d.findChangeable(c)
	if err == nil && key.Owner.IsSet() && key.Owner.ID() != c.Who.Owner().ID() {
		// With the new text one could act as somebody else.
		err = &web.RequestError{Status: http.StatusForbidden, Why: say.New("manage.others_key")}
	}
	if err != nil {
		return manage.KeyView{}, err
	}
	return d.keys().RotateKey(c, wanted)
}

func (d *desk) revokeOwnKey(c *web.Call) (manage.RevokedKey, error) { return d.revoke(c, d.isOwn(c)) }

func (d *desk) revokeTeamKey(c *web.Call) (manage.RevokedKey, error) {
	return d.revoke(c, isOfTenant(c))
}

func (d *desk) revoke(c *web.Call, belongs func(*access.IssuedKey) bool) (manage.RevokedKey, error) {
	if _, err := d.find(c, belongs); err != nil {
		return manage.RevokedKey{}, err
	}
	return d.keys().RevokeKey(c)
}
