package chat

import (
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Usage is what a backend reported of one answer.
type Usage struct {
	schema.Usage
	// Cached counts tokens of the prompt that were found in a cache, and Reasoning
	// those of the completion that were thoughts; below 0 means that it is not told.
	Cached, Reasoning int64
}

// ReadUsage reads the usage of a completion. A part that is not told, or that is more than
// the whole, is 0.
func ReadUsage(v jsonscan.Value) Usage {
	u := Usage{Usage: schema.ReadUsage(v)}
	part := func(group, name string) int64 {
		n, _ := v.Get(group).Get(name).Int()
		return n
	}
	u.Cached = part("prompt_tokens_details", "cached_tokens")
	u.Reasoning = part("completion_tokens_details", "reasoning_tokens")
	u.Cached, u.Reasoning = u.Parts()
	return u
}

// Parts returns how many tokens of the prompt were found in a cache, and how many of the
// completion were thoughts. What is not told, or is more than the whole, is 0.
func (u *Usage) Parts() (cached, reasoning int64) {
	if u.Cached > 0 && u.Cached <= u.Prompt {
		cached = u.Cached
	}
	if u.Reasoning > 0 && u.Reasoning <= u.Completion {
		reasoning = u.Reasoning
	}
	return cached, reasoning
}
