package gemini

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// events turns a stream of partial answers into chunks. How a candidate
// ended is told last of all: some servers go on after they said it, and calls
// may still come.
type events struct {
	sse          *dialect.SSE
	answer       partialAnswer
	includeUsage bool

	head []byte // what all chunks begin with
	out  []byte

	done      bool // nothing more is read
	ended     bool // the last chunk of the choices went out
	usageSent bool
	err       error // what ended the stream for good
}

func newEvents(req *schema.Request, body io.Reader) *events {
	return &events{
		sse:          dialect.NewSSE(body),
		answer:       partialAnswer{model: bytes.Clone(req.Body.Root().Get("model").Raw()), streaming: true},
		includeUsage: req.IncludeUsage,
	}
}

// Usage returns the last report.
func (e *events) Usage() schema.Usage { return e.answer.usage.Usage }

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
		e.begin()
		e.out = e.answer.usage.append(append(e.out, `],"usage":`...))
		e.out = append(e.out, '}')
		return e.out, nil
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

// begin starts a chunk.
func (e *events) begin() {
	if e.head == nil {
		e.head = e.answer.appendHead(nil, "chat.completion.chunk")
	}
	e.out = append(dialect.Reuse(e.out), e.head...)
}

// chunk writes what an event brought, nil if that was nothing for the caller.
func (e *events) chunk() []byte {
	written := 0
	for i := range e.answer.choices {
		c := &e.answer.choices[i]
		if !c.pending() {
			continue
		}
		if written == 0 {
			e.begin()
		} else {
			e.out = append(e.out, ',')
		}
		written++
		e.out = c.appendDelta(e.out)
		e.out = c.appendRest(e.out, "")
		c.reset()
	}
	if written == 0 {
		return nil
	}
	e.out = append(e.out, "]}"...)
	return e.out
}

// lastChunk tells how every candidate ended.
func (e *events) lastChunk() []byte {
	e.begin()
	for i := range e.answer.choices {
		c := &e.answer.choices[i]
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if c.begun {
			e.out = strconv.AppendInt(append(e.out, `{"index":`...), c.index, 10)
			e.out = append(e.out, `,"delta":{}`...)
		} else {
			e.out = c.appendDelta(e.out)
		}
		e.out = c.appendRest(e.out, c.finishReason())
	}
	e.out = append(e.out, "]}"...)
	return e.out
}

// pending reports whether a choice has something to send.
func (c *choice) pending() bool {
	return len(c.text)+len(c.reasoning)+len(c.toolCalls)+len(c.images)+len(c.signature)+len(c.logprobs) > 0
}

// reset forgets what was sent.
func (c *choice) reset() {
	c.text, c.reasoning, c.toolCalls = dialect.Reuse(c.text), dialect.Reuse(c.reasoning), dialect.Reuse(c.toolCalls)
	c.images, c.signature, c.logprobs = dialect.Reuse(c.images), dialect.Reuse(c.signature), dialect.Reuse(c.logprobs)
}

// appendDelta writes a choice with what it has to send. The first delta of a
// choice names the role and has a content in any case.
func (c *choice) appendDelta(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"index":`...), c.index, 10)
	dst = append(dst, `,"delta":{`...)
	start := len(dst)
	if !c.begun {
		dst = append(dst, `,"role":"assistant"`...)
	}
	switch {
	case len(c.text) > 0:
		dst = append(append(append(dst, `,"content":"`...), c.text...), '"')
	case c.begun:
	case c.refused():
		dst = c.appendRefusal(append(dst, `,"content":null,"refusal":`...))
	case c.filled:
		dst = append(dst, `,"content":null`...)
	default:
		dst = append(dst, `,"content":""`...)
	}
	dst = c.appendExtras(dst)
	c.begun = true
	if start < len(dst) {
		// Every member came with a comma before it, of which the first is one too many.
		dst = append(dst[:start], dst[start+1:]...)
	}
	return append(dst, '}')
}
