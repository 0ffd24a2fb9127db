package dialect

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"time"

	"github.com/patchbay-ai/patchbay/internal/chat"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// unified speaks the unified API towards clients, in front of backends whose answers are
// translated.
var unified = &Client{Reply: replyUnified, Events: eventsUnified}

// replyUnified writes an answer as a completion.
func replyUnified(req *schema.Request, answer *chat.Answer, reply *Reply) error {
	size := headSize
	for i := range answer.Choices {
		size += sizeOf(&answer.Choices[i])
	}
	w := jsonwrite.Writer{Out: reply.Room(size)}
	writeHead(&w, "chat.completion", answer, req.Body.Root().Get("model").Raw())
	for i := range answer.Choices {
		c := &answer.Choices[i]
		beginChoice(&w, c, "message")
		w.Literal(`"role":"assistant"`)
		w.Name("content")
		if len(c.Text) == 0 && (len(c.Calls) > 0 || len(c.Refusal) > 0) {
			w.Literal("null")
		} else {
			w.Escaped(c.Text)
		}
		w.Name("refusal")
		if len(c.Refusal) > 0 {
			w.Escaped(c.Refusal)
		} else {
			w.Literal("null")
		}
		writeExtras(&w, c, false)
		endChoice(&w, c)
	}
	w.EndArray()
	writeUsage(&w, &answer.Usage)
	w.EndObject()
	reply.Set(w.Out)
	return nil
}

// headSize is the room for what a completion has besides its choices.
const headSize = 512

// sizeOf returns about how long a choice is when it is written.
func sizeOf(c *chat.Choice) int {
	size := 256 + len(c.Text) + 2*len(c.Thinking) + len(c.Refusal) + len(c.Logprobs) + len(c.Extra)
	for i := range c.Calls {
		call := &c.Calls[i]
		size += 96 + len(call.ID) + len(call.Name) + len(call.Arguments) + len(call.Extra)
	}
	for _, list := range [...][][]byte{c.Images, c.Blocks, c.Details} {
		for _, element := range list {
			size += 64 + len(element)
		}
	}
	return size
}

// eventsUnified writes deltas as chunks of a completion.
func eventsUnified(req *schema.Request, from Deltas) *Stream {
	return &Stream{Events: &unifiedEvents{
		from: from, model: bytes.Clone(req.Body.Root().Get("model").Raw()), includeUsage: req.IncludeUsage,
	}}
}

// unifiedEvents writes the chunks of a completion.
type unifiedEvents struct {
	from         Deltas
	model        []byte // the caller's name of it, as JSON
	includeUsage bool   // the usage is still to be told
	head         []byte // what every chunk begins with
	w            jsonwrite.Writer
}

// Usage returns what the backend has reported so far.
func (e *unifiedEvents) Usage() schema.Usage { return e.from.Usage().Usage }

// Next returns the chunk of the next delta, or at the end that of the usage.
func (e *unifiedEvents) Next() ([]byte, error) {
	e.w.Begin(Reuse(e.w.Out), nil) // nothing large is kept while the stream waits
	delta, err := e.from.Next()
	if errors.Is(err, io.EOF) && e.includeUsage {
		e.includeUsage = false
		if usage := e.from.Usage(); usage.Known {
			return e.chunk(&chat.Answer{Usage: usage}), nil
		}
	}
	if err != nil {
		return nil, err
	}
	return e.chunk(delta), nil
}

func (e *unifiedEvents) chunk(delta *chat.Delta) []byte {
	if e.head == nil {
		head := jsonwrite.Writer{Out: make([]byte, 0, 160+len(delta.ID)+len(e.model))}
		writeHead(&head, "chat.completion.chunk", delta, e.model)
		e.head = head.Out
	}
	w := &e.w
	w.Begin(w.Out, e.head)
	for i := range delta.Choices {
		c := &delta.Choices[i]
		beginChoice(w, c, "delta")
		if c.Begins {
			w.Literal(`"role":"assistant"`)
		}
		if c.Text != nil {
			w.Name("content")
			w.Escaped(c.Text)
		} else if c.HasNoText {
			w.Literal(`"content":null`)
		}
		if len(c.Refusal) > 0 {
			w.Name("refusal")
			w.Escaped(c.Refusal)
		}
		writeExtras(w, c, true)
		endChoice(w, c)
	}
	w.EndArray()
	writeUsage(w, &delta.Usage)
	w.EndObject()
	return w.Out
}

// writeHead writes the beginning of a completion, or of every chunk of it, up to its
// choices. An id is made for one that has none.
func writeHead(w *jsonwrite.Writer, object string, answer *chat.Answer, model []byte) {
	w.Object()
	w.Name("id")
	if len(answer.ID) > 0 {
		w.Escaped(answer.ID)
	} else {
		w.Plain(ChatID + rand.Text())
	}
	w.Name("object")
	w.Plain(object)
	w.Name("created")
	if answer.Created > 0 {
		w.Int(answer.Created)
	} else {
		w.Int(time.Now().Unix())
	}
	w.Member("model", model)
	w.Literal(`"system_fingerprint":null`)
	w.Name("choices")
	w.Array()
}

// ChatID is what the ids of completions begin with.
const ChatID = "chatcmpl-"

// beginChoice begins a choice up to the first member of its message or delta.
func beginChoice(w *jsonwrite.Writer, c *chat.Choice, said string) {
	w.Open(`{"index":`)
	w.Int(c.Index)
	w.Name(said)
	w.Object()
}

// endChoice ends a choice behind its message or delta.
func endChoice(w *jsonwrite.Writer, c *chat.Choice) {
	w.EndObject()
	if len(c.Logprobs) > 0 {
		w.Open(`"logprobs":{"content":[`)
		w.Raw(c.Logprobs)
		w.Close(`],"refusal":null}`)
	} else {
		w.Literal(`"logprobs":null`)
	}
	if c.Finish == "" {
		w.Literal(`"finish_reason":null`)
	} else {
		w.Name("finish_reason")
		w.Plain(string(c.Finish))
	}
	w.EndObject()
}

// writeExtras writes what a message or delta has besides texts for the user. Clients know
// the model's thinking under two names. The calls of a delta are numbered.
func writeExtras(w *jsonwrite.Writer, c *chat.Choice, numbered bool) {
	if len(c.Thinking) > 0 {
		w.Name("reasoning_content")
		w.Escaped(c.Thinking)
		w.Name("reasoning")
		w.Escaped(c.Thinking)
	}
	writeList(w, "thinking_blocks", c.Blocks)
	if len(c.Calls) > 0 {
		w.Name("tool_calls")
		w.Array()
		for i := range c.Calls {
			writeCall(w, &c.Calls[i], numbered)
		}
		w.EndArray()
	}
	if len(c.Images) > 0 {
		w.Name("images")
		w.Array()
		for _, address := range c.Images {
			w.Open(`{"type":"image_url","image_url":{"url":`)
			w.Escaped(address)
			w.Close("}}")
		}
		w.EndArray()
	}
	if c.Extra != nil {
		w.Member("extra_content", c.Extra)
	}
}

func writeList(w *jsonwrite.Writer, name string, elements [][]byte) {
	if len(elements) == 0 {
		return
	}
	w.Name(name)
	w.Array()
	for _, element := range elements {
		w.Raw(element)
	}
	w.EndArray()
}

// writeCall writes a tool call, or a piece of one, which has nothing but arguments.
func writeCall(w *jsonwrite.Writer, call *chat.ToolCall, numbered bool) {
	w.Object()
	if numbered {
		w.Name("index")
		w.Int(call.Index)
	}
	if len(call.ID) > 0 {
		w.Name("id")
		w.Escaped(call.ID)
		w.Open(`"type":"function","function":{"name":`)
		w.Escaped(call.Name)
	} else {
		w.Open(`"function":{`)
	}
	w.Name("arguments")
	w.Escaped(call.Arguments)
	w.EndObject()
	if call.Extra != nil {
		w.Member("extra_content", call.Extra)
	}
	w.EndObject()
}

// writeUsage writes the usage of a completion, if it is known.
func writeUsage(w *jsonwrite.Writer, u *chat.Usage) {
	if u.Known {
		w.Name("usage")
		WriteUsage(w, u)
	}
}

// WriteUsage writes the usage of a completion.
func WriteUsage(w *jsonwrite.Writer, u *chat.Usage) {
	w.Open(`{"prompt_tokens":`)
	w.Int(u.Prompt)
	w.Name("completion_tokens")
	w.Int(u.Completion)
	w.Name("total_tokens")
	w.Int(u.Total)
	writeDetail(w, `"prompt_tokens_details":{"cached_tokens":`, u.Cached)
	writeDetail(w, `"completion_tokens_details":{"reasoning_tokens":`, u.Reasoning)
	w.EndObject()
}

func writeDetail(w *jsonwrite.Writer, begin string, n int64) {
	if n >= 0 {
		w.Open(begin)
		w.Int(n)
		w.EndObject()
	}
}

// WriteEmbeddingUsage writes the usage of embeddings, which complete nothing.
func WriteEmbeddingUsage(w *jsonwrite.Writer, u schema.Usage) {
	w.Open(`{"prompt_tokens":`)
	w.Int(u.Prompt)
	w.Name("total_tokens")
	w.Int(u.Total)
	w.EndObject()
}
