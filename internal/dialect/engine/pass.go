package engine

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Pass passes requests to engines that have these endpoints as vLLM does, and their answers to
// the client. Only the name of the model is changed.
var Pass = &dialect.Adapter{Call: dialect.PassUnified, Reply: replyPass}

// replyPass passes an answer on under the model name that the client used.
func replyPass(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	name, kind := "data", jsonscan.Array
	switch req.Door {
	case schema.DoorTokenize:
		name = "tokens"
	case schema.DoorDetokenize:
		name, kind = "prompt", jsonscan.String
	}
	root, _, err := reply.ScanMember(answer.Body, name, kind)
	if err != nil {
		return err
	}
	reply.Usage = schema.ReadUsage(root.Get("usage"))
	reply.Pass(req.ModelJSON())
	return nil
}
