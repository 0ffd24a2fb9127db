package ollama

import (
	"bytes"
	"errors"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// wholeAnswer collects the lines of an answer.
type wholeAnswer struct {
	answer
	text, thinking  []byte
	calls, logprobs jsonwrite.Writer
}

// Reply makes a completion of an answer, which may be one object or the lines
// of a stream that ended.
func (Chat) Reply(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	w := wholeAnswer{answer: newAnswer()}
	model := req.Body.Root().Get("model").Raw()
	line, err := readLine(&reply.Doc, answer.Body)
	if !errors.Is(err, dialect.ErrInvalid) {
		if err != nil {
			return err
		}
		return w.finishReply(reply, &line, model)
	}
	body := bytes.TrimPrefix(answer.Body, []byte(jsonscan.ByteOrderMark))
	if line, rest := nextLine(body); len(rest) == 0 || !isObject(line) {
		return err
	}
	return w.lines(body, model, reply)
}

// lines reads an answer of several lines.
func (w *wholeAnswer) lines(body, model []byte, reply *dialect.Reply) error {
	for {
		var data []byte
		data, body = nextLine(body)
		if len(data) == 0 {
			return dialect.ErrTruncated
		}
		line, err := readLine(&reply.Doc, data)
		if err != nil {
			return err
		}
		if line.done {
			return w.finishReply(reply, &line, model)
		}
		if err := w.add(&line); err != nil {
			return err
		}
	}
}

// nextLine returns the first line of a body that is not empty, and what
// follows it.
func nextLine(body []byte) (line, rest []byte) {
	body = bytes.TrimLeft(body, " \t\r\n")
	line, rest, _ = bytes.Cut(body, []byte("\n"))
	return bytes.TrimRight(line, " \t\r"), bytes.TrimSpace(rest)
}

// isObject reports whether a line may be an object rather than a piece of one.
func isObject(line []byte) bool {
	return len(line) > 1 && line[0] == '{' && line[len(line)-1] == '}'
}

// add adds what a line says to the answer.
func (w *wholeAnswer) add(line *answerLine) error {
	if err := w.saw(line); err != nil {
		return err
	}
	w.text = append(w.text, line.text...)
	w.thinking = append(w.thinking, line.thinking...)
	writeLogprobs(&w.logprobs, line.logprobs)
	return w.writeCalls(&w.calls, line.calls, false)
}

// finishReply writes the completion after its last line.
func (w *wholeAnswer) finishReply(reply *dialect.Reply, line *answerLine, model []byte) error {
	if !line.done {
		return dialect.ErrTruncated
	}
	if err := w.add(line); err != nil {
		return err
	}
	w.identify(dialect.CompletionObject, line.created, model)
	w.out.BeginWhole(2*len(w.thinking) + len(w.text) + len(w.calls.Out) + len(w.logprobs.Out) + 512)
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
	w.out.EndChoice(w.logprobs.Out, w.finish(line.reason))
	reply.Usage = line.usage()
	reply.Segments = append(reply.Segments[:0], w.out.EndWithUsage(unified(reply.Usage)))
	return nil
}
