package gateway

import (
	"github.com/patchbay-ai/patchbay/internal/serve/wing"
	"github.com/patchbay-ai/patchbay/internal/wings/answers/keeper"
)

// newWings makes the wings of a gateway; internal/wings lists their settings. A line belongs
// to the wing whose package it names.
func newWings(core *wing.Core) []*wing.Wing {
	return wing.Make(core,
		keeper.New,
	)
}
