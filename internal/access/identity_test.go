package access_test

import (
	"slices"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/access"
)

func TestScopeOfACaller(t *testing.T) {
	t.Parallel()
	memberships := []access.Membership{{Tenant: "a", Role: access.Member}, {Tenant: "b", Role: access.TeamAdmin}}
	for _, test := range []struct {
		name       string
		who        access.Identity
		permission access.Permission
		least      access.TeamRole
		all        bool
		tenants    []string
	}{
		{"a viewer reads all", access.Identity{Role: access.Viewer}, access.ReadMetrics, access.Member, true, nil},
		{"a viewer writes nothing", access.Identity{Role: access.Viewer}, access.WriteTerms, access.TeamAdmin, false, nil},
		{"a role goes before memberships", access.Identity{Role: access.Viewer, Memberships: memberships}, access.ReadMetrics, access.Member, true, nil},
		{"memberships where the role is too low", access.Identity{Role: access.Viewer, Memberships: memberships}, access.ManageKeys, access.Member, false, []string{"a", "b"}},
		{"a member", access.Identity{Memberships: memberships}, access.ReadMetrics, access.Member, false, []string{"a", "b"}},
		{"a team admin", access.Identity{Memberships: memberships}, access.ReadMetrics, access.TeamAdmin, false, []string{"b"}},
		{"an operation that names no role in a tenant", access.Identity{Memberships: memberships}, access.ReadMetrics, 0, false, nil},
		{"an administrator is no member", access.Identity{Role: access.Admin}, access.ByMembership, access.Member, false, nil},
		{"nobody", access.Identity{}, access.ReadSelf, access.Member, false, nil},
	} {
		scope := test.who.Scope(test.permission, test.least)
		if scope.All != test.all || !slices.Equal(scope.Tenants, test.tenants) || scope.IsEmpty() != (!test.all && len(test.tenants) == 0) {
			t.Errorf("%s: %+v", test.name, scope)
		}
		for _, tenant := range []string{"a", "b", "c", ""} {
			if scope.Includes(tenant) != (test.all || slices.Contains(test.tenants, tenant)) {
				t.Errorf("%s: includes %q: %t", test.name, tenant, scope.Includes(tenant))
			}
		}
	}
}

func TestRolesInATenantAreReadByTheirNames(t *testing.T) {
	t.Parallel()
	for _, want := range []access.TeamRole{access.Member, access.TeamAdmin} {
		var got access.TeamRole
		if err := got.UnmarshalText([]byte(want.String())); err != nil || got != want || !want.Valid() {
			t.Errorf("%s: %s, %v", want, got, err)
		}
	}
	var got access.TeamRole
	if err := got.UnmarshalText([]byte("ADMIN")); err == nil || got.Valid() || got.String() != "" {
		t.Errorf("ADMIN is no role in a tenant: %v", err)
	}
}

func TestNameOfARoleInLogs(t *testing.T) {
	t.Parallel()
	for want, who := range map[string]access.Identity{
		"":           {},
		"VIEWER":     {Role: access.Viewer, Memberships: []access.Membership{{Tenant: "a", Role: access.TeamAdmin}}},
		"MEMBER":     {Memberships: []access.Membership{{Tenant: "a", Role: access.Member}}},
		"TEAM_ADMIN": {Memberships: []access.Membership{{Tenant: "a", Role: access.TeamAdmin}, {Tenant: "b", Role: access.Member}}},
	} {
		if got := who.RoleName(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
