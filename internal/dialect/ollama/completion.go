package ollama

import (
	"bytes"
	"errors"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// wholeAnswer collects the lines of an answer.
type wholeAnswer struct {
	answer
	text, thinking, calls, logprobs []byte
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

// add takes in a line.
func (w *wholeAnswer) add(line *answerLine) (err error) {
	if err := w.saw(line); err != nil {
		return err
	}
	w.text = append(w.text, line.text...)
	w.thinking = append(w.thinking, line.thinking...)
	w.logprobs = appendLogprobs(w.logprobs, line.logprobs)
	w.calls, err = w.appendCalls(w.calls, line.calls, false)
	return err
}

// finishReply writes the completion after its last line.
func (w *wholeAnswer) finishReply(reply *dialect.Reply, line *answerLine, model []byte) error {
	if !line.done {
		return dialect.ErrTruncated
	}
	if err := w.add(line); err != nil {
		return err
	}
	out := w.head(nil, "chat.completion", line.created, model)
	out = append(out, `{"index":0,"message":{"role":"assistant","content":`...)
	if len(w.text) == 0 && len(w.calls) > 0 {
		out = append(out, `null`...)
	} else {
		out = appendText(out, w.text)
	}
	out = append(out, `,"refusal":null`...)
	out = appendThinking(out, w.thinking)
	if len(w.calls) > 0 {
		out = append(out, `,"tool_calls":[`...)
		out = append(out, w.calls...)
		out = append(out, ']')
	}
	out = append(out, `},"logprobs":`...)
	if len(w.logprobs) > 0 {
		out = append(out, `{"content":[`...)
		out = append(out, w.logprobs...)
		out = append(out, `],"refusal":null}`...)
	} else {
		out = append(out, `null`...)
	}
	out = append(out, `,"finish_reason":"`+w.finish(line.reason)+`"}]`...)
	if reply.Usage = line.usage(); reply.Usage.Known {
		out = append(out, `,"usage":`...)
		out = appendUsage(out, reply.Usage)
	}
	out = append(out, '}')
	reply.Segments = append(reply.Segments[:0], out)
	return nil
}

// appendText appends a text whose escapes are still there.
func appendText(dst, text []byte) []byte {
	dst = append(dst, '"')
	dst = append(dst, text...)
	return append(dst, '"')
}

// appendThinking appends the thinking, under both names that clients know.
func appendThinking(dst, thinking []byte) []byte {
	if len(thinking) == 0 {
		return dst
	}
	dst = append(dst, `,"reasoning_content":`...)
	dst = appendText(dst, thinking)
	dst = append(dst, `,"reasoning":`...)
	return appendText(dst, thinking)
}
