package backend

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Breakpoints reports whether prompts are marked for the cache of a backend.
type Breakpoints uint8

// The ways to mark prompts.
const (
	NoBreakpoints   Breakpoints = iota // as the caller did
	AutoBreakpoints                    // if the caller did not
)

var breakpointNames = [...]string{"none", "auto"}

// Names returns the name of every way.
func (Breakpoints) Names() []string { return slices.Clone(breakpointNames[:]) }

// String returns the name.
func (b Breakpoints) String() string { return breakpointNames[b] }

// MarshalText writes the name.
func (b Breakpoints) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads a name in any case.
func (b *Breakpoints) UnmarshalText(text []byte) error {
	return schema.ReadName(b, "cache-breakpoints", string(text), breakpointNames[:])
}
