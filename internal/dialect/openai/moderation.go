package openai

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Moderation passes on the question whether texts or images are harmful.
var Moderation = &dialect.Adapter{Call: dialect.PassUnified, Reply: replyModeration}

// replyModeration passes the verdicts on under the model name that the caller used.
func replyModeration(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := reply.Scan(answer.Body)
	if err != nil {
		return err
	}
	if results := root.Get("results"); results.Kind() != jsonscan.Array || results.Empty() {
		return dialect.Invalid("no results")
	}
	reply.Usage = schema.ReadUsage(root.Get("usage"))
	reply.Splice(renameOnly(reply.Edits[:0], root, req))
	return nil
}
