package ollama

import (
	"bytes"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// replyGenerate writes an answer as the completion of a text, in the shape that OpenAI
// gives it.
func replyGenerate(req *schema.Request, answer dialect.Answer, reply *dialect.Reply) error {
	var whole chat.Answer
	if err := decode(req, answer.Body, &reply.Doc, &whole); err != nil {
		return err
	}
	w := newTextWriter(req)
	w.Out = reply.Room(len(answer.Body) + len(w.before) + 256)
	reply.Set(w.write(&whole))
	reply.Usage = whole.Usage.Tokens
	return nil
}

// eventsGenerate writes the chunks of such a completion.
func eventsGenerate(req *schema.Request, body io.Reader) *dialect.Stream {
	w := newTextWriter(req)
	return &dialect.Stream{Events: &dialect.Chunks{From: decodeStream(req, body), Writer: &w,
		IncludeUsage: req.IncludeUsage}}
}

// Restart implements dialect.ChunkWriter.
func (w *textWriter) Restart() { w.Out = dialect.Reuse(w.Out) }

// Chunk implements dialect.ChunkWriter. Completions tell nothing of the model's thinking.
func (w *textWriter) Chunk(delta *chat.Delta) []byte {
	said := delta.First()
	if said != nil && len(w.before)+len(said.Text)+len(said.Logprobs) == 0 && said.Finish == "" {
		return nil
	}
	return w.write(delta)
}

// textWriter writes the completion of a text, or chunks of it.
type textWriter struct {
	jsonwrite.Writer
	model         []byte // the caller's name of the model, as JSON
	head          []byte // the beginning of the completion and of its chunks
	before        []byte // the members before the text
	probabilities probabilities
}

func newTextWriter(req *schema.Request) textWriter {
	w := textWriter{model: bytes.Clone(req.ModelJSON())}
	if echoes(req) {
		w.before = bytes.Clone(chat.TextOf(promptOf(req)))
	}
	return w
}

// begin writes the head.
func (w *textWriter) begin(answer *chat.Answer) {
	head := jsonwrite.Writer{Out: make([]byte, 0, 128+len(w.model))}
	head.Open(`{"id":`).Plain("cmpl-" + string(answer.ID[len(chat.IDPrefix):]))
	head.Literal(`"object":"text_completion"`)
	head.Name("created").Int(answer.Created)
	head.Member("model", w.model)
	head.Name("choices").Array()
	w.head = head.Out
}

// write returns an answer as a completion, or a delta as a chunk.
func (w *textWriter) write(answer *chat.Answer) []byte {
	if w.head == nil {
		w.begin(answer)
	}
	w.Begin(w.Out, w.head)
	if c := answer.First(); c != nil {
		w.Object()
		w.Literal(`"index":0`)
		w.Name("text").Escaped(chat.Join(w.before, c.Text))
		w.before = nil
		w.Name("logprobs")
		w.probabilities.write(&w.Writer, c.Logprobs)
		w.Name("finish_reason").EscapedOrNull([]byte(c.Finish))
		w.EndObject()
	}
	w.EndArray()
	if answer.Usage.Known {
		w.Name("usage")
		answer.Usage.Write(&w.Writer)
	}
	w.EndObject()
	return w.Out
}

// probabilities are the probabilities of the tokens of a completion, in the four lists
// that OpenAI's completions have.
type probabilities struct {
	tokens, logprobs, tops, offsets jsonwrite.Writer
	offset                          int64 // where the next token begins in the text, in characters
}

// add adds tokens, which are elements of a JSON array.
func (p *probabilities) add(elements []byte) {
	doc := jsonscan.Document{AllowDuplicateKeys: true, Deep: true}
	if doc.Parse(slices.Concat([]byte{'['}, elements, []byte{']'})) != nil {
		return // they were written from scanned values
	}
	for token := doc.Root().First(); token.Kind() == jsonscan.Object; token = token.Next() {
		text, logprob := token.Get("token"), token.Get("logprob")
		if text.Kind() != jsonscan.String || logprob.Kind() != jsonscan.Number {
			continue
		}
		p.tokens.Raw(text.Raw())
		p.logprobs.Raw(logprob.Raw())
		p.offsets.Int(p.offset)
		p.offset += int64(utf8.RuneCount(text.Text()))
		p.tops.Object()
		for top := token.Get("top_logprobs").First(); top.Kind() == jsonscan.Object; top = top.Next() {
			if name := top.Get("token"); name.Kind() == jsonscan.String &&
				top.Get("logprob").Kind() == jsonscan.Number {
				p.tops.TextName(string(name.Text())).Raw(top.Get("logprob").Raw())
			}
		}
		p.tops.EndObject()
	}
}

// write writes the lists of some tokens, or null where there is nothing in them.
func (p *probabilities) write(w *jsonwrite.Writer, elements []byte) {
	if len(elements) > 0 {
		p.add(elements)
	}
	if len(p.tokens.Out) == 0 {
		w.Literal("null")
		return
	}
	w.Object()
	for _, list := range []struct {
		name string
		from *jsonwrite.Writer
	}{{"tokens", &p.tokens}, {"token_logprobs", &p.logprobs}, {"top_logprobs", &p.tops}, {"text_offset", &p.offsets}} {
		w.Name(list.name).Array()
		w.Raw(list.from.Out)
		w.EndArray()
		list.from.Begin(list.from.Out[:0], nil)
	}
	w.EndObject()
}
