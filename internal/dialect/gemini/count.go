package gemini

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// CountTokens asks how many tokens a chat request has; the answer has them as totalTokens.
// The whole request is in the question: instructions and tools are counted.
func CountTokens(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	model := ModelOf(req, to)
	body, err := writeBody(req, model)
	if err != nil {
		return err
	}
	to.Begin(call, PathOf(to.Path, model, false), "application/json", "application/json")
	call.Body = append(call.Body[:0], slices.Concat(
		[]byte(`{"generateContentRequest":{"model":`), jsonwrite.AppendText(nil, "models/"+model), []byte(","),
		body[1:], []byte("}")))
	return nil
}
