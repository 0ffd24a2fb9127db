package dialect

import (
	"bytes"
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// NDJSON reads a stream of JSON texts, one a line: any split of the bytes, LF or CRLF,
// empty lines skipped. No line may be larger than MaxEvent.
type NDJSON struct {
	input

	seen  int  // no line end between base and base+seen
	begun bool // a line was read: a byte order mark cannot come any more
	open  bool
}

// NewNDJSON returns a reader of the lines in from.
func NewNDJSON(from io.Reader) *NDJSON { return &NDJSON{input: newInput(from)} }

// Open reports whether the line that was read last had no line end, and may have been
// cut off.
func (n *NDJSON) Open() bool { return n.open }

// Next returns the next line that is not empty, without the space around it. It is good
// until the following call. At the end of the stream it still returns a line that lacks
// only its line end.
func (n *NDJSON) Next() ([]byte, error) {
	for {
		rest := n.buf[n.base+n.seen : n.end]
		if stop := bytes.IndexByte(rest, '\n'); stop >= 0 {
			if line := n.take(n.base+n.seen+stop, 1); len(line) > 0 {
				return line, nil
			}
			continue
		}
		n.seen += len(rest)
		if err := n.fill(); err != nil {
			if !errors.Is(err, io.EOF) {
				return nil, err
			}
			line := n.take(n.end, 0)
			if len(line) == 0 {
				return nil, err
			}
			n.open = true
			return line, nil
		}
	}
}

// take returns the line that ends at stop and moves behind it and its end.
func (n *NDJSON) take(stop, lineEnd int) []byte {
	line := n.buf[n.base:stop]
	n.base, n.seen = stop+lineEnd, 0
	if !n.begun {
		line = bytes.TrimPrefix(line, []byte(jsonscan.ByteOrderMark))
	}
	n.begun = true
	return bytes.Trim(line, " \t\r")
}
