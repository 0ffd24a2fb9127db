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
	f := readUsageFields(v)
	var u Usage
	var ok [3]bool
	u.Prompt, ok[0] = tokens(f.prompt, f.input)
	u.Completion, ok[1] = tokens(f.completion, f.output)
	u.Total, ok[2] = tokens(f.total, jsonscan.Value{})
	if !ok[0] || !ok[1] || !ok[2] {
		return Usage{}
	}
	for _, details := range [...]jsonscan.Value{f.promptDetails, f.inputDetails} {
		if cached, ok := tokens(details.Get("cached_tokens"), jsonscan.Value{}); ok {
			u.Cached = max(u.Cached, cached)
		}
	}
	if seconds, ok := f.seconds.Float(); ok && seconds > 0 && seconds < 1e7 {
		u.Seconds = int64(seconds + 0.5)
	}
	if u.Total == 0 {
		u.Total = u.Prompt + u.Completion
	}
	u.Known = u.Total > 0 || f.total.Given()
	return u
}

// usageFields are the members of a usage object.
type usageFields struct {
	prompt, input, completion, output, total, promptDetails, inputDetails, seconds jsonscan.Value
}

// readUsageFields goes through the members once. Of several with one name the first
// counts.
func readUsageFields(usage jsonscan.Value) (f usageFields) {
	for v := usage.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		var to *jsonscan.Value
		switch string(v.Key()) {
		case "prompt_tokens":
			to = &f.prompt
		case "input_tokens":
			to = &f.input
		case "completion_tokens":
			to = &f.completion
		case "output_tokens":
			to = &f.output
		case "total_tokens":
			to = &f.total
		case "prompt_tokens_details":
			to = &f.promptDetails
		case "input_tokens_details":
			to = &f.inputDetails
		case "seconds":
			to = &f.seconds
		default:
			continue
		}
		if to.Kind() == jsonscan.Absent {
			*to = v
		}
	}
	return f
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
