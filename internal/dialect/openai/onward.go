package openai

import (
	"bytes"
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/chat"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// onward writes what another answer adds to a completion that broke off.
type onward struct {
	from dialect.Deltas
	head []byte // what every chunk begins with
	w    jsonwrite.Writer
}

// CanResume implements dialect.Resumer.
func (e *events) CanResume() bool { return e.id != nil && e.created != nil && !e.usageSent }

// Resume implements dialect.Resumer. Chunks of another answer have an id and a time of their
// own, so that what follows is written here.
func (e *events) Resume(_ *schema.Request, from dialect.Deltas) {
	e.chunk, e.segments, e.edits, e.mended, e.template = nil, nil, nil, nil, chunkTemplate{}
	e.reader = reader{wanted: e.wanted}
	if e.onward != nil {
		e.onward.from = from
		return
	}
	var w jsonwrite.Writer
	w.Object()
	for _, member := range [][]byte{e.id, e.object, e.created} {
		w.Raw(member)
	}
	w.Member("model", e.model)
	if !e.completesText() {
		w.Raw(nullFingerprint)
	}
	w.Name("choices")
	w.Array()
	e.onward = &onward{from: from, head: w.Out}
}

// completesText reports whether the chunks are those of a text and not of a chat.
func (e *events) completesText() bool { return bytes.Equal(e.object, textObject) }

// nextOnward returns the chunk of what another answer adds, or at the end that of the usage.
func (e *events) nextOnward() ([]byte, error) {
	o := e.onward
	o.w.Begin(dialect.Reuse(o.w.Out), nil)
	delta, err := o.from.Next()
	if errors.Is(err, io.EOF) && e.includeUsage && !e.usageSent {
		e.usageSent = true
		if usage := o.from.Usage(); usage.Known {
			return e.writeOnward(&chat.Answer{Usage: usage}), nil
		}
	}
	if err != nil {
		return nil, err
	}
	e.hasContent = e.hasContent || delta.HasContent()
	return e.writeOnward(delta), nil
}

// writeOnward writes a delta as a chunk.
func (e *events) writeOnward(delta *chat.Delta) []byte {
	w := &e.onward.w
	w.Begin(w.Out, e.onward.head)
	if !e.completesText() {
		delta.WriteChunk(w)
		return w.Out
	}
	for i := range delta.Choices {
		writeText(w, &delta.Choices[i])
	}
	w.EndArray()
	if delta.Usage.Known {
		w.Name("usage")
		delta.Usage.Write(w)
	}
	w.EndObject()
	return w.Out
}

// writeText writes a choice of the completion of a text.
func writeText(w *jsonwrite.Writer, c *chat.Choice) {
	w.Open(`{"index":`)
	w.Int(c.Index)
	w.Name("text")
	w.Escaped(c.Text)
	w.Literal(`"logprobs":null`)
	w.Name("finish_reason")
	if c.Finish == "" {
		w.Literal("null")
	} else {
		w.Plain(string(c.Finish))
	}
	w.EndObject()
}
