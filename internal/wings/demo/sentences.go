package demo

import "github.com/patchbay-ai/patchbay/internal/plain/say"

func init() { say.Declare(sentences) }

// sentences are the sentences of this feature.
var sentences = []say.Entry{
	{"manage.no_simulated", `not found: no simulated backend stands behind "{instance}"`},
}
