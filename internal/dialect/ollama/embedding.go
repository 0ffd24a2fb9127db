package ollama

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/dialect/vectors"
	"github.com/patchbay-ai/patchbay/internal/dialect/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Embedding speaks Ollama's own embeddings dialect, which takes many texts
// at once.
var Embedding = &dialect.Adapter{Refuse: refuseEmbedding, Call: callEmbedding, Reply: replyEmbedding}

// callEmbedding translates an embeddings request.
func callEmbedding(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	if err := refuseEmbedding(req); err != nil {
		return err
	}
	body := newRequestWriter(req, to)
	body.top.AddField("dimensions", req.Field("dimensions"))
	err := body.extensions(req.Settings(), func(name string) place {
		switch name {
		case "keep_alive", "truncate":
			return atTopLevel
		case "input", "encoding_format", "dimensions":
			return notPassedOn
		}
		return amongOptions
	})
	if err != nil {
		return err
	}
	to.Begin(call, to.Path, "application/json", "application/json")
	call.Body = body.body(call.Body[:0], "input", req.Field("input").Raw())
	return nil
}

// refuseEmbedding tells that the backend takes texts only, and none that is empty.
func refuseEmbedding(req *schema.Request) error {
	input := req.Field("input")
	switch {
	case input.Kind() == jsonscan.String:
		if len(input.Text()) == 0 {
			// Ollama takes it for a wish to load the model and gives no vector.
			return schema.BadField("input", "field.empty")
		}
	case input.First().Kind() != jsonscan.String:
		return dialect.RefuseTokenIDs()
	}
	return nil
}

// replyEmbedding gives every vector the form that was asked for.
func replyEmbedding(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	reply.Doc.AllowDuplicateKeys = true
	if err := reply.Doc.Parse(answer.Body); err != nil {
		return fmt.Errorf("%w: no embeddings: %w", dialect.ErrInvalid, err)
	}
	root := reply.Doc.Root()
	if err := dialect.FailureIn(root); err != nil {
		return err
	}
	list := root.Get("embeddings")
	if list.Kind() != jsonscan.Array || list.Empty() {
		return dialect.Invalid("no embeddings")
	}
	if n, ok := dialect.TokenCount(root.Get("prompt_eval_count")); ok && n > 0 {
		reply.Usage = schema.Usage{Prompt: n, Total: n, Known: true}
	}
	return vectors.Reply(req, reply, list.All(), inputCount(req.Field("input")))
}

func inputCount(input jsonscan.Value) int {
	if input.Kind() == jsonscan.String {
		return 1
	}
	return input.Len()
}
