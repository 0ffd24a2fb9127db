package openai

import (
	"bytes"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Completion passes requests for the completion of texts on. They have the options of
// a chat, and their chunks the shape of the whole answer.
var Completion = &dialect.Adapter{Call: callChat, Reply: replyCompletion, Events: eventsCompletion, Split: dialect.SplitText}

// replyCompletion passes completions on under the model name that the caller used.
func replyCompletion(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	return passCompletion(req, answer, reply, expected{
		said: "text", kind: jsonscan.String, choices: wantedTexts(req), object: textObject, idPrefix: textIDPrefix,
	})
}

// eventsCompletion reads server-sent events of completions.
func eventsCompletion(req *schema.Request, body io.Reader) *dialect.Stream {
	return newEvents(&events{
		reader:       newReader(body, wantedTexts(req)),
		model:        bytes.Clone(req.Body.Root().Get("model").Raw()),
		includeUsage: req.IncludeUsage,
		object:       textObject,
		idPrefix:     textIDPrefix,
	})
}

// wantedTexts returns how many completions a request asks for.
func wantedTexts(req *schema.Request) int { return req.Prompts() * dialect.WantedChoices(req) }
