package differences

import (
	"github.com/patchbay-ai/patchbay/internal/access"
)

// The Service of a difference in terms: defaultTerms for the terms of all keys,
// tenantPrefix and a name for the terms of a tenant.
const (
	defaultTerms = "defaults"
	tenantPrefix = "tenant "
)

// CompareTerms lists the changes that turn the terms of keys into others.
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

// termFields returns the single values of terms by their paths, without the numbers that are not given.
func termFields(t access.Terms) map[string]any {
	fields := fieldsOf(t)
	for _, f := range access.Fields() {
		if value := f.In(&t); value.CanInt() && value.IsZero() {
			delete(fields, f.Path)
		}
	}
	return fields
}
