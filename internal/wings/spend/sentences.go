package spend

import "github.com/patchbay-ai/patchbay/internal/plain/say"

func init() { say.Declare(sentences) }

// sentences are the sentences of this feature.
var sentences = []say.Entry{
	{"field.spend_range", "want a time after from, and at most ten years after it"},
	{"field.from_required", "is required where to is given"},
}
