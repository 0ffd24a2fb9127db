package scatter

import (
	"slices"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Request returns the request for a piece of the work: the request of the client with some
// of its inputs. It has a body of its own, and reserves memory for it with reserve if that
// is not nil; any handler of the piece may call the function.
func (w *Work) Request(p Piece, reserve func(bytes int) error) (*schema.Request, error) {
	start, end := w.list.Span()
	edits := []jsonscan.Edit{
		{Start: start + 1, End: w.starts[p.From]},
		{Start: w.ends[p.To-1], End: end - 1},
	}
	if w.req.Door == schema.DoorRerank {
		// Each piece asks for as many as the whole request, but not for more than it has
		// inputs: some backends refuse that.
		top := w.req.Body.Root().Get(topName)
		if n, ok := top.Int(); ok && n > int64(p.To-p.From) {
			edits = append(edits, top.Replace(strconv.AppendInt(nil, int64(p.To-p.From), 10)))
		}
	}
	segments := w.req.Body.Splice(nil, edits)
	if reserve != nil {
		size := 0
		for _, s := range segments {
			size += len(s)
		}
		if err := reserve(size); err != nil {
			return nil, err
		}
	}
	req := &schema.Request{Header: w.req.Header, Query: w.req.Query, Uncounted: w.req.Uncounted}
	req.Body.Reserve = reserve
	return req, parse(req, w.req.Door, slices.Concat(segments...))
}

// parse reads the body of a piece like the body of any request.
func parse(req *schema.Request, door schema.Door, body []byte) error {
	switch door {
	case schema.DoorRerank:
		return req.ParseRerank(body)
	case schema.DoorCompletions:
		return req.ParseCompletion(body)
	}
	return req.ParseEmbedding(body)
}
