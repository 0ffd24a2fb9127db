package ollama

import (
	"bytes"
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
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
	prefix    []byte // what all chunks begin with
	out       []byte
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
		e.out = append(dialect.Reuse(e.out), e.prefix...)
		e.out = append(e.out, `],"usage":`...)
		e.out = appendUsage(e.out, e.usage)
		e.out = append(e.out, '}')
		return e.out, nil
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
	first := e.prefix == nil
	if first {
		e.prefix = e.head(nil, "chat.completion.chunk", line.created, e.model)
	}
	out := append(dialect.Reuse(e.out), e.prefix...)
	out = append(out, `{"index":0,"delta":{`...)
	members := len(out)
	if first {
		out = append(out, `"role":"assistant",`...)
	}
	if first || len(line.text) > 0 {
		out = append(out, `"content":`...)
		out = appendText(out, line.text)
	}
	if len(line.thinking) > 0 {
		out = appendThinking(out, line.thinking)
	}
	if line.calls.First().Kind() != jsonscan.Absent {
		out = append(out, `,"tool_calls":[`...)
		var err error
		if out, err = e.appendCalls(out, line.calls, true); err != nil {
			return nil, err
		}
		out = append(out, ']')
	}
	if len(out) > members && out[members] == ',' {
		out = append(out[:members], out[members+1:]...) // nothing stood before it
	}
	out = append(out, `},"logprobs":`...)
	if line.logprobs.First().Kind() != jsonscan.Absent {
		out = append(out, `{"content":[`...)
		out = appendLogprobs(out, line.logprobs)
		out = append(out, `],"refusal":null}`...)
	} else {
		out = append(out, `null`...)
	}
	if line.done {
		out = append(out, `,"finish_reason":"`...)
		out = append(out, e.finish(line.reason)...)
		out = append(out, `"}]}`...)
	} else {
		out = append(out, `,"finish_reason":null}]}`...)
	}
	e.out = out
	return out, nil
}
