package adapter

import (
	"bytes"
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// ollamaEvents makes completion chunks of the lines of a stream.
type ollamaEvents struct {
	ollamaAnswer
	lines        *NDJSON
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
func (ollamaChat) Events(req *schema.Request, body io.Reader) Events {
	return &ollamaEvents{
		ollamaAnswer: newOllamaAnswer(),
		lines:        NewNDJSON(body),
		model:        bytes.Clone(req.Body.Root().Get("model").Raw()),
		includeUsage: req.IncludeUsage,
	}
}

// Usage returns the report of the last line.
func (e *ollamaEvents) Usage() schema.Usage { return e.usage }

// Next returns the next chunk for the caller.
func (e *ollamaEvents) Next() ([]byte, error) {
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
		e.out = append(fit(e.out), e.prefix...)
		e.out = append(e.out, `],"usage":`...)
		e.out = appendOllamaUsage(e.out, e.usage)
		e.out = append(e.out, '}')
		return e.out, nil
	}
	e.err = io.EOF
	return nil, e.err
}

// read makes a chunk of the next line; it returns nil for one that says nothing.
func (e *ollamaEvents) read() ([]byte, error) {
	dropLarge(&e.doc, &e.inner)
	data, err := e.lines.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = ErrTruncated
		}
		return nil, err
	}
	line, err := readOllamaLine(&e.doc, data)
	if err != nil {
		if e.lines.Open() && errors.Is(err, ErrInvalid) {
			err = ErrTruncated // the line was cut off
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
func (e *ollamaEvents) chunk(line *ollamaLine) ([]byte, error) {
	first := e.prefix == nil
	if first {
		e.prefix = e.head(nil, "chat.completion.chunk", line.created, e.model)
	}
	out := append(fit(e.out), e.prefix...)
	out = append(out, `{"index":0,"delta":{`...)
	members := len(out)
	if first {
		out = append(out, `"role":"assistant",`...)
	}
	if first || len(line.text) > 0 {
		out = append(out, `"content":`...)
		out = appendOllamaText(out, line.text)
	}
	if len(line.thinking) > 0 {
		out = appendOllamaThinking(out, line.thinking)
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
		out = appendOllamaLogprobs(out, line.logprobs)
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
