package ollama

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// wholeAnswer collects the lines of an answer.
type wholeAnswer struct {
	answer
	model           []byte // the caller's name of the model, as JSON
	text, thinking  []byte
	calls, logprobs jsonwrite.Writer
}

// replyChat makes a completion of an answer, which may be one object or the lines
// of a stream that ended.
func replyChat(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	w := wholeAnswer{answer: newAnswer(), model: req.Body.Root().Get("model").Raw()}
	return readReply(answer.Body, &w, reply)
}

// add adds what a line says to the answer.
func (w *wholeAnswer) add(line *answerLine) error {
	if err := w.saw(line); err != nil {
		return err
	}
	w.text = addText(w.text, line.text)
	w.thinking = addText(w.thinking, line.thinking)
	writeLogprobs(&w.logprobs, line.logprobs)
	return w.writeCalls(&w.calls, line.calls, false)
}

// addText adds the text of a line to those of the lines before. That of the first line,
// mostly the only one, is not copied: it is a part of the answer, which is there until the
// reply is written.
func addText(before, text []byte) []byte {
	if len(before) == 0 {
		return text
	}
	return append(before, text...)
}

// finish writes the completion.
func (w *wholeAnswer) finish(line *answerLine, reply *dialect.Reply) {
	w.identify(dialect.CompletionObject, line.created, w.model)
	w.out.BeginWhole(reply, 2*len(w.thinking)+len(w.text)+len(w.calls.Out)+len(w.logprobs.Out)+512)
	w.out.Choice(0, "message")
	w.out.Role()
	if len(w.text) == 0 && len(w.calls.Out) > 0 {
		w.out.NoContent()
	} else {
		w.out.Content(w.text)
	}
	w.out.Member("refusal", []byte("null"))
	w.out.Thinking(w.thinking)
	w.out.List("tool_calls", w.calls.Out)
	w.out.EndChoice(w.logprobs.Out, w.finishReason(line.reason))
	reply.Usage = line.usage()
	reply.Set(w.out.EndWithUsage(unified(reply.Usage)))
}
