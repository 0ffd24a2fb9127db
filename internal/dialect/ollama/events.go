package ollama

import (
	"bytes"
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// events makes completion chunks of the lines of a stream.
type events struct {
	answer
	lines        *dialect.NDJSON
	doc          jsonscan.Document
	model        []byte // the caller's name of the model, as JSON
	includeUsage bool

	usage     schema.Usage
	logprobs  jsonwrite.Writer
	done      bool // the last line was read
	usageSent bool
	err       error // how the stream ended
}

// Events reads a stream of lines.
func (Chat) Events(req *schema.Request, body io.Reader) dialect.Events {
	return &events{
		answer:       newAnswer(),
		lines:        dialect.NewNDJSON(body),
		model:        bytes.Clone(req.Body.Root().Get("model").Raw()),
		includeUsage: req.IncludeUsage,
	}
}

// Usage returns the report of the last line.
func (e *events) Usage() schema.Usage { return e.usage }

// Next returns the next chunk for the caller.
func (e *events) Next() ([]byte, error) {
	for e.err == nil && !e.done {
		chunk, err := e.read()
		e.err = err
		if chunk != nil {
			return chunk, nil
		}
	}
	if e.err != nil {
		return nil, e.err
	}
	if e.includeUsage && e.usage.Known && !e.usageSent {
		e.usageSent = true
		e.out.Begin()
		return e.out.EndWithUsage(unified(e.usage)), nil
	}
	e.err = io.EOF
	return nil, e.err
}

// read makes a chunk of the next line; it returns nil for one that says nothing.
func (e *events) read() ([]byte, error) {
	dialect.DropLarge(&e.doc, &e.inner)
	data, err := e.lines.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = dialect.ErrTruncated
		}
		return nil, err
	}
	line, err := readLine(&e.doc, data)
	if err != nil {
		if e.lines.Open() && errors.Is(err, dialect.ErrInvalid) {
			err = dialect.ErrTruncated // the line was cut off
		}
		return nil, err
	}
	if err := e.saw(&line); err != nil {
		return nil, err
	}
	if line.done {
		e.done = true
		e.usage = line.usage()
	} else if len(line.text) == 0 && len(line.thinking) == 0 && line.calls.First().Kind() == jsonscan.Absent &&
		line.logprobs.First().Kind() == jsonscan.Absent {
		return nil, nil
	}
	return e.chunk(&line)
}

// chunk writes the chunk of one line.
func (e *events) chunk(line *answerLine) ([]byte, error) {
	first := !e.out.Identified()
	if first {
		e.identify(dialect.ChunkObject, line.created, e.model)
	}
	e.out.Begin()
	e.out.Choice(0, "delta")
	if first {
		e.out.Role()
	}
	if first || len(line.text) > 0 {
		e.out.Content(line.text)
	}
	e.out.Thinking(line.thinking)
	if line.calls.First().Kind() != jsonscan.Absent {
		e.out.Name("tool_calls")
		e.out.Array()
		if err := e.writeCalls(&e.out.Writer, line.calls, true); err != nil {
			return nil, err
		}
		e.out.EndArray()
	}
	e.logprobs.Begin(dialect.Reuse(e.logprobs.Out), nil)
	writeLogprobs(&e.logprobs, line.logprobs)
	reason := ""
	if line.done {
		reason = e.finish(line.reason)
	}
	e.out.EndChoice(e.logprobs.Out, reason)
	return e.out.End(), nil
}
