package dialect

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// SplitText makes a stream of whole completions of texts: all of them in one chunk, and
// their usage in another one. It returns nil if the client did not ask for a stream.
func SplitText(req *schema.Request, reply *Reply) (*Stream, error) {
	if !req.Stream {
		return nil, nil
	}
	var doc jsonscan.Document
	if _, err := Parse(&doc, jsonwrite.Compact(slices.Concat(reply.Segments...))); err != nil {
		return nil, err
	}
	var chunk, last jsonwrite.Writer
	chunk.Object()
	last.Object()
	for m := range doc.Root().All() {
		switch string(m.Key()) {
		case "usage":
			last.Copy(m)
		case "choices":
			chunk.Copy(m)
			last.Literal(`"choices":[]`)
		case "id", "object", "created", "model":
			chunk.Copy(m)
			last.Copy(m)
		default:
			chunk.Copy(m)
		}
	}
	chunk.EndObject()
	last.EndObject()
	chunks := [][]byte{chunk.Out}
	if req.IncludeUsage && reply.Usage.Known {
		chunks = append(chunks, last.Out)
	}
	return StoredEvents(reply.Usage, chunks...), nil
}
