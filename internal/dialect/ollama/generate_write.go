package ollama

import (
	"bytes"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// textWriter writes the completion of a text, or chunks of it, in the shape that
// OpenAI gives them.
type textWriter struct {
	answer
	model []byte // the caller's name of the model, as JSON
	head  []byte // what the completion and its chunks begin with
	buf   jsonwrite.Writer

	text          []byte // what was read and not written, as the content of a JSON string
	probabilities probabilities
}

func newTextWriter(req *schema.Request) textWriter {
	w := textWriter{answer: newAnswer(), model: bytes.Clone(req.Body.Root().Get("model").Raw())}
	if echoes(req) {
		w.text = bytes.Clone(dialect.RawText(promptOf(req)))
	}
	return w
}

// add adds what a line says.
func (w *textWriter) add(line *answerLine) error {
	if err := w.saw(line); err != nil {
		return err
	}
	if w.head == nil {
		w.begin(line.created)
	}
	w.text = addText(w.text, line.text)
	w.probabilities.add(line.logprobs)
	return nil
}

// finish writes the completion.
func (w *textWriter) finish(line *answerLine, reply *dialect.Reply) {
	reply.Usage = line.usage()
	w.buf.Out = reply.Room(len(w.head) + len(w.text) + w.probabilities.size() + 256)
	reply.Set(w.write(w.finishReason(line.reason), reply.Usage, false))
}

func (w *textWriter) usageChunk(usage schema.Usage) []byte { return w.write("", usage, true) }

func (w *textWriter) chunk(line *answerLine) ([]byte, error) {
	if err := w.add(line); err != nil {
		return nil, err
	}
	reason := ""
	if line.done {
		reason = w.finishReason(line.reason)
	} else if len(w.text) == 0 && w.probabilities.empty() {
		return nil, nil // the model thinks, of which completions tell nothing
	}
	return w.write(reason, schema.Usage{}, false), nil
}

// begin writes the head, with the time of the first line.
func (w *textWriter) begin(created jsonscan.Value) {
	head := jsonwrite.Writer{Out: make([]byte, 0, 128+len(w.model))}
	head.Object()
	head.Name("id")
	head.Plain("cmpl-" + w.id)
	head.Literal(`"object":"text_completion"`)
	head.Name("created")
	head.Int(createdAt(created))
	head.Member("model", w.model)
	head.Name("choices")
	head.Array()
	w.head = head.Out
}

// write returns what was taken as a completion or a chunk, with usage if that is
// known. An empty reason means that the completion has not ended. The last chunk may
// have nothing but usage.
func (w *textWriter) write(reason string, usage schema.Usage, usageOnly bool) []byte {
	w.buf.Begin(dialect.Reuse(w.buf.Out), w.head)
	if !usageOnly {
		w.buf.Object()
		w.buf.Literal(`"index":0`)
		w.buf.Name("text")
		w.buf.Escaped(w.text)
		w.buf.Name("logprobs")
		w.probabilities.write(&w.buf)
		w.buf.Name("finish_reason")
		if reason == "" {
			w.buf.Literal("null")
		} else {
			w.buf.Plain(reason)
		}
		w.buf.EndObject()
	}
	w.buf.EndArray()
	if usage.Known {
		w.buf.Name("usage")
		unified(usage).Write(&w.buf)
	}
	w.buf.EndObject()
	w.text = dialect.Reuse(w.text)
	return w.buf.Out
}

// probabilities are those of the tokens of a completion, in the four lists that
// OpenAI's completions have.
type probabilities struct {
	tokens, logprobs, tops, offsets jsonwrite.Writer
	offset                          int64 // where the next token begins in the text, in characters
}

// size returns about how long the lists are.
func (p *probabilities) size() int {
	return len(p.tokens.Out) + len(p.logprobs.Out) + len(p.tops.Out) + len(p.offsets.Out)
}

func (p *probabilities) empty() bool { return len(p.tokens.Out) == 0 }

// add adds the tokens of a line.
func (p *probabilities) add(list jsonscan.Value) {
	for token := list.First(); token.Kind() == jsonscan.Object; token = token.Next() {
		text, logprob := token.Get("token"), token.Get("logprob")
		if text.Kind() != jsonscan.String || logprob.Kind() != jsonscan.Number {
			continue
		}
		p.tokens.Raw(text.Raw())
		p.logprobs.Raw(logprob.Raw())
		p.offsets.Int(p.offset)
		p.offset += int64(utf8.RuneCount(text.Text()))
		p.tops.Object()
		var doc jsonscan.Document
		for top := dialect.Rescan(&doc, token.Get("top_logprobs")).First(); top.Kind() == jsonscan.Object; top = top.Next() {
			if name := top.Get("token"); name.Kind() == jsonscan.String && top.Get("logprob").Kind() == jsonscan.Number {
				p.tops.TextName(string(name.Text()))
				p.tops.Raw(top.Get("logprob").Raw())
			}
		}
		p.tops.EndObject()
	}
}

// write writes the lists, or null where there is nothing in them, and empties them.
func (p *probabilities) write(w *jsonwrite.Writer) {
	if p.empty() {
		w.Literal("null")
		return
	}
	w.Object()
	for _, list := range []struct {
		name string
		from *jsonwrite.Writer
	}{{"tokens", &p.tokens}, {"token_logprobs", &p.logprobs}, {"top_logprobs", &p.tops}, {"text_offset", &p.offsets}} {
		w.Name(list.name)
		w.Array()
		w.Raw(list.from.Out)
		w.EndArray()
		list.from.Begin(list.from.Out[:0], nil)
	}
	w.EndObject()
}
