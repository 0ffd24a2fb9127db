package openai

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Moderation passes on the question whether texts or images are harmful.
var Moderation = &dialect.Adapter{Call: callModeration, Reply: replyModeration}

// callModeration passes the body on.
func callModeration(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	return dialect.PassJSON(req, to, call, "application/json", call.Edits[:0], dialect.Field{})
}

// replyModeration passes the verdicts on under the model name that the caller used.
func replyModeration(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := reply.Scan(answer.Body)
	if err != nil {
		return err
	}
	if results := root.Get("results"); results.Kind() != jsonscan.Array || results.Empty() {
		return fmt.Errorf("%w: no results", dialect.ErrInvalid)
	}
	reply.Usage = schema.ReadUsage(root.Get("usage"))
	reply.Edits = renameOnly(reply.Edits[:0], root, req)
	reply.Segments = reply.Doc.Splice(reply.Segments[:0], reply.Edits)
	return nil
}
