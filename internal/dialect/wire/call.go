// Package wire describes calls to backends as data. The dialects write such
// descriptions, and the transport sends them; neither knows the other.
package wire

import (
	"io"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// Call is a request to a backend. The owner of the connection decides how its bytes
// travel. The zero value is ready to use; reuse a Call to keep its memory.
type Call struct {
	Method string
	// Path is the path and query on the backend's host; it starts with a slash.
	Path   string
	Header []Header
	// Body is sent as its segments one after another. The segments may share
	// memory with the client's request and must not change until the call ended.
	Body [][]byte
	// Upload is sent instead of Body if it is set: a body too large for memory.
	Upload *Upload

	// Watcher, if it is not nil, is told when the call leaves for a backend.
	Watcher Watcher

	// Edits is memory for callers that make Body by editing the client's own body.
	Edits []jsonscan.Edit
}

// Watcher is told how a call goes on.
type Watcher interface {
	// Leaves is called when a connection is there and before the first byte of the call is
	// written to it, and again where the call is sent over another one.
	Leaves()
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

// AddHeader adds a header unless the call has one of that name.
func (c *Call) AddHeader(name, value string) {
	for i := range c.Header {
		if IsNamed(c.Header[i].Name, name) {
			return
		}
	}
	c.Header = append(c.Header, Header{Name: name, Value: value})
}

// Reset drops the memory that the call shares with a request.
func (c *Call) Reset() {
	clear(c.Header)
	c.Header, c.Body, c.Edits, c.Upload, c.Watcher = c.Header[:0], Empty(c.Body), Empty(c.Edits), nil, nil
}

// maxKept is how many segments or edits are kept for the next use. A request can
// be made to need many more.
const maxKept = 1024

// Empty returns list without its elements. It keeps the memory for the next use
// unless a request made it grow too large.
func Empty[T any](list []T) []T {
	if cap(list) > maxKept {
		return nil
	}
	clear(list)
	return list[:0]
}
