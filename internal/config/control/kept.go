package control

import "github.com/patchbay-ai/patchbay/internal/store"

// Kept declares the values of a shared configuration that belong to no other package.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "circuit breakers that an operator holds on all gateways", Part: store.Configuration,
		Values: []string{holdPrefix}, Bound: "one for each instance", Ends: "when they are released",
	}}
}
