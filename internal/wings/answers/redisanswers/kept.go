package redisanswers

import "github.com/patchbay-ai/patchbay/internal/store"

// Kept declares the responses in Redis.
func Kept() []store.Kept {
	return []store.Kept{{
		Name: "kept responses", Redis: []string{prefix}, Entry: rekey, Without: "they end soon",
		Bound: "`responses.max-responses` of a key", Ends: "`responses.ttl`",
	}}
}
