package control

import (
	"strings"

	"github.com/patchbay-ai/patchbay/internal/serve/access"
)

// The services of differences of terms: those of all keys, and those of a tenant, before its
// name.
const (
	defaultTerms = "defaults"
	tenantPrefix = "tenant "
)

// isOfTerms reports whether the difference is one of terms.
func (d Difference) isOfTerms() bool {
	return d.Service == defaultTerms || strings.HasPrefix(d.Service, tenantPrefix)
}

// compare lists what must change in a state to get another one.
func (s *state) compare(next *state) []Difference {
	return append(Compare(s.doc.Services, next.doc.Services), CompareTerms(s.doc.Security.TermSet(), next.doc.Security.TermSet())...)
}

// CompareTerms lists what must change in the terms of keys to get others.
func CompareTerms(from, to access.TermSet) []Difference {
	found := compareTerms(defaultTerms, from.Defaults, to.Defaults)
	for i := range to.Tenants {
		name := tenantPrefix + to.Tenants[i].Name
		n := from.Tenant(to.Tenants[i].Name)
		if n < 0 {
			found = append(found, Difference{Service: name, Kind: Added})
			continue
		}
		found = append(found, compareTerms(name, from.Tenants[n].Terms, to.Tenants[i].Terms)...)
	}
	for i := range from.Tenants {
		if to.Tenant(from.Tenants[i].Name) < 0 {
			found = append(found, Difference{Service: tenantPrefix + from.Tenants[i].Name, Kind: Removed})
		}
	}
	return found
}

func compareTerms(of string, from, to access.Terms) []Difference {
	return compareFields(Difference{Service: of}, termFields(from), termFields(to))
}

// termFields returns the single values of terms by their names; a list is one value.
func termFields(t access.Terms) map[string]any {
	fields := fieldsOf(t)
	services := make([]string, len(t.Services))
	for i, service := range t.Services {
		services[i] = service.String()
	}
	fields["services"], fields["models"], fields["addresses"] = strings.Join(services, " "), strings.Join(t.Models, " "), strings.Join(t.Addresses, " ")
	return fields
}
