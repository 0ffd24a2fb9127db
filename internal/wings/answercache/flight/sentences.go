package flight

import "github.com/patchbay-ai/patchbay/internal/plain/say"

func init() { say.Declare(sentences) }

// sentences are the sentences of this feature.
var sentences = []say.Entry{
	{"call.flight", "The call that this request shared with equal ones was given up by the gateway."},
	{"call.not_shared", "The answer goes on at another model, and is not shared any more; send the request again."},
	{"call.read_slowly",
		"The answer is shared with equal requests, and this client read it too slowly for the rest to be kept; send " +
			"the request again."},
}
