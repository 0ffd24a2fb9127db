package registry

import "github.com/patchbay-ai/patchbay/internal/store"

// Kept declares the list of gateways.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "the gateways that share the configuration", Tables: []string{"patchbay_members"},
		Without: "they announce themselves",
		Bound:   "256 gateways", Ends: "10 minutes after a gateway was seen last",
	}}
}
