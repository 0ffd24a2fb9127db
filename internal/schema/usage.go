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
	var f [usageSeconds + 1]jsonscan.Value
	v.Find(usageNames, f[:])
	var u Usage
	var ok [3]bool
	u.Prompt, ok[0] = tokens(f[usagePrompt], f[usageInput])
	u.Completion, ok[1] = tokens(f[usageCompletion], f[usageOutput])
	u.Total, ok[2] = tokens(f[usageTotal], jsonscan.Value{})
	if !ok[0] || !ok[1] || !ok[2] {
		return Usage{}
	}
	for _, details := range [...]jsonscan.Value{f[usagePromptDetails], f[usageInputDetails]} {
		if cached, ok := tokens(details.Get("cached_tokens"), jsonscan.Value{}); ok {
			u.Cached = max(u.Cached, cached)
		}
	}
	if seconds, ok := f[usageSeconds].Float(); ok && seconds > 0 && seconds < 1e7 {
		u.Seconds = int64(seconds + 0.5)
	}
	if u.Total == 0 {
		u.Total = u.Prompt + u.Completion
	}
	u.Known = u.Total > 0 || f[usageTotal].Given()
	return u
}

// The places of the members of a usage object.
const (
	usagePrompt = iota
	usageInput
	usageCompletion
	usageOutput
	usageTotal
	usagePromptDetails
	usageInputDetails
	usageSeconds
)

// usageNames are the names of the members in the order of their places.
var usageNames = jsonscan.NewNames("prompt_tokens", "input_tokens", "completion_tokens", "output_tokens", "total_tokens",
	"prompt_tokens_details", "input_tokens_details", "seconds")

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
