package metrics

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Capture lists the parts of a request that are kept beside its record. Each value keeps
// all that the one before it keeps, and more.
type Capture uint8

// The levels: nothing, the request's headers with their secrets masked, or these and the
// text of the request and of its answer.
const (
	CaptureNone Capture = iota
	CaptureHeaders
	CaptureContent

	captureCount = int(CaptureContent) + 1
)

var captureNames = [captureCount]string{"none", "headers", "content"}

// Names returns the name of every value.
func (Capture) Names() []string { return slices.Clone(captureNames[:]) }

// String returns the name of the value.
func (c Capture) String() string { return schema.NameOf(c, captureNames[:]) }

// MarshalText writes the name of the value.
func (c Capture) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the name of a value in any case.
func (c *Capture) UnmarshalText(text []byte) error {
	return schema.ReadName(c, "value", string(text), captureNames[:])
}
