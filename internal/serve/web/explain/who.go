package explain

import (
	"github.com/patchbay-ai/patchbay/internal/access"
	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/routing"
)

// By returns who asks for an explanation, as JSON.
func By(who *access.Identity) AskedBy {
	view := AskedBy{Name: who.Name, Role: who.Role.String(), Rule: who.Rule, Issuer: who.Issuer, Subject: who.Subject}
	for _, m := range who.Memberships {
		view.Tenants = append(view.Tenants, Place{m.Tenant, m.Role.String(), m.Rule})
	}
	return view
}

// SetCaller adds to an explanation who would send the request, and why this caller is refused, if so.
// Who may not see the keys does not see the people who made them, nor their terms.
func (e *Explanation) SetCaller(s *access.Sender, who *access.Identity, table *routing.Table) {
	refusal := s.Refusal
	if refusal == nil && !e.mayUse(s.Grant, table.Service(e.Service)) {
		refusal = schema.CodedError(schema.CodePermissionDenied, "call.key_model")
	}
	e.Caller = &Caller{KeyID: s.KeyID, Tenant: s.Tenant, Status: s.Status, Issuer: s.Issuer, Rule: s.Rule, User: s.User,
		Refusal: viewRefusal(refusal)}
	if who.Role.Holds(access.ManageKeys) {
		e.Caller.Owner = s.Owner.String()
		if s.Grant != nil {
			e.Caller.Terms = &s.Grant.Terms
		}
	}
	if refusal != nil {
		e.refuse(refusal)
	}
}

// mayUse reports whether a key is good for the model that was asked for or, where that is an alias, for
// its target. Where a pattern leads to the target, the key must be good for that.
func (e *Explanation) mayUse(grant *access.Grant, service *routing.Service) bool {
	if pool := service.Find(e.Model); pool != nil && grant.MayUse(e.Service, pool.Model) {
		return true
	}
	return grant.MayUse(e.Service, e.Model) && !service.IsRewritten(e.Model)
}

// refuse makes the explanation that of a request which does not reach an instance.
func (e *Explanation) refuse(err *schema.Error) {
	said := say.New("explain.refused")
	e.Refusal, e.Pick, e.Tier = viewRefusal(err), nil, nil
	e.Why, e.Said = said.String(), say.All(said)
}
