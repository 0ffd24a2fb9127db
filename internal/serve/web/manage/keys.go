package manage

import (
	"cmp"
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
)

// KeyView is an API key as JSON. The key itself is shown once, when it is issued; the
// gateway stores only a hash.
type KeyView struct {
	ID         string        `json:"id"`
	Name       string        `json:"name,omitzero" doc:"The name that its owner or team gave it."`
	Owner      string        `json:"owner,omitzero" doc:"The person who made it for themselves."`
	Origin     access.Origin `json:"origin" enum:"file,management,team,self"`
	Tenant     string        `json:"tenant"`
	UserHeader string        `json:"userHeader,omitzero" doc:"The header trusted to name the user of a request."`
	access.Terms
	lifeView
	// PreviousUntil is the time until which the text before the last rotation is good.
	PreviousUntil time.Time `json:"previousUntil,omitzero"`
	RevokedAt     time.Time `json:"revokedAt,omitzero"`
	LastUsedAt    time.Time `json:"lastUsedAt,omitzero" doc:"On this gateway, since it started."`
	CallsToday    int64     `json:"callsToday" doc:"On this gateway, since it started; a day is one of UTC."`
	Key           string    `json:"key,omitzero" doc:"Only in the reply that issues or rotates it."`
	DryRun        bool      `json:"dryRun,omitzero"`
}

// Docs says more about some members than a tag has room for.
func (KeyView) Docs() map[string]string {
	return map[string]string{
		"origin": "How the key was made: by the configuration file, by management, or by self-service for a team " +
			"or a person. Administrators of a team change the last two only.",
	}
}

func (a *API) listKeys(c *web.Call) ([]KeyView, error) {
	return a.KeysOf(c, func(*access.IssuedKey) bool { return true }), nil
}

// KeysOf shows the keys that belong to a caller.
func (a *API) KeysOf(c *web.Call, belongs func(*access.IssuedKey) bool) (views []KeyView) {
	now := time.Now()
	for _, key := range a.options.Credentials.Keys.List() {
		if !belongs(&key) {
			continue
		}
		view := a.ViewKey(c, key, "", now)
		view.LastUsedAt, view.CallsToday = a.options.Credentials.Activity(key.ID, now)
		views = append(views, view)
	}
	return views
}

// ViewKey shows a key, and its text where it was just made.
func (a *API) ViewKey(c *web.Call, key access.IssuedKey, text string, now time.Time) KeyView {
	return KeyView{
		ID: key.ID, Name: key.Name, Owner: key.Owner.Name, Origin: cmp.Or(key.Origin, access.OriginManagement),
		Tenant: key.Tenant, UserHeader: key.UserHeader, Terms: key.Terms,
		lifeView:  viewLife(key.Life, a.options.Credentials.KeyStatus(key, now)),
		RevokedAt: key.RevokedAt, PreviousUntil: key.PreviousUntil, Key: text, DryRun: c.DryRun,
	}
}

// keyTerms are the members of a key that a caller sets when it is issued, and may change
// later.
type keyTerms struct {
	Tenant     string `json:"tenant" maxLength:"128" pattern:"^[^\\x00-\\x1f\\x7f-\\x9f]*$" doc:"At most 128 bytes."`
	UserHeader string `json:"userHeader" maxLength:"64"`
	access.Terms
}

// Docs says more about some members than a tag has room for.
func (keyTerms) Docs() map[string]string {
	return map[string]string{
		"userHeader": "A header of requests with this key that is trusted to name their user, such as " +
			"X-OpenWebUI-User-Email; it goes before 'user' of the body. Empty trusts none.",
	}
}

// Patterns describe the name of a header, in addition to the patterns of the terms.
func (t keyTerms) Patterns() map[string]string {
	patterns := t.Terms.Patterns()
	patterns["userHeader"] = access.UserHeaderPattern
	return patterns
}

func (t *keyTerms) key() access.Key {
	return access.Key{Tenant: t.Tenant, UserHeader: t.UserHeader, Terms: t.Terms}
}

// keyRequest is the body of a request to issue a key.
type keyRequest struct {
	ID string `json:"id" pattern:"^[A-Za-z0-9_.:-]*$" maxLength:"128" doc:"One is made where it is left out."`
	keyTerms
}

func (a *API) issueKey(c *web.Call, wanted *keyRequest) (KeyView, error) {
	now := time.Now()
	key := access.IssuedKey{Key: wanted.key(), Origin: access.OriginManagement}
	key.ID = wanted.ID
	if err := CheckCredential(key.Check, key.ExpiresAt, now); err != nil {
		return KeyView{}, err
	}
	text, issued, err := a.options.Credentials.Keys.Issue(c.Context(), key, ChangeAt(c, now))
	if !a.options.Credentials.Enforced() {
		c.Message += " Keys are not asked for while security.enabled is false."
	}
	TellCredential(c, "key", issued.ID, "issued")
	return a.ViewKey(c, issued, text, now), err
}

// problemsOf returns the reports of a check as config.Problems, nil if it reports nothing.
func problemsOf(check func(report say.Report)) error {
	var problems config.Problems
	check(func(path string, fault say.Sentence) {
		problems = append(problems, config.Problem{Path: path, Said: fault})
	})
	if len(problems) > 0 {
		return problems
	}
	return nil
}

func (a *API) editKey(c *web.Call) (KeyView, error) {
	now := time.Now()
	edited, err := a.options.Credentials.Keys.Edit(c.Context(), c.PathValue("id"), ChangeAt(c, now),
		func(before access.IssuedKey) (access.Key, error) {
			wanted := keyTerms{before.Tenant, before.UserHeader, settings.Clone(before.Terms)}
			if _, err := config.DecodeJSON(c.Content, &wanted); err != nil {
				return access.Key{}, err
			}
			key := wanted.key()
			if key.ExpiresAt == before.ExpiresAt {
				return key, problemsOf(key.Check) // an unchanged value may be in the past
			}
			return key, CheckCredential(key.Check, key.ExpiresAt, now)
		})
	TellCredential(c, "key", edited.ID, "changed")
	return a.ViewKey(c, edited, "", now), err
}

// RotationRequest is the body of a request to rotate a key.
type RotationRequest struct {
	Overlap schema.Duration `json:"overlap" maximum:"7776000000"`
}

// Docs says more about some members than a tag has room for.
func (RotationRequest) Docs() map[string]string {
	return map[string]string{
		"overlap": "How long the old text is good; a day if left out.",
	}
}

const (
	usualOverlap = 24 * time.Hour
	mostOverlap  = 90 * 24 * time.Hour
)

// SetDefaults sets the overlap for a request that does not name one.
func (r *RotationRequest) SetDefaults() { r.Overlap = schema.Duration(usualOverlap) }

// RotateKey gives the key in the path a new text.
func (a *API) RotateKey(c *web.Call, wanted *RotationRequest) (KeyView, error) {
	now := time.Now()
	if wanted.Overlap.Std() > mostOverlap || wanted.Overlap < 0 {
		return KeyView{}, web.BadInput("overlap", "field.overlap")
	}
	text, rotated, err := a.options.Credentials.Keys.Rotate(c.Context(), c.PathValue("id"), wanted.Overlap.Std(),
		ChangeAt(c, now))
	old := "refused from now on."
	if !rotated.PreviousUntil.IsZero() {
		old = "good until " + rotated.PreviousUntil.Format(time.RFC3339) + "."
	}
	c.Say("The key has a new text, which is shown this once only; the old one is %s", old)
	TellCredential(c, "key", rotated.ID, "rotated")
	return a.ViewKey(c, rotated, text, now), err
}

// enableKey enables the key in the path.
func (a *API) enableKey(c *web.Call) (KeyView, error) {
	now := time.Now()
	enabled, err := a.options.Credentials.Keys.Enable(c.Context(), c.PathValue("id"), ChangeAt(c, now))
	TellCredential(c, "key", enabled.ID, "enabled")
	return a.ViewKey(c, enabled, "", now), err
}

// RevokeKey revokes the key in the path.
func (a *API) RevokeKey(c *web.Call) (RevokedKey, error) {
	id := c.PathValue("id")
	changed, err := revokeCredential(c, "key", id, a.options.Credentials.Keys.Revoke)
	return RevokedKey{id, changed, c.DryRun}, err
}

// TenantOfKey is the web.Route.Concerns of operations on the key in the path.
func (a *API) TenantOfKey(r *http.Request, reply any) string {
	if view, ok := reply.(KeyView); ok {
		return view.Tenant
	}
	return a.options.Credentials.TenantOf(r.PathValue("id"))
}

// RevokedKey is the data of the reply to a revocation.
type RevokedKey struct {
	ID      string `json:"id"`
	Changed bool   `json:"changed"`
	DryRun  bool   `json:"dryRun,omitzero"`
}
