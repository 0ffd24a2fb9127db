package schema

import "github.com/patchbay-ai/patchbay/internal/jsonscan"

// Usage is what a backend reported about the tokens of one answer.
type Usage struct {
	Prompt, Completion, Total int64
	// Cached are the tokens of the prompt that the backend had in a cache, which may
	// cost less, and Seconds the length of a sound that was transcribed.
	Cached, Seconds int64
	// Known is false when the backend reported nothing that makes sense.
	Known bool
}

// ReadUsage reads a usage object, under the names of the chat API or under those
// that the newer APIs have (input_tokens, output_tokens). Counts that are no
// whole numbers, negative or absurdly large make the report unknown rather than
// wrong.
func ReadUsage(v jsonscan.Value) Usage {
	if v.Kind() != jsonscan.Object {
		return Usage{}
	}
	var u Usage
	var ok [3]bool
	u.Prompt, ok[0] = tokens(v.Get("prompt_tokens"), v.Get("input_tokens"))
	u.Completion, ok[1] = tokens(v.Get("completion_tokens"), v.Get("output_tokens"))
	u.Total, ok[2] = tokens(v.Get("total_tokens"), jsonscan.Value{})
	if !ok[0] || !ok[1] || !ok[2] {
		return Usage{}
	}
	for _, name := range [...]string{"prompt_tokens_details", "input_tokens_details"} {
		if cached, ok := tokens(v.Get(name).Get("cached_tokens"), jsonscan.Value{}); ok {
			u.Cached = max(u.Cached, cached)
		}
	}
	if seconds, ok := v.Get("seconds").Float(); ok && seconds > 0 && seconds < 1e7 {
		u.Seconds = int64(seconds + 0.5)
	}
	if u.Total == 0 {
		u.Total = u.Prompt + u.Completion
	}
	u.Known = u.Total > 0 || v.Get("total_tokens").Given()
	return u
}

// tokens reads one count under either of its names; a count that is not given
// is zero.
func tokens(v, other jsonscan.Value) (n int64, ok bool) {
	const most = 1 << 40
	if !v.Given() {
		v = other
	}
	if !v.Given() {
		return 0, true
	}
	n, ok = v.Int()
	return n, ok && n >= 0 && n <= most
}
