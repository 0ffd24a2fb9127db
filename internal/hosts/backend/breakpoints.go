package backend

import (
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Breakpoints reports whether prompts are marked for the cache of a backend.
type Breakpoints = schema.Choice[breakpoints]

type breakpoints struct{}

func (breakpoints) Names() []string { return []string{"none", "auto"} }

// The ways to mark prompts.
const (
	NoBreakpoints   Breakpoints = iota // as the caller did
	AutoBreakpoints                    // if the caller did not
)
