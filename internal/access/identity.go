package access

import (
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/plain/say"
)

// OpenName is the name of callers of the management API where no tokens are asked for.
const OpenName = "open"

// Identity is the caller of the management API: the bearer of a token, or a person who signed
// in.
type Identity struct {
	// Name is the name of the token, OpenName where no token is needed, or the name that the
	// provider gives the person.
	Name string
	// IsOpen is true if no token is needed.
	IsOpen bool
	// Role is the role in the whole gateway. A person may have none.
	Role Role
	// Rule is the setting that gives a person the role, for people.
	Rule string
	// SeesSecrets reports whether the stored keys of backends may be shown.
	SeesSecrets bool
	// Issuer and Subject identify a person who signed in. Both are empty for the bearer of a
	// token.
	Issuer, Subject string
	// Session is the id of the session; empty where the request presents a token.
	Session string
	// Memberships are the tenants of the person, at most one entry for each.
	Memberships []Membership
}

// Membership is the role of a person in one tenant.
type Membership struct {
	Tenant string
	Role   TeamRole
	// Terms bound the keys that the person may make for the tenant.
	Terms Terms
	// Rule is the setting that gives the role, for people.
	Rule string
}

// TeamRole is the role of a person in one tenant. It gives access only to operations that name
// it, and there only to the tenant.
type TeamRole uint8

// The roles in a tenant. TeamAdmin includes Member. The zero value is no role.
const (
	Member TeamRole = iota + 1
	TeamAdmin
)

var teamRoleNames = [...]string{"MEMBER", "TEAM_ADMIN"}

// Names returns the name of every role in a tenant.
func (TeamRole) Names() []string { return append([]string(nil), teamRoleNames[:]...) }

// Valid reports whether r is one of the roles.
func (r TeamRole) Valid() bool { return r >= Member && r <= TeamAdmin }

// String returns the name in capitals, or nothing where there is no role.
func (r TeamRole) String() string {
	if !r.Valid() {
		return ""
	}
	return teamRoleNames[r-1]
}

// MarshalText writes the name in capitals.
func (r TeamRole) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the name of a role in any case.
func (r *TeamRole) UnmarshalText(text []byte) error {
	for i, known := range teamRoleNames {
		if strings.EqualFold(string(text), known) {
			*r = TeamRole(i + 1)
			return nil
		}
	}
	return say.Error("field.unknown_name", "noun", "role", "name", text, "known", strings.Join(teamRoleNames[:], ", "))
}

// IsPerson reports whether the caller signed in with an account of a provider.
func (i *Identity) IsPerson() bool { return i.Subject != "" }

// String names the caller unambiguously: the name of a token or, for a person, the name with the
// subject and issuer. It is empty for an unknown caller.
func (i *Identity) String() string {
	if i.IsPerson() {
		return i.Owner().String()
	}
	return i.Name
}

// In returns the membership in a tenant. Its role is zero where the person is not a member.
func (i *Identity) In(tenant string) Membership {
	for _, m := range i.Memberships {
		if m.Tenant == tenant {
			return m
		}
	}
	return Membership{}
}

// RoleName returns the role as logs and the audit show it: the one in the whole gateway, else
// the highest one in a tenant.
func (i *Identity) RoleName() string {
	if i.Role.Valid() {
		return i.Role.String()
	}
	highest := TeamRole(0)
	for _, m := range i.Memberships {
		highest = max(highest, m.Role)
	}
	return highest.String()
}

// Scope returns the part of the gateway that the caller sees through an operation: everything
// with the permission, else the tenants in which the caller has at least a role. With a zero
// role the permission alone decides.
func (i *Identity) Scope(p Permission, least TeamRole) Scope {
	if i.Role.Holds(p) {
		return Scope{All: true}
	}
	scope := Scope{}
	for _, m := range i.Memberships {
		if least.Valid() && m.Role >= least {
			scope.Tenants = append(scope.Tenants, m.Tenant)
		}
	}
	return scope
}

// Scope is a part of the gateway: all of it, or some tenants.
type Scope struct {
	All     bool
	Tenants []string
}

// IsEmpty reports whether nothing belongs to the scope.
func (s Scope) IsEmpty() bool { return !s.All && len(s.Tenants) == 0 }

// Includes reports whether a tenant belongs to the scope.
func (s Scope) Includes(tenant string) bool { return s.All || slices.Contains(s.Tenants, tenant) }
