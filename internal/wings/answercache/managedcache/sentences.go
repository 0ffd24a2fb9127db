package managedcache

import "github.com/patchbay-ai/patchbay/internal/plain/say"

func init() { say.Declare(sentences) }

// sentences are the sentences of this feature.
var sentences = []say.Entry{
	{"manage.cache_away", "the store of the cache of answers cannot be reached; some answers may be left: {why}"},
}
