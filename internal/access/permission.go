package access

import (
	"maps"
	"slices"
	"strings"
)

// Permission is a code for the right to use a route, such as config:instance:write: an area, a
// thing in it, and an action.
type Permission string

// Three kinds of routes have no code of their own.
const (
	// Anyone is for routes that tell nothing worth keeping.
	Anyone Permission = "anyone"
	// ByKey is for the unified API, which asks for its own keys.
	ByKey Permission = "by-key"
	// ByMembership is for members of a tenant. No role of the whole gateway includes it.
	ByMembership Permission = "by-membership"
)

// The codes of the management routes. Codes that end in :read and :write are for viewers and
// operators; all others are for administrators alone.
const (
	ReadTypes      Permission = "config:type:read"
	WriteTypes     Permission = "config:type:write"
	ReadInstances  Permission = "config:instance:read"
	WriteInstances Permission = "config:instance:write"
	ReadVersions   Permission = "config:version:read"
	WriteVersions  Permission = "config:version:write"
	ReadTerms      Permission = "config:terms:read"
	WriteTerms     Permission = "config:terms:write"
	// ReadSettings is for seeing the sections that management can change, WriteSettings and
	// ManageSettings for changing those of operators and those of administrators.
	ReadSettings   Permission = "config:settings:read"
	WriteSettings  Permission = "config:settings:write"
	ManageSettings Permission = "config:settings:manage"
	ReadModels     Permission = "model:read"
	ReadRoutes     Permission = "route:read"
	ManageKeys     Permission = "auth:key:manage"
	ManageTokens   Permission = "auth:token:manage" //nolint:gosec // a code, no secret
	// ManageSessions is the right to see the sessions of all people, and to end them.
	ManageSessions Permission = "auth:sessions:manage"
	// ReadSelf and UseSession are for every bearer of a token, with any role.
	ReadSelf   Permission = "auth:self:read"
	UseSession Permission = "auth:session:use"

	// Existing clients use these codes; do not rename them.
	ReadQuota      Permission = "config:quota:read"
	WriteQuota     Permission = "config:quota:write"
	ReadQuotaUsage Permission = "monitoring:quota:read"

	ReadMonitoring  Permission = "monitoring:config:read"
	WriteMonitoring Permission = "monitoring:config:write"
	ReadMetrics     Permission = "monitoring:metrics:read"
	// StopRequests is the right to end somebody's request.
	StopRequests Permission = "monitoring:request:write"
	// ManageContents is the right to keep, and to see, headers and bodies of requests.
	ManageContents Permission = "monitoring:content:manage"
	ReadActuator   Permission = "actuator:details:read"
	WriteLoggers   Permission = "actuator:logger:write"
	// ManageAccessLog is the right to change the level of the access log. It is required beside
	// WriteLoggers.
	ManageAccessLog Permission = "actuator:logger:manage"
)

// declared are the codes that routes may ask for.
var declared = map[Permission]bool{}

func init() {
	Declare(ReadTypes, WriteTypes, ReadInstances, WriteInstances, ReadVersions, WriteVersions, ReadTerms, WriteTerms,
		ReadSettings, WriteSettings, ManageSettings, ReadModels, ReadRoutes, ManageKeys, ManageTokens, ManageSessions,
		ReadSelf, UseSession, ReadQuota, WriteQuota, ReadQuotaUsage, ReadMonitoring, WriteMonitoring, ReadMetrics,
		StopRequests, ManageContents, ReadActuator, WriteLoggers, ManageAccessLog)
}

// Declare adds codes to those that roles hold. A wing calls it while it is initialized, for its own.
func Declare(codes ...Permission) {
	for _, code := range codes {
		declared[code] = true
	}
}

// Permissions returns every code that a role holds, in order.
func (r Role) Permissions() []Permission {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(declared)), func(p Permission) bool { return !r.Holds(p) })
}

// Holds reports whether a role has a permission.
func (r Role) Holds(p Permission) bool {
	switch p {
	case UseSession:
		return r.Valid()
	case ByMembership:
		return false
	}
	switch r {
	case Admin:
		return true
	case Operator:
		return strings.HasSuffix(string(p), ":read") || strings.HasSuffix(string(p), ":write")
	case Viewer:
		return strings.HasSuffix(string(p), ":read")
	}
	return false
}

// SeesWords reports whether a role sees the error messages of backends, which may repeat parts of
// prompts. Other roles see status and code only.
func (r Role) SeesWords() bool { return r.Holds(WriteMonitoring) }

// Valid reports whether p has the shape of a code, or is one of the words for routes without one.
func (p Permission) Valid() bool {
	if p == Anyone || p == ByKey || p == ByMembership {
		return true
	}
	parts := strings.Split(string(p), ":")
	if len(parts) < 2 {
		return false
	}
	for _, part := range parts {
		if part == "" || strings.ContainsFunc(part, func(r rune) bool { return (r < 'a' || r > 'z') && r != '-' }) {
			return false
		}
	}
	return true
}
