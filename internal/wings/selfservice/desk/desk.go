// Package desk serves people who signed in: they see their own keys, usage, calls and refusals,
// and make keys within the bounds of package selfservice. The administrators of a team do the
// same for their tenant.
package desk

import (
	"net/http"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/wings/selfservice"
)

// desk answers the operations below /api/me and /api/team.
type desk struct{ core *wing.Core }

// New returns the wing of self-service.
func New(core *wing.Core) *wing.Wing {
	d := &desk{core}
	return &wing.Wing{Routes: d.routes, Open: func() error {
		if core.Sessions != nil {
			core.Credentials.SetPeople(access.People{Absence: d.settings().Absence.Length(), Seen: d.seen})
		}
		return nil
	}}
}

// seen returns the last sign-in of a person, and whether the person had left a tenant then.
func (d *desk) seen(who access.Owner, tenant string) (last time.Time, hasLeft bool) {
	person, known := d.core.Sessions.Person(who.Issuer, who.Subject)
	return person.LastSeen, known && person.Places != nil && person.In(tenant) == ""
}

func (d *desk) settings() *selfservice.Settings { return &d.core.Document.Security.SelfService }

// keys does with keys what the management API does.
func (d *desk) keys() *manage.API { return manage.New(manage.Options{Credentials: d.core.Credentials}) }

func (d *desk) routes() []web.Route {
	own, team := d.ownRoutes(), d.teamRoutes()
	for i := range own {
		own[i].Team = access.Member
	}
	for i := range team {
		team[i].Team = access.TeamAdmin
	}
	return append(own, team...)
}

func (d *desk) ownRoutes() []web.Route {
	tenant := func(r *http.Request, reply any) string { return d.keys().TenantOfKey(r, reply) }
	return web.Group("Self-service", access.ByMembership, access.ByMembership, tenant, []web.Route{
		{
			Pattern: "GET /api/me", Permission: access.ReadSelf, Does: web.Do(d.me),
			Summary: "You, your tenants, the models and terms of your keys, and how much of your budgets is used",
			Says:    "You.",
		},
		{
			Pattern: "GET /api/me/keys", Does: web.List(d.ownKeys),
			Summary: "The keys that you made, without the keys themselves", Says: "Your keys.",
		},
		{
			Pattern: "POST /api/me/keys",
			Does:    web.DoBody(d.makeOwnKey), Status: created,
			Summary: "Make a key for yourself; it is shown this once. It keeps the terms of your rule, of " +
				"security.self-service and of the tenant (else 400, which names the field and the terms)",
			Says: "The key was made. It is shown this once only.",
		},
		{
			Pattern: "POST /api/me/keys/{id}/rotate", Folds: true,
			Does:         web.DoBody(d.rotateOwnKey),
			BodyOptional: true,
			Summary: "Give a key of yours a new text, which is shown this once; the old one stays good for the " +
				"overlap",
		},
		{
			Pattern: "DELETE /api/me/keys/{id}", Takes: web.Always,
			Does:    web.Do(d.revokeOwnKey),
			Summary: "Revoke a key of yours at once",
		},
		{
			Pattern: "GET /api/me/calls", Does: web.DoWith(d.ownCalls),
			Summary: "The latest calls with your keys, refused ones included, with the reason", Says: "Your calls.",
		},
	})
}

func (d *desk) teamRoutes() []web.Route {
	return web.Group("Teams", access.ManageKeys, access.ManageKeys, nil, []web.Route{
		{
			Pattern: "GET /api/team/{tenant}", Permission: access.ReadTerms, Does: web.Do(d.team),
			Summary: "The tenant of a team: the models and terms of its keys, and how much of its budgets is used",
			Says:    "The team.",
		},
		{
			Pattern: "GET /api/team/{tenant}/keys", Does: web.List(d.teamKeys),
			Summary: "The keys of a team and of its members, without the keys themselves",
			Says:    "The keys of the team.",
		},
		{
			Pattern: "POST /api/team/{tenant}/keys", Does: web.DoBody(d.makeTeamKey),
			Summary: "Make a key of the team, which no absence puts to sleep; it is shown this once",
			Says:    "The key was made. It is shown this once only.", Status: created,
		},
		{
			Pattern: "PUT /api/team/{tenant}/keys/{id}", Does: web.Do(d.editTeamKey),
			Body: selfservice.AskedTerms{},
			Summary: "Change the given limits, budgets, expiry and scope of a key that the team or a member made, " +
				"within the terms of the tenant",
			Says: "The key was changed; requests from now on are held to it.",
		},
		{
			Pattern: "POST /api/team/{tenant}/keys/{id}/rotate",
			Does:    web.DoBody(d.rotateTeamKey), BodyOptional: true,
			Summary: "Give a key of the team a new text, which is shown this once; members rotate theirs themselves",
		},
		{
			Pattern: "DELETE /api/team/{tenant}/keys/{id}", Takes: web.Always,
			Does:    web.Do(d.revokeTeamKey),
			Summary: "Revoke a key of the tenant at once",
		},
		{
			Pattern: "GET /api/team/{tenant}/budgets", Permission: access.ReadTerms, Does: web.Do(d.teamBudgets),
			Summary: "The budgets of a team: the tenant's, those that the team set itself, and their use",
			Says:    "The budgets of the team.",
		},
		{
			Pattern: "PUT /api/team/{tenant}/budgets", Permission: access.WriteTerms,
			Does:    web.DoBody(d.setTeamBudgets),
			Summary: "Set budgets of the team below those of the tenant; both hold. Budgets that are left out end",
			Says:    "The budgets of the team were changed; requests from now on are held to them.",
		},
		{
			Pattern: "GET /api/team/{tenant}/members", Does: web.List(d.members),
			Summary: "The people with a role in the tenant, as of their last sign-in", Says: "The members of the team.",
		},
		{
			Pattern: "DELETE /api/team/{tenant}/members/{id}", Takes: web.Always,
			Does: web.Do(d.dismiss),
			Summary: "Revoke all keys that a person made for the tenant. Whether the person belongs to the tenant is " +
				"decided by the provider and security.oidc",
		},
		{
			Pattern: "GET /api/team/{tenant}/calls", Permission: access.ReadMetrics, Does: web.DoWith(d.teamCalls),
			Summary: "The latest calls of the tenant, refused ones included, with the reason",
			Says:    "The calls of the team.",
		},
	})
}
