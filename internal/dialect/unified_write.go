package dialect

import (
	"bytes"
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// unified speaks the unified API towards clients, in front of backends with translated
// answers.
var unified = &Client{Reply: replyUnified, Events: eventsUnified}

// replyUnified writes an answer as a completion.
func replyUnified(req *schema.Request, answer *chat.Answer, reply *Reply) error {
	w := jsonwrite.Writer{Out: reply.Room(answer.Size())}
	answer.Write(&w, req.ModelJSON())
	reply.Set(w.Out)
	return nil
}

// eventsUnified writes deltas as chunks of a completion.
func eventsUnified(req *schema.Request, from Deltas) *Stream {
	return &Stream{Events: &unifiedEvents{
		from: from, model: bytes.Clone(req.ModelJSON()), includeUsage: req.IncludeUsage,
	}}
}

// unifiedEvents writes the chunks of a completion.
type unifiedEvents struct {
	from         Deltas
	model        []byte // the caller's name of it, as JSON
	includeUsage bool   // the usage is still to be told
	head         []byte // the beginning of every chunk
	w            jsonwrite.Writer
	hasContent   bool // a delta had some
}

// Usage returns the usage that the backend has reported so far.
func (e *unifiedEvents) Usage() schema.Usage { return e.from.Usage().Tokens }

// HasContent reports whether a chunk had content.
func (e *unifiedEvents) HasContent() bool { return e.hasContent }

// Next returns the chunk of the next delta, or at the end the chunk of the usage.
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
	e.hasContent = e.hasContent || delta.HasContent()
	return e.chunk(delta), nil
}

func (e *unifiedEvents) chunk(delta *chat.Delta) []byte {
	if e.head == nil {
		head := jsonwrite.Writer{Out: make([]byte, 0, 160+len(delta.ID)+len(e.model))}
		delta.WriteHead(&head, "chat.completion.chunk", e.model)
		e.head = head.Out
	}
	e.w.Begin(e.w.Out, e.head)
	delta.WriteChunk(&e.w)
	return e.w.Out
}

// WriteEmbeddingUsage writes the usage of embeddings, which complete nothing.
func WriteEmbeddingUsage(w *jsonwrite.Writer, u schema.Usage) {
	w.Open(`{"prompt_tokens":`).Int(u.Prompt)
	w.Name("total_tokens").Int(u.Total)
	w.EndObject()
}
