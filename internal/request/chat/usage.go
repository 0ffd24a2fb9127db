package chat

import "time"

// Tokens is a backend's report about the tokens of one answer.
type Tokens struct {
	Prompt, Completion, Total int64
	// Cached are the tokens of the prompt that the backend had in a cache, which may
	// cost less, and Seconds the length of a sound that was transcribed.
	Cached, Seconds int64
	// Written are the tokens of the prompt that the backend wrote to its cache.
	Written int64 `json:"-"`
	// IsCachedTold means that the backend said how many were cached, if only that none were.
	IsCachedTold bool `json:"-"`
	// Prefill is the time that the backend says it worked on the tokens that were not
	// cached, 0 if it does not say.
	Prefill time.Duration `json:"-"`
	// Known is false when the backend reported nothing that makes sense.
	Known bool
}

// Usage is a backend's report about one answer.
type Usage struct {
	Tokens
	// Cached counts tokens of the prompt that were found in a cache, and Reasoning
	// tokens of the completion that were thoughts; below 0 means that it is not told.
	Cached, Reasoning int64
}

// Parts returns how many tokens of the prompt were found in a cache, and how many of the
// completion were thoughts. A number that is not told, or is more than the whole, is 0.
func (u *Usage) Parts() (cached, reasoning int64) {
	if u.Cached > 0 && u.Cached <= u.Prompt {
		cached = u.Cached
	}
	if u.Reasoning > 0 && u.Reasoning <= u.Completion {
		reasoning = u.Reasoning
	}
	return cached, reasoning
}
