package openai

import (
	"bytes"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Completion passes requests for the completion of texts on. They have the options of
// a chat, and their chunks the shape of the whole answer.
var Completion = &dialect.Adapter{
	Call: callChat, Continues: continuesText, Reply: replyCompletion, Events: eventsCompletion,
	Split:  dialect.SplitText,
	Decode: decodeTexts, DecodeStream: decodeTextStream,
}

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
		model:        bytes.Clone(req.ModelJSON()),
		includeUsage: req.IncludeUsage,
		object:       textObject,
		idPrefix:     textIDPrefix,
	})
}

// decodeTexts reads whole completions of texts.
func decodeTexts(req *schema.Request, body []byte, doc *jsonscan.Document, to *chat.Answer) error {
	root, err := dialect.Parse(doc, body)
	if err != nil {
		return err
	}
	if err := dialect.FailureIn(root); err != nil {
		return err
	}
	to.ID, to.Usage = chat.TextIn(root, "id"), readUsage(root.Get("usage"))
	readTimings(root.Get("timings"), &to.Usage.Tokens)
	for c := range root.Get("choices").All() {
		index, ok := c.Get("index").Int()
		if !ok {
			index = int64(len(to.Choices))
		}
		readText(to.Add(index), c)
	}
	return dialect.CheckChoices(len(to.Choices), wantedTexts(req))
}

// decodeTextStream reads the chunks of completions of texts.
func decodeTextStream(req *schema.Request, body io.Reader) dialect.Deltas {
	return &deltas{reader: newReader(body, wantedTexts(req)), completesText: true}
}

// readText reads a choice of the completion of a text.
func readText(to *chat.Choice, choice jsonscan.Value) {
	to.Text = chat.TextIn(choice, "text")
	to.Finish = chat.FinishReason(choice.TextOf("finish_reason"))
}

// wantedTexts returns how many completions a request asks for.
func wantedTexts(req *schema.Request) int { return req.Prompts() * dialect.WantedChoices(req) }
