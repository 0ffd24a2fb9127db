// Package adapter speaks the dialects of the backends: it turns a unified
// request into a backend call and a backend's answer into a unified reply. It
// opens no sockets.
package adapter

import (
	"io"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
)

// Call is a request to a backend, described as data. Whoever owns the
// connection decides how its bytes travel. The zero value is ready; reuse it to
// keep its memory.
type Call struct {
	Method string
	// Path is the path and query on the backend's host; it starts with a slash.
	Path   string
	Header []Header
	// Body is sent as its segments one after another. The segments may share
	// memory with the caller's request and must not change until the call ended.
	Body [][]byte
	// Upload is sent instead of Body if it is set: a body too large for memory.
	Upload *Upload

	edits []jsonscan.Edit
}

// Header is one header field of a Call.
type Header struct{ Name, Value string }

// Upload is a body that is read from somewhere while it is sent.
type Upload struct {
	Length int64
	// Open reads the body from its beginning; every attempt opens it anew.
	Open func() io.Reader
}

// Length returns the number of bytes of the body.
func (c *Call) Length() int {
	if c.Upload != nil {
		return int(c.Upload.Length)
	}
	n := 0
	for _, segment := range c.Body {
		n += len(segment)
	}
	return n
}

// Reset lets go of what the call shares with a request.
func (c *Call) Reset() {
	clear(c.Header)
	c.Header, c.Body, c.edits, c.Upload = c.Header[:0], emptied(c.Body), emptied(c.edits), nil
}

// keepParts is how many segments or edits are kept for the next use. A request
// can be made to need many more.
const keepParts = 1024

// emptied forgets the content of a list and keeps its memory, unless that is too
// much to be kept.
func emptied[T any](list []T) []T {
	if cap(list) > keepParts {
		return nil
	}
	clear(list)
	return list[:0]
}
