package pglog

import "github.com/patchbay-ai/patchbay/internal/store"

// Kept declares the tables of a shared configuration.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "versions that gateways share, with keys, tokens and other values", Part: store.Configuration,
		IsSecret: true, Bound: "`store.keep-versions`", Ends: "the oldest versions make room",
		Tables: []string{"patchbay_config_current", "patchbay_config_versions", "patchbay_config_values",
			"patchbay_config_signatures", "patchbay_format"},
	}}
}
