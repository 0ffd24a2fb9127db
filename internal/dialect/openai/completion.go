package openai

import (
	"bytes"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/wire"
)

// Completion passes requests for the completion of texts on. They have the options of
// a chat, and their chunks the shape of the whole answer.
type Completion struct{}

// Call passes the body on, as that of a chat.
func (Completion) Call(req *schema.Request, to *dialect.Target, call *wire.Call) error {
	return Chat{}.Call(req, to, call)
}

// Reply passes completions on under the model name that the caller used.
func (Completion) Reply(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	return passCompletion(req, answer, reply, expected{
		said: "text", kind: jsonscan.String, choices: wantedTexts(req), object: textObject, idPrefix: textIDPrefix,
	})
}

// Events reads server-sent events of completions.
func (Completion) Events(req *schema.Request, body io.Reader) dialect.Events {
	return &events{
		sse:          dialect.NewSSE(body),
		model:        bytes.Clone(req.Body.Root().Get("model").Raw()),
		includeUsage: req.IncludeUsage,
		wanted:       wantedTexts(req),
		object:       textObject,
		idPrefix:     textIDPrefix,
	}
}

// wantedTexts returns how many completions a request asks for.
func wantedTexts(req *schema.Request) int { return req.Prompts() * dialect.WantedChoices(req) }

// Split makes a stream of whole completions.
func (Completion) Split(req *schema.Request, reply *dialect.Reply) (dialect.Events, error) {
	return dialect.SplitText(req, reply)
}
