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
	from io.Reader
	err  error // the last error of the reader

	buf   []byte
	start int // where the current line begins
	seen  int // no line end between start and here
	end   int // where the bytes end

	begun bool // a line was read: a byte order mark cannot come any more
	open  bool
}

// NewNDJSON returns a reader of the lines in from.
func NewNDJSON(from io.Reader) *NDJSON { return &NDJSON{from: from} }

// Open reports whether the line that was read last had no line end, and may have been
// cut off.
func (n *NDJSON) Open() bool { return n.open }

// Next returns the next line that is not empty, without the space around it. It is good
// until the following call. At the end of the stream it still returns a line that lacks
// only its line end.
func (n *NDJSON) Next() ([]byte, error) {
	for {
		if stop := bytes.IndexByte(n.buf[n.seen:n.end], '\n'); stop >= 0 {
			if line := n.take(n.seen+stop, 1); len(line) > 0 {
				return line, nil
			}
			continue
		}
		n.seen = n.end
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
	line := n.buf[n.start:stop]
	n.start = stop + lineEnd
	n.seen = n.start
	if !n.begun {
		line = bytes.TrimPrefix(line, []byte(jsonscan.ByteOrderMark))
	}
	n.begun = true
	return bytes.Trim(line, " \t\r")
}

// fill reads more bytes behind the present ones.
func (n *NDJSON) fill() error {
	if n.err != nil {
		return n.err
	}
	switch {
	case len(n.buf) > MaxKept && n.end-n.start <= MaxKept/2:
		// The buffer was grown for a large line that was consumed.
		smaller := make([]byte, MaxKept)
		n.end = copy(smaller, n.buf[n.start:n.end])
		n.buf, n.seen, n.start = smaller, n.seen-n.start, 0
	case n.start > 0 && n.end == len(n.buf):
		n.end = copy(n.buf, n.buf[n.start:n.end])
		n.seen -= n.start
		n.start = 0
	}
	if n.end == len(n.buf) {
		if len(n.buf) >= MaxEvent {
			return ErrEventTooLarge
		}
		grown := make([]byte, min(max(firstRead, 2*len(n.buf)), MaxEvent))
		copy(grown, n.buf[:n.end])
		n.buf = grown
	}
	got, err := n.from.Read(n.buf[n.end:])
	n.end += got
	n.err = err
	if got > 0 {
		return nil
	}
	return err
}
