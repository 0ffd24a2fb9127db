package metrics

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Capture lists the parts of a request that are kept beside its record. Each value keeps
// all that the one before it keeps, and more.
type Capture = schema.Choice[capture]

type capture struct{}

func (capture) Names() []string { return []string{"none", "headers", "content"} }

// The levels: nothing, the request's headers with their secrets masked, or these and the
// text of the request and of its answer.
const (
	CaptureNone Capture = iota
	CaptureHeaders
	CaptureContent
)
