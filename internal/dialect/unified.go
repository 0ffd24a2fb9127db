package dialect

import (
	"crypto/rand"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// The objects that a Completion can be.
const (
	CompletionObject = "chat.completion"
	ChunkObject      = "chat.completion.chunk"
)

// Completion writes completions and their chunks in the unified shape:
//
//	Begin, then for each choice Choice, members of its message or delta, and
//	EndChoice, then End or EndWithUsage
//
// The zero value writes nothing until Identify was called.
type Completion struct {
	jsonwrite.Writer

	head []byte // what the completion, or every chunk of it, begins with
}

// Identify sets what identifies the completion: the id without its prefix, as the
// content of a JSON string, which is made here if there is none; when it was
// made; and the client's name of the model as JSON.
func (c *Completion) Identify(object string, id []byte, created int64, model []byte) {
	w := jsonwrite.Writer{Out: make([]byte, 0, headSize+len(id)+len(model))}
	w.Object()
	w.Name("id")
	w.Out = append(w.Out, `"chatcmpl-`...)
	if len(id) > 0 {
		w.Out = append(w.Out, id...)
	} else {
		w.Out = append(w.Out, rand.Text()...)
	}
	w.Literal(`"`)
	w.Name("object")
	w.Plain(object)
	w.Name("created")
	w.Int(created)
	w.Member("model", model)
	w.Name("system_fingerprint")
	w.Literal("null")
	w.Name("choices")
	w.Array()
	c.head = w.Out
}

// headSize is the room for the head of a completion without its id and model.
const headSize = 160

// Identified reports whether Identify was called.
func (c *Completion) Identified() bool { return c.head != nil }

// Begin begins the next chunk.
func (c *Completion) Begin() { c.Writer.Begin(Reuse(c.Out), c.head) }

// BeginWhole begins a whole completion that will have about size bytes, in the memory of
// the reply that it is for; see Reply.Set.
func (c *Completion) BeginWhole(reply *Reply, size int) {
	c.Writer.Begin(reply.Room(len(c.head)+size), c.head)
}

// Choice begins a choice up to the first member of its message or delta, which is
// what member says.
func (c *Completion) Choice(index int64, member string) {
	c.Open(`{"index":`)
	c.Int(index)
	c.Name(member)
	c.Object()
}

// EndChoice ends a choice. The probabilities are elements of a JSON array; an
// empty reason means that the choice has not ended.
func (c *Completion) EndChoice(logprobs []byte, reason string) {
	c.EndObject()
	if len(logprobs) > 0 {
		c.Open(`"logprobs":{"content":[`)
		c.Raw(logprobs)
		c.Close(`],"refusal":null}`)
	} else {
		c.Close(`,"logprobs":null`)
	}
	if reason == "" {
		c.Close(`,"finish_reason":null}`)
		return
	}
	c.Name("finish_reason")
	c.Plain(reason)
	c.EndObject()
}

// End ends a completion or chunk without usage.
func (c *Completion) End() []byte {
	c.Close(`]}`)
	return c.Out
}

// EndWithUsage ends a completion or chunk with its usage, if that is known.
func (c *Completion) EndWithUsage(u Usage) []byte {
	c.EndArray()
	if u.Known {
		c.Name("usage")
		u.Write(&c.Writer)
	}
	c.EndObject()
	return c.Out
}

// Role writes the role, which the first delta of a choice and every message has.
func (c *Completion) Role() { c.Literal(`"role":"assistant"`) }

// Content writes a text, given as the content of a JSON string.
func (c *Completion) Content(text []byte) {
	c.Name("content")
	c.Escaped(text)
}

// NoContent writes that there is no text.
func (c *Completion) NoContent() { c.Literal(`"content":null`) }

// Thinking writes what the model thought, given as the content of a JSON string,
// under both names that clients know.
func (c *Completion) Thinking(text []byte) {
	if len(text) > 0 {
		c.Name("reasoning_content")
		c.Escaped(text)
		c.Name("reasoning")
		c.Escaped(text)
	}
}

// List writes an array, given as its elements, if it has any.
func (c *Completion) List(name string, elements []byte) {
	if len(elements) > 0 {
		c.Name(name)
		c.Array()
		c.Raw(elements)
		c.EndArray()
	}
}

// Usage is what a backend reported of one answer.
type Usage struct {
	schema.Usage
	// Cached counts tokens of the prompt that were found in a cache, and Reasoning
	// those of the completion that were thoughts; below 0 means that it is not told.
	Cached, Reasoning int64
}

// ReadUsage reads the usage of a completion. A part that is not told, or that is more than
// the whole, is 0.
func ReadUsage(v jsonscan.Value) Usage {
	u := Usage{Usage: schema.ReadUsage(v)}
	part := func(group, name string, whole int64) int64 {
		if n, ok := v.Get(group).Get(name).Int(); ok && n > 0 && n <= whole {
			return n
		}
		return 0
	}
	u.Cached = part("prompt_tokens_details", "cached_tokens", u.Prompt)
	u.Reasoning = part("completion_tokens_details", "reasoning_tokens", u.Completion)
	return u
}

// Write writes the usage of a completion.
func (u Usage) Write(w *jsonwrite.Writer) {
	w.Object()
	w.Name("prompt_tokens")
	w.Int(u.Prompt)
	w.Name("completion_tokens")
	w.Int(u.Completion)
	w.Name("total_tokens")
	w.Int(u.Total)
	writeDetail(w, "prompt_tokens_details", "cached_tokens", u.Cached)
	writeDetail(w, "completion_tokens_details", "reasoning_tokens", u.Reasoning)
	w.EndObject()
}

// WriteEmbeddingUsage writes the usage of embeddings, which complete nothing.
func WriteEmbeddingUsage(w *jsonwrite.Writer, u schema.Usage) {
	w.Open(`{"prompt_tokens":`)
	w.Int(u.Prompt)
	w.Name("total_tokens")
	w.Int(u.Total)
	w.EndObject()
}

func writeDetail(w *jsonwrite.Writer, group, name string, n int64) {
	if n < 0 {
		return
	}
	w.Name(group)
	w.Object()
	w.Name(name)
	w.Int(n)
	w.EndObject()
}

// BeginCall begins a tool call up to its arguments, which are a JSON string that
// holds an object. The id and the name of the function are JSON. Calls of a stream
// are numbered; an index below 0 means that the call is part of a whole message.
func BeginCall(w *jsonwrite.Writer, index int, id, name []byte) {
	w.Object()
	if index >= 0 {
		w.Name("index")
		w.Int(int64(index))
	}
	w.Member("id", id)
	w.Open(`"type":"function","function":{`)
	w.Member("name", name)
	w.Name("arguments")
}

// EndCall ends a tool call behind its arguments.
func EndCall(w *jsonwrite.Writer) { w.Close("}}") }
