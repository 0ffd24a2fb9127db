package rerank

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// TEI speaks the shape of Text Embeddings Inference.
var TEI = &dialect.Adapter{Call: callTEI, Reply: replyTEI}

// callTEI puts query and texts into a body of its own; the rest of the caller's
// fields means nothing there.
func callTEI(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	if err := req.ReserveTranslation(); err != nil {
		return err
	}
	to.Begin(call, to.Path, "application/json", "application/json")
	var body jsonwrite.Writer
	body.Object()
	body.Member("query", req.Field("query").Raw())
	body.Member("texts", textArray(req.Field("documents"), false))
	for _, name := range []string{"truncate", "raw_scores", "truncation_direction"} {
		body.Field(name, req.Field(name))
	}
	body.EndObject()
	call.Body = append(call.Body[:0], body.Out)
	return nil
}

// replyTEI makes the unified reply of a bare list of scores.
func replyTEI(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := reply.Scan(answer.Body)
	if err != nil {
		return err
	}
	if root.Kind() != jsonscan.Array {
		return dialect.Invalid("no results")
	}
	return ranked(req, jsonscan.Value{}, root, reply)
}
