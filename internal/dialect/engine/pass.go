package engine

import (
	"fmt"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/wire"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Pass passes requests to engines that have these endpoints as vLLM does, and their answers to
// the client. Only the name of the model is changed.
var Pass = &dialect.Adapter{Call: callPass, Reply: replyPass}

// callPass passes the client's body on.
func callPass(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	return dialect.PassJSON(req, to, call, "application/json", call.Edits[:0], dialect.Field{})
}

// replyPass passes an answer on under the model name that the client used.
func replyPass(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	root, err := reply.Scan(answer.Body)
	if err != nil {
		return err
	}
	name, kind := "data", jsonscan.Array
	switch req.Door {
	case schema.DoorTokenize:
		name = "tokens"
	case schema.DoorDetokenize:
		name, kind = "prompt", jsonscan.String
	}
	if root.Get(name).Kind() != kind {
		return fmt.Errorf("%w: no %s", dialect.ErrInvalid, name)
	}
	reply.Usage = schema.ReadUsage(root.Get("usage"))
	reply.Edits = dialect.RenameModel(reply.Edits[:0], root, req.ModelJSON())
	reply.Segments = reply.Doc.Splice(reply.Segments[:0], reply.Edits)
	return nil
}
