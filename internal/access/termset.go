package access

import (
	"fmt"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
	"github.com/patchbay-ai/patchbay/internal/plain/settings"
)

// TermSet holds the terms of tenants and the defaults for all keys. They belong to the
// configuration that has versions.
type TermSet struct {
	Defaults Terms    `json:"defaults"`
	Tenants  []Tenant `json:"tenants"`
}

// maxTenants bounds the terms that are stored with every version.
const maxTenants = 10_000

// TermSet returns the terms of the settings, which shares nothing with them.
func (s Settings) TermSet() TermSet { return settings.Clone(TermSet{s.Defaults, s.Tenants}) }

// WithTerms returns the settings with other terms.
func (s Settings) WithTerms(t TermSet) Settings {
	t = settings.Clone(t)
	s.Defaults, s.Tenants = t.Defaults, t.Tenants
	return s
}

// Tenant returns the place of a tenant in the list, -1 where it is not there.
func (t *TermSet) Tenant(name string) int {
	return slices.IndexFunc(t.Tenants, func(tenant Tenant) bool { return tenant.Name == name })
}

// Check reports every field that has a value it may not have.
func (t TermSet) Check(report say.Report) {
	names := firstUse{}
	if len(t.Tenants) > maxTenants {
		report("tenants", say.New("field.entries", "most", maxTenants))
	}
	for i, tenant := range t.Tenants {
		at := fmt.Sprintf("tenants[%d].", i)
		names.check(tenant.Name, at+"name", report)
		CheckTenant(at+"name", tenant.Name, report)
		tenant.Terms.CheckAt(at, report)
	}
	t.Defaults.CheckAt("defaults.", report)
}

// SetTerms puts other terms into force, for requests from now on. Earlier use by keys and tenants
// still counts.
func (c *Credentials) SetTerms(terms TermSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if settings.Equal(c.settings.TermSet(), terms) {
		return
	}
	c.settings = c.settings.WithTerms(terms)
	c.rebuild()
}
