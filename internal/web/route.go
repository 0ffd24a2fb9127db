package web

import (
	"net/http"

	"github.com/patchbay-ai/patchbay/internal/access"
)

// Route is one operation of the gateway: its pattern, such as
// "GET /api/models", the permission that a caller must have, its handler, and what
// the OpenAPI document says about it.
type Route struct {
	Pattern    string
	Permission access.Permission
	Handler    http.HandlerFunc
	Operation
}

// Operation is what the OpenAPI document says about a route. The schemas of the
// document are derived from the types of Query, Body and Reply, which are the
// types that the handler reads and writes; see package openapi for the struct
// tags that add to them.
type Operation struct {
	// Undescribed says that the document does not list the route, because it is a
	// page for people or belongs to one.
	Undescribed bool
	// Tag is the heading under which the operation is listed.
	Tag, Summary string
	// AliasOf is the pattern of the route that does the same, if there is one.
	AliasOf string
	// Query is a struct with a field for each parameter of the query, and Body
	// the value that the request carries; nil means none.
	Query, Body any
	// BodyType is the media type of the body, application/json if empty.
	BodyType string
	// Reply is the value that a successful reply carries as JSON, in the
	// envelope of the management API if Enveloped; nil means none. Media has the
	// other forms of the reply, by their media types.
	Reply     any
	Enveloped bool
	Media     map[string]any
	// Status is that of success, 200 if 0.
	Status int
	// Versioned says that the operation changes the configuration, so that it
	// obeys If-Match.
	Versioned bool
	// Audited says that the audit log has a line for each use of the operation, although
	// it only reads.
	Audited bool
	// NoDryRun says that the operation refuses dryRun, because there is nothing to
	// tell without doing it.
	NoDryRun bool
	// Error is the form in which the handler answers with errors, and Errors are
	// the statuses of those that do not follow from the rest. Replies has the
	// other forms of replies, by their statuses.
	Error   any
	Errors  []int
	Replies map[int]any
}
