package rediscache

import "github.com/patchbay-ai/patchbay/internal/store"

// Kept declares the answers in Redis.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "cached answers", Redis: []string{"redis.key-prefix:answer-cache:"}, Without: "they can be had again",
		Bound: "the memory of Redis", Ends: "`answer-cache.ttl`",
	}}
}
