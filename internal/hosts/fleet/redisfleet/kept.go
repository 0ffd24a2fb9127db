package redisfleet

import "github.com/patchbay-ai/patchbay/internal/store"

// Kept declares what gateways share in Redis.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "the secret of the fleet's news", Redis: []string{"redis.key-prefix:{fleet}:"}, IsSecret: true,
		Without: "gateways make another", Ends: "when Redis loses it",
	}}
}
