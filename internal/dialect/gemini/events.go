package gemini

import (
	"bytes"
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// events turns a stream of partial answers into chunks. How a candidate
// ended is told last of all: some servers go on after they said it, and calls
// may still come.
type events struct {
	sse          *dialect.SSE
	answer       partialAnswer
	includeUsage bool

	done      bool // nothing more is read
	ended     bool // the last chunk of the choices went out
	usageSent bool
	err       error // what ended the stream for good
}

// newEvents reads server-sent events of partial answers.
func newEvents(req *schema.Request, body io.Reader) *dialect.Stream {
	return &dialect.Stream{Events: &events{
		sse:          dialect.NewSSE(body),
		answer:       partialAnswer{model: bytes.Clone(req.Body.Root().Get("model").Raw()), object: dialect.ChunkObject},
		includeUsage: req.IncludeUsage,
	}}
}

// Usage returns the last report.
func (e *events) Usage() schema.Usage { return e.answer.usage.Usage.Usage }

// Next returns the next chunk for the caller.
func (e *events) Next() ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	chunk, err := e.next()
	e.err = err
	return chunk, err
}

func (e *events) next() ([]byte, error) {
	for !e.done {
		dialect.DropLarge(&e.answer.doc, &e.answer.content, &e.answer.inner)
		event, err := e.sse.Next()
		switch {
		case err != nil:
			if !errors.Is(err, io.EOF) && !e.complete() {
				return nil, err
			}
			// An unclean end takes nothing from an answer that was complete.
			e.done = true
		case dialect.IsDone(event.Data): // the dialect has none, but proxies add it
			e.done = true
		default:
			if err := event.Failure(); err != nil {
				return nil, err
			}
			err := e.answer.take(event.Data)
			if (e.sse.Cut() || e.complete()) && errors.Is(err, dialect.ErrInvalid) {
				e.done = true // half an event, or noise: the stream ended there
				continue
			}
			if err != nil {
				return nil, err
			}
			if chunk := e.chunk(); chunk != nil {
				return chunk, nil
			}
		}
	}
	if !e.ended {
		if err := e.answer.settle(dialect.ErrTruncated); err != nil {
			return nil, err
		}
		e.ended = true
		return e.lastChunk(), nil
	}
	if e.includeUsage && !e.usageSent && e.answer.usage.Known {
		e.usageSent = true
		e.answer.out.Begin()
		return e.answer.out.EndWithUsage(e.answer.usage.Usage), nil
	}
	return nil, io.EOF
}

// complete reports whether every candidate has ended.
func (e *events) complete() bool {
	if len(e.answer.choices) == 0 {
		return e.answer.blocked != ""
	}
	for i := range e.answer.choices {
		if e.answer.choices[i].finish == "" {
			return e.answer.blocked != ""
		}
	}
	return true
}

// chunk writes what an event brought, nil if that was nothing for the caller.
func (e *events) chunk() []byte {
	written := false
	out := &e.answer.out
	for i := range e.answer.choices {
		c := &e.answer.choices[i]
		if !c.pending() {
			continue
		}
		if !written {
			out.Begin()
		}
		written = true
		out.Choice(c.index, "delta")
		c.writeDelta(out)
		out.EndChoice(c.logprobs.Out, "")
		c.reset()
	}
	if !written {
		return nil
	}
	return out.End()
}

// lastChunk tells how every candidate ended.
func (e *events) lastChunk() []byte {
	out := &e.answer.out
	out.Begin()
	for i := range e.answer.choices {
		c := &e.answer.choices[i]
		out.Choice(c.index, "delta")
		if !c.begun {
			c.writeDelta(out)
		}
		out.EndChoice(c.logprobs.Out, c.finishReason())
	}
	return out.End()
}

// pending reports whether a choice has something to send.
func (c *choice) pending() bool {
	return len(c.text)+len(c.reasoning)+len(c.toolCalls.Out)+len(c.images.Out)+len(c.signature)+len(c.logprobs.Out) > 0
}

// reset forgets what was sent.
func (c *choice) reset() {
	c.text, c.reasoning, c.signature = dialect.Reuse(c.text), dialect.Reuse(c.reasoning), dialect.Reuse(c.signature)
	for _, w := range [...]*jsonwrite.Writer{&c.toolCalls, &c.images, &c.logprobs} {
		w.Begin(dialect.Reuse(w.Out), nil)
	}
}

// writeDelta writes the members of a delta: what the choice has to send. The first
// delta of a choice names the role and has a content in any case.
func (c *choice) writeDelta(out *dialect.Completion) {
	if !c.begun {
		out.Role()
	}
	switch {
	case len(c.text) > 0:
		out.Content(c.text)
	case c.begun:
	case c.refused():
		out.NoContent()
		out.Name("refusal")
		c.writeRefusal(out)
	case c.filled:
		out.NoContent()
	default:
		out.Content(nil)
	}
	c.writeExtras(out)
	c.begun = true
}
