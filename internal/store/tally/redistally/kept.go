package redistally

import "github.com/patchbay-ai/patchbay/internal/store"

// Kept declares what gateways share in Redis.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "shared limits, slots and totals", Redis: []string{"redis.key-prefix:{tally}:"},
		Without: "gateways count anew, and the ledger has the totals", Ends: "when they are unused for a while",
	}}
}
