package dialect

import (
	"io"

	"github.com/patchbay-ai/patchbay/internal/schema"
)

// StoredEvents returns a stream whose chunks are all there.
func StoredEvents(usage schema.Usage, chunks ...[]byte) *Stream {
	return &Stream{Events: &storedEvents{usage: usage, chunks: chunks}}
}

// storedEvents is a stream whose chunks are all there.
type storedEvents struct {
	chunks [][]byte
	usage  schema.Usage
}

func (e *storedEvents) Usage() schema.Usage { return e.usage }

func (e *storedEvents) Next() ([]byte, error) {
	if len(e.chunks) == 0 {
		return nil, io.EOF
	}
	next := e.chunks[0]
	e.chunks = e.chunks[1:]
	return next, nil
}
