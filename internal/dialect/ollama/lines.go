package ollama

import (
	"bytes"
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// replyWriter makes one reply of the lines of an answer.
type replyWriter interface {
	// add adds what a line says.
	add(line *answerLine) error
	// finish writes the reply after its last line was added.
	finish(line *answerLine, reply *dialect.Reply)
}

// readReply reads an answer, which may be one object or the lines of a stream that
// ended.
func readReply(answer []byte, w replyWriter, reply *dialect.Reply) error {
	body := bytes.TrimPrefix(answer, []byte(jsonscan.ByteOrderMark))
	var line answerLine
	err := line.scan(&reply.Doc, body)
	if first, rest := nextLine(body); errors.Is(err, dialect.ErrInvalid) && len(rest) > 0 && isObject(first) {
		err = addLines(body, &line, w, reply)
	}
	if err != nil {
		return err
	}
	if !line.done {
		return dialect.ErrTruncated
	}
	if err := w.add(&line); err != nil {
		return err
	}
	w.finish(&line, reply)
	return nil
}

// addLines adds the lines of an answer up to its last one, which it leaves in line.
func addLines(body []byte, line *answerLine, w replyWriter, reply *dialect.Reply) error {
	for {
		var data []byte
		data, body = nextLine(body)
		if len(data) == 0 {
			return dialect.ErrTruncated
		}
		*line = answerLine{}
		if err := line.scan(&reply.Doc, data); err != nil || line.done {
			return err
		}
		if err := w.add(line); err != nil {
			return err
		}
	}
}

// nextLine returns the first line of a body that is not empty, and what
// follows it.
func nextLine(body []byte) (line, rest []byte) {
	body = bytes.TrimLeft(body, " \t\r\n")
	line, rest, _ = bytes.Cut(body, []byte("\n"))
	return bytes.TrimRight(line, " \t\r"), bytes.TrimSpace(rest)
}

// isObject reports whether a line may be an object rather than a piece of one.
func isObject(line []byte) bool {
	return len(line) > 1 && line[0] == '{' && line[len(line)-1] == '}'
}

// chunkWriter makes chunks of the lines of a stream.
type chunkWriter interface {
	// chunk returns the chunk of a line, or nil for a line that says nothing.
	chunk(line *answerLine) ([]byte, error)
	// usageChunk returns the chunk that reports usage and nothing else.
	usageChunk(usage schema.Usage) []byte
}

// events makes chunks of the lines of a stream.
type events struct {
	chunkWriter
	lines        *dialect.NDJSON
	doc          jsonscan.Document
	line         answerLine // the latest one
	includeUsage bool

	usage     schema.Usage
	done      bool // the last line was read
	usageSent bool
	err       error // how the stream ended
}

func newEvents(req *schema.Request, body io.Reader, w chunkWriter) *dialect.Stream {
	return &dialect.Stream{Events: &events{chunkWriter: w, lines: dialect.NewNDJSON(body), includeUsage: req.IncludeUsage}}
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
		return e.usageChunk(e.usage), nil
	}
	e.err = io.EOF
	return nil, e.err
}

// read makes a chunk of the next line; it returns nil for one that says nothing.
func (e *events) read() ([]byte, error) {
	dialect.DropLarge(&e.doc)
	e.line = answerLine{} // it must not keep the text of a large line while the stream waits
	data, err := e.lines.Next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = dialect.ErrTruncated
		}
		return nil, err
	}
	line := &e.line
	if err := line.scan(&e.doc, data); err != nil {
		if e.lines.Open() && errors.Is(err, dialect.ErrInvalid) {
			err = dialect.ErrTruncated // the line was cut off
		}
		return nil, err
	}
	chunk, err := e.chunk(line)
	if err == nil && line.done {
		e.done, e.usage = true, line.usage()
	}
	return chunk, err
}
