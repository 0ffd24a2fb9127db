package desk

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/access/sessions"
	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/serve/web"
	"github.com/patchbay-ai/patchbay/internal/serve/web/manage"
	"github.com/patchbay-ai/patchbay/internal/serve/web/monitor"
	"github.com/patchbay-ai/patchbay/internal/wings/selfservice"
)

// meView describes the sender of a request and what self-service offers.
type meView struct {
	Name    string `json:"name"`
	Issuer  string `json:"issuer,omitzero"`
	Subject string `json:"subject,omitzero"`
	Role    string `json:"role,omitzero" doc:"The role in the whole gateway, where there is one."`
	// Tenants are the tenants for which the person may make keys.
	Tenants     []placeView        `json:"tenants"`
	MostKeys    int                `json:"mostKeys" doc:"How many keys you may have at a time."`
	LongestLife string             `json:"longestLife" doc:"After which a key expires."`
	Absence     string             `json:"absence"`
	Budgets     monitor.BudgetUses `json:"budgets" doc:"Those of your keys and tenants."`
}

// Docs says more about some members than a tag has room for.
func (meView) Docs() map[string]string {
	return map[string]string{
		"absence": "Your keys sleep when you have not signed in for so long.",
	}
}

// placeView is a tenant of a person.
type placeView struct {
	Tenant string                 `json:"tenant"`
	Role   access.TeamRole        `json:"role,omitzero"`
	Models []modelView            `json:"models" doc:"The models that keys may use."`
	Terms  selfservice.AskedTerms `json:"terms" doc:"Those of a key for which nothing is asked."`
}

type modelView struct {
	ID      string             `json:"id"`
	Service schema.ServiceType `json:"service"`
}

func (d *desk) me(c *web.Call) (meView, error) {
	s := d.settings()
	view := meView{
		Name: c.Who.Name, Issuer: c.Who.Issuer, Subject: c.Who.Subject, Role: c.Who.Role.String(),
		Tenants: []placeView{}, MostKeys: s.Keys, LongestLife: s.LongestLife.String(), Absence: s.Absence.String(),
	}
	accounts := map[string]bool{}
	now := time.Now()
	for _, member := range c.Who.Memberships {
		view.Tenants = append(view.Tenants, d.place(member.Tenant, member.Role, d.bounds(member, now)))
		accounts[allowance.TenantName(member.Tenant)] = true
	}
	for _, key := range d.keys().KeysOf(c, d.isOwn(c)) {
		accounts[allowance.KeyName(key.ID)] = true
	}
	view.Budgets = d.budgetsOf(accounts)
	return view, nil
}

// place describes a tenant with the bounds of its keys.
func (d *desk) place(tenant string, role access.TeamRole, bounds []selfservice.Bound) placeView {
	terms := selfservice.Narrow(access.Terms{}, bounds, func(string, say.Sentence) {})
	view := placeView{Tenant: tenant, Role: role, Models: []modelView{}, Terms: selfservice.AskedOf(terms)}
	for _, m := range d.core.Current.Load().Entries() {
		isAllowed := func(b selfservice.Bound) bool {
			return b.Terms.Includes(m.Service, m.ID) || m.Target != "" && b.Terms.Includes(m.Service, m.Target)
		}
		if !slices.ContainsFunc(bounds, func(b selfservice.Bound) bool { return !isAllowed(b) }) {
			view.Models = append(view.Models, modelView{m.ID, m.Service})
		}
	}
	return view
}

func (d *desk) budgetsOf(accounts map[string]bool) monitor.BudgetUses {
	doc, _ := d.core.Control.Document()
	return monitor.ViewBudgets(d.core.Budgets(), doc.Prices.Currency, func(of string) bool { return accounts[of] })
}

// callsQuery chooses calls; the filters are compared whole.
type callsQuery struct {
	Limit     int            `json:"limit" empty:"true" minimum:"1" doc:"100 if left out."`
	Cursor    monitor.Cursor `json:"cursor" empty:"true" want:"field.cursor" doc:"The member next of a page."`
	After     monitor.Cursor `json:"after" empty:"true" want:"field.cursor" doc:"The member latest of a page."`
	From      time.Time      `json:"from" empty:"true" doc:"Only calls that began then or later."`
	To        time.Time      `json:"to" empty:"true" doc:"Only calls that began before then."`
	Service   string         `json:"service"`
	Asked     string         `json:"asked" doc:"The name of a model that the caller gave."`
	Outcome   monitor.Ending `json:"outcome"`
	RequestID string         `json:"requestId"`
	ErrorCode string         `json:"errorCode"`
	KeyID     string         `json:"keyId"`
}

// Docs says more about some members than a tag has room for.
func (callsQuery) Docs() map[string]string {
	return map[string]string{
		"outcome": "failed: not answered, for whatever reason, unless the caller left. refused: by a rule, such as a " +
			"limit or a budget.",
	}
}

func (d *desk) ownCalls(c *web.Call, q *callsQuery) (monitor.CallList, error) {
	own := map[string]bool{}
	for _, key := range d.keys().KeysOf(c, d.isOwn(c)) {
		own[key.ID] = true
	}
	return d.calls(c, q, func(call *calls.Record) bool { return own[call.KeyID] })
}

func (d *desk) teamCalls(c *web.Call, q *callsQuery) (monitor.CallList, error) {
	tenant := c.PathValue("tenant")
	return d.calls(c, q, func(call *calls.Record) bool { return call.Tenant == tenant })
}

// calls returns a page of calls, without the instances behind the gateway.
func (d *desk) calls(c *web.Call, q *callsQuery, belongs func(*calls.Record) bool) (monitor.CallList, error) {
	page, err := monitor.Search(c, d.core.Recorder, &monitor.CallsQuery{Limit: q.Limit, Cursor: q.Cursor,
		After: q.After, From: q.From, To: q.To, Service: q.Service, Asked: q.Asked, Outcome: q.Outcome,
		RequestID: q.RequestID, ErrorCode: q.ErrorCode, KeyID: q.KeyID}, belongs)
	for i := range page.Calls {
		page.Calls[i].HideHosts()
	}
	return page, err
}

// teamView is the tenant of a team.
type teamView struct {
	placeView
	Budgets monitor.BudgetUses `json:"budgets" doc:"Those of the tenant."`
}

func (d *desk) team(c *web.Call) (teamView, error) {
	tenant := c.PathValue("tenant")
	return teamView{d.place(tenant, c.Who.In(tenant).Role, d.teamBounds(c, time.Now())),
		d.budgetsOf(map[string]bool{allowance.TenantName(tenant): true})}, nil
}

// teamBudgetsView are the budgets of a team.
type teamBudgetsView struct {
	Tenant budget.Budgets     `json:"tenant" doc:"Those of the tenant's terms."`
	Team   budget.Budgets     `json:"team" doc:"Those that the team set itself."`
	Uses   monitor.BudgetUses `json:"uses" doc:"Of the tenant and of its keys."`
	DryRun bool               `json:"dryRun,omitzero"`
}

func (d *desk) teamBudgets(c *web.Call) (teamBudgetsView, error) {
	tenant := c.PathValue("tenant")
	accounts := map[string]bool{allowance.TenantName(tenant): true}
	for _, key := range d.keys().KeysOf(c, isOfTenant(c)) {
		accounts[allowance.KeyName(key.ID)] = true
	}
	view := teamBudgetsView{Team: d.core.Credentials.Team(tenant).Budgets, Uses: d.budgetsOf(accounts)}
	if terms, _, _ := d.core.Control.Terms(); terms.Tenant(tenant) >= 0 {
		view.Tenant = terms.Tenants[terms.Tenant(tenant)].Budgets
	}
	return view, nil
}

// teamBudgetsRequest is the body of a request to set the budgets of a team.
type teamBudgetsRequest struct {
	Budgets budget.Budgets `json:"budgets" required:"true"`
}

func (d *desk) setTeamBudgets(c *web.Call, wanted *teamBudgetsRequest) (teamBudgetsView, error) {
	tenant := c.PathValue("tenant")
	terms, _, _ := d.core.Control.Terms()
	err := manage.CheckCredential(func(report say.Report) {
		asked := access.Terms{Budgets: wanted.Budgets}
		asked.CheckAt("", report)
		selfservice.Narrow(asked, selfservice.TenantBounds(tenant, terms), report)
	}, "", time.Now())
	if err == nil {
		err = d.core.Credentials.SetTeam(c.Context(), access.Team{Tenant: tenant, Budgets: wanted.Budgets},
			manage.ChangeAt(c, time.Now()))
	}
	if err != nil {
		return teamBudgetsView{}, err
	}
	c.Done("budgets of team %s changed", tenant)
	view, err := d.teamBudgets(c)
	if view.DryRun = c.DryRun; c.DryRun {
		view.Team = wanted.Budgets
		c.Say("Dry run: these would be the budgets of the team; nothing was changed.")
	}
	return view, err
}

// memberView is a person with a role in a tenant.
type memberView struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Issuer     string    `json:"issuer"`
	Subject    string    `json:"subject"`
	Role       string    `json:"role" enum:"MEMBER,TEAM_ADMIN"`
	SignedInAt time.Time `json:"signedInAt" doc:"The last time."`
	Keys       int       `json:"keys" doc:"The keys of the tenant that the person made and that are not revoked."`
}

func (d *desk) members(c *web.Call) (views []memberView, err error) {
	tenant := c.PathValue("tenant")
	keys := map[string]int{}
	for _, key := range d.core.Credentials.Keys.List() {
		if key.Tenant == tenant && key.RevokedAt.IsZero() {
			keys[key.Owner.ID()]++
		}
	}
	for _, person := range d.people() {
		if role := person.In(tenant); role != "" {
			id := ownerOf(person).ID()
			views = append(views, memberView{id, person.Name, person.Issuer, person.Subject, role,
				person.LastSeen, keys[id]})
		}
	}
	slices.SortFunc(views, func(a, b memberView) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return views, nil
}

// people returns everybody who has signed in lately.
func (d *desk) people() []sessions.Person {
	if d.core.Sessions == nil {
		return nil
	}
	return d.core.Sessions.People()
}

func ownerOf(p sessions.Person) access.Owner {
	return access.Owner{Issuer: p.Issuer, Subject: p.Subject, Name: p.Name}
}

// dismissal is the data of the reply to a revocation of all keys of a person.
type dismissal struct {
	ID      string `json:"id"`
	Revoked int    `json:"revoked" doc:"How many keys were revoked."`
	DryRun  bool   `json:"dryRun,omitzero"`
}

func (d *desk) dismiss(c *web.Call) (dismissal, error) {
	tenant, id := c.PathValue("tenant"), c.PathValue("id")
	done := dismissal{ID: id, DryRun: c.DryRun}
	isKnown := slices.ContainsFunc(d.people(), func(p sessions.Person) bool {
		return ownerOf(p).ID() == id && p.In(tenant) != ""
	})
	for _, key := range d.core.Credentials.Keys.List() {
		if key.Tenant != tenant || !key.Owner.IsSet() || key.Owner.ID() != id {
			continue
		}
		isKnown = true
		err := d.core.Credentials.Keys.Revoke(c.Context(), key.ID, manage.ChangeAt(c, time.Now()))
		if err != nil && !errors.Is(err, access.ErrRevoked) {
			return done, err
		}
		if err == nil {
			done.Revoked++
		}
	}
	if !isKnown {
		return done, web.NotFound(say.New("manage.no_member", "tenant", web.Shorten(tenant)).About("id"))
	}
	c.Say("The keys of this person for the tenant were revoked.")
	c.Done("keys of person %s revoked", id)
	if c.DryRun {
		c.Say("Dry run: keys of this person that would be revoked: %d.", done.Revoked)
	}
	return done, nil
}
