package access

import (
	"net/netip"
	"slices"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/allowance"
	"github.com/patchbay-ai/patchbay/internal/count/budget"
	"github.com/patchbay-ai/patchbay/internal/request/naming"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Grant holds the permissions of one API key, compiled from the terms of the key, of its tenant
// and the defaults when they change. It is immutable. A nil Grant belongs to a caller who needs
// no key, and allows everything.
type Grant struct {
	Key
	// Issue tells apart the keys that had the id one after the other, and Since is the time
	// of issuing this one; zero for a key of the configuration file. A rotation changes
	// neither.
	Issue string
	Since time.Time
	// Accounts count the use by the key and by its tenant, nil where there is no limit.
	Accounts [2]*allowance.Account
	// Budgets are the budgets of the key and of its tenant, nil where there are none.
	Budgets [2]*budget.Account
	// rules are the rules of the key and of its tenant; a request must keep all of them.
	rules []rule
	// isPlaced means that a rule names instances.
	isPlaced bool
	// userHeader is the user header of the key, in the canonical form of http.Header.
	userHeader string
	// owner is the person who made the key, and people knows whether it sleeps.
	owner  Owner
	people *People
	// activity counts the calls with the key.
	activity *activity
	// visitor is the bearer of the token in place of a key, nil for a key.
	visitor *Visitor
}

// rule holds the terms that a single request must keep.
type rule struct {
	expires   time.Time // zero means never
	services  [schema.ServiceTypeCount]bool
	models    []naming.Pattern // empty means all
	instances []naming.Pattern // empty means all
	addresses []netip.Prefix   // empty means all
}

// newRule compiles terms, which were checked.
func newRule(t *Terms) rule {
	var r rule
	r.expires, _ = time.Parse(time.RFC3339, t.ExpiresAt)
	for service := range r.services {
		r.services[service] = len(t.Services) == 0 || slices.Contains(t.Services, schema.ServiceType(service))
	}
	for _, model := range t.Models {
		r.models = append(r.models, naming.NewPattern(model))
	}
	for _, id := range t.Instances {
		r.instances = append(r.instances, naming.NewPattern(id))
	}
	for _, text := range t.Addresses {
		if prefix, err := parseRange(text); err == nil {
			r.addresses = append(r.addresses, prefix)
		}
	}
	return r
}

func (r *rule) expired(now time.Time) bool { return !r.expires.IsZero() && now.After(r.expires) }

func (r *rule) includes(service schema.ServiceType, model string) bool {
	return r.services[service] && matchesOne(r.models, model)
}

// matchesOne reports whether a text matches one of the patterns, or there are none.
func matchesOne(patterns []naming.Pattern, text string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p naming.Pattern) bool { return p.Matches(text) })
}

func (r *rule) includesAddress(from netip.Addr) bool {
	return len(r.addresses) == 0 || slices.ContainsFunc(r.addresses,
		func(p netip.Prefix) bool { return p.Contains(from) })
}

// CountsTokens reports whether a limit of the key or its tenant counts tokens.
func (g *Grant) CountsTokens() bool {
	if g == nil {
		return false
	}
	for _, account := range g.Accounts {
		if account != nil && account.Limits.TokensPerMinute > 0 {
			return true
		}
	}
	return g.HasBudgets()
}

// HasBudgets reports whether the key or its tenant has a budget.
func (g *Grant) HasBudgets() bool { return g != nil && g.Budgets != [2]*budget.Account{} }

// MayUse reports whether the key is good for a model of a service type.
func (g *Grant) MayUse(service schema.ServiceType, model string) bool {
	if g == nil {
		return true
	}
	for i := range g.rules {
		if !g.rules[i].includes(service, model) {
			return false
		}
	}
	return true
}

// IsPlaced reports whether requests with the key may go to some instances only.
func (g *Grant) IsPlaced() bool { return g != nil && g.isPlaced }

// MayCall reports whether requests with the key may go to an instance.
func (g *Grant) MayCall(id string) bool {
	if !g.IsPlaced() {
		return true
	}
	for i := range g.rules {
		if !matchesOne(g.rules[i].instances, id) {
			return false
		}
	}
	return true
}

// RefuseModel returns an error unless the key is good for a model of a service type.
func (g *Grant) RefuseModel(service schema.ServiceType, model []byte) *schema.Error {
	if g == nil || g.MayUse(service, string(model)) {
		return nil
	}
	return schema.CodedError(schema.CodePermissionDenied, "call.key_model")
}

// RefuseAddress returns an error unless the key may be used from an address.
func (g *Grant) RefuseAddress(from netip.Addr) *schema.Error {
	from = from.Unmap().WithZone("")
	for i := range g.rules {
		if !g.rules[i].includesAddress(from) {
			return schema.CodedError(schema.CodePermissionDenied, "call.key_address")
		}
	}
	return nil
}

func (g *Grant) expired(now time.Time) bool {
	for i := range g.rules {
		if g.rules[i].expired(now) {
			return true
		}
	}
	return false
}
