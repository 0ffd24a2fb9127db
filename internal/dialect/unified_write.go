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
	w := &unifiedWriter{model: bytes.Clone(req.ModelJSON())}
	return &Stream{Events: &Chunks{From: from, Writer: w, IncludeUsage: req.IncludeUsage}}
}

// Chunks is a stream of the chunks of a completion, which are written from deltas.
type Chunks struct {
	From   Deltas
	Writer ChunkWriter
	// IncludeUsage means that the usage is still to be told in a chunk of its own.
	IncludeUsage bool

	hasContent bool // a chunk had some
	begun      bool // a chunk was written
}

// ChunkWriter writes chunks.
type ChunkWriter interface {
	// Restart gives up the memory of a large chunk, because the stream may wait.
	Restart()
	// Chunk returns the chunk of a delta, nil if the client gets nothing of it.
	Chunk(delta *chat.Delta) []byte
}

// Usage returns the usage that the backend has reported so far.
func (c *Chunks) Usage() schema.Usage { return c.From.Usage().Tokens }

// HasContent reports whether a chunk had content.
func (c *Chunks) HasContent() bool { return c.hasContent }

// Record makes a transcript of the texts.
func (c *Chunks) Record(to *chat.Transcript) { c.From = Recorded(c.From, to) }

// CanResume implements Resumer.
func (c *Chunks) CanResume() bool { return c.begun }

// Resume implements Resumer.
func (c *Chunks) Resume(_ *schema.Request, from Deltas) { c.From = from }

// Next returns the chunk of the next delta, or at the end the chunk of the usage.
func (c *Chunks) Next() ([]byte, error) {
	for {
		c.Writer.Restart()
		delta, err := c.From.Next()
		if errors.Is(err, io.EOF) && c.IncludeUsage {
			c.IncludeUsage = false
			if usage := c.From.Usage(); usage.Known {
				return c.Writer.Chunk(&chat.Answer{Usage: usage}), nil
			}
		}
		if err != nil {
			return nil, err
		}
		if chunk := c.Writer.Chunk(delta); chunk != nil {
			c.hasContent, c.begun = c.hasContent || delta.HasContent(), true
			return chunk, nil
		}
	}
}

// unifiedWriter writes the chunks of the completion of a chat.
type unifiedWriter struct {
	w     jsonwrite.Writer
	model []byte // the caller's name of it, as JSON
	head  []byte // the beginning of every chunk
}

// Restart implements ChunkWriter.
func (u *unifiedWriter) Restart() { u.w.Begin(Reuse(u.w.Out), nil) }

// Chunk implements ChunkWriter.
func (u *unifiedWriter) Chunk(delta *chat.Delta) []byte {
	if u.head == nil {
		head := jsonwrite.Writer{Out: make([]byte, 0, 160+len(delta.ID)+len(u.model))}
		delta.WriteHead(&head, "chat.completion.chunk", u.model)
		u.head = head.Out
	}
	u.w.Begin(u.w.Out, u.head)
	delta.WriteChunk(&u.w)
	return u.w.Out
}

// WriteEmbeddingUsage writes the usage of embeddings, which complete nothing.
func WriteEmbeddingUsage(w *jsonwrite.Writer, u schema.Usage) {
	w.Open(`{"prompt_tokens":`).Int(u.Prompt)
	w.Name("total_tokens").Int(u.Total)
	w.EndObject()
}
