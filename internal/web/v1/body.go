package v1

import (
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/shares"
)

// A body is read into a buffer that grows with what has arrived, so that a length which
// a client announces, and does not send, takes no memory. The buffers of all three sizes
// are used again; larger ones are not kept.
const (
	smallBuffer  = 16 << 10
	mediumBuffer = 128 << 10
	largeBuffer  = 1 << 20
	// mediumFrom is how many bytes have to arrive before there is more than a small
	// buffer. They come with the head of most requests, and of most bodies nothing else is
	// copied.
	mediumFrom = 2 << 10
	// growth is how many times the bytes that have arrived the next buffer may have where
	// the client has announced so many.
	growth = 8
)

// freeBody is the largest body for which only its length is taken from the memory for
// bodies: what parsing a small body needs is small.
const freeBody = 64 << 10

// buffers keeps buffers for the bodies of later requests. Small ones are kept with the
// rest of what reading a request needs, see input.
type buffers struct {
	medium, large sync.Pool
	// moving is held while a body moves to a buffer that is larger than large ones, so
	// that only one request at a time needs memory for two.
	moving sync.Mutex
}

// bufferSize returns the capacity of the buffer that get returns for a size.
func bufferSize(size int) int {
	switch {
	case size > smallBuffer && size <= mediumBuffer:
		return mediumBuffer
	case size > mediumBuffer && size <= largeBuffer:
		return largeBuffer
	}
	return size
}

// get returns an empty buffer of at least this size.
func (b *buffers) get(size int) []byte {
	size = bufferSize(size)
	switch size {
	case mediumBuffer:
		if kept, ok := b.medium.Get().(*[mediumBuffer]byte); ok {
			return kept[:0]
		}
	case largeBuffer:
		if kept, ok := b.large.Get().(*[largeBuffer]byte); ok {
			return kept[:0]
		}
	}
	return make([]byte, 0, size)
}

// put keeps a buffer that nobody uses any more, if it is of a size that get returns.
func (b *buffers) put(buffer []byte) {
	switch cap(buffer) {
	case mediumBuffer:
		b.medium.Put((*[mediumBuffer]byte)(buffer[:mediumBuffer]))
	case largeBuffer:
		b.large.Put((*[largeBuffer]byte)(buffer[:largeBuffer]))
	}
}

// nextBuffer returns the size of the buffer for a body of which so many bytes have
// arrived, and of which the client has announced a length, or -1.
func nextBuffer(arrived, announced int) int {
	const first = 4 << 10
	if announced < arrived {
		return max(2*arrived, first)
	}
	most := smallBuffer
	if arrived >= mediumFrom {
		most = max(mediumBuffer, growth*arrived)
	}
	return min(announced+1, most) // with room left, the end is read without another buffer
}

var errTooLarge = errors.New("the body is too large")

// readBody reads the body. It refuses one at once whose length does not fit into what is
// left of the memory for bodies, but takes only what arrives.
func (x *exchange) readBody(limit int64) error {
	announced := int(x.r.ContentLength)
	if announced > smallBuffer {
		if verdict := x.memory.May(int64(announced)); verdict != shares.Granted {
			return x.noMemory(verdict, int64(announced))
		}
	}
	if first := nextBuffer(0, announced); cap(x.body) < first {
		x.setBody(x.buffers.get(first))
	}
	if err := x.reserve(cap(x.body)); err != nil {
		return err
	}
	for {
		if len(x.body) == cap(x.body) || cap(x.body) <= min(smallBuffer, announced) {
			if err := x.growBody(announced); err != nil {
				return err
			}
		}
		n, err := x.r.Body.Read(x.body[len(x.body):cap(x.body)])
		x.body = x.body[:len(x.body)+n]
		if int64(len(x.body)) > limit {
			return errTooLarge
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// growBody moves the body to a larger buffer, if what has arrived allows one. While it is
// copied both take memory.
func (x *exchange) growBody(announced int) error {
	size := nextBuffer(len(x.body), announced)
	if size <= cap(x.body) {
		return nil
	}
	if size > largeBuffer {
		x.buffers.moving.Lock()
		defer x.buffers.moving.Unlock()
	}
	if err := x.reserve(bufferSize(size)); err != nil {
		x.memory.Keep(0) // those that ask next get what this one had, and are not all refused
		return err
	}
	x.setBody(append(x.buffers.get(size), x.body...))
	x.memory.Keep(int64(cap(x.body)))
	return nil
}

// setBody makes a buffer that of the body, and keeps the one before.
func (x *exchange) setBody(buffer []byte) {
	x.buffers.put(x.body)
	x.body = buffer
	if cap(buffer) <= smallBuffer {
		x.input.body = buffer[:0]
	}
}

// reserve takes memory for the request, until TakeBack.
func (x *exchange) reserve(bytes int) error {
	if verdict := x.memory.Take(int64(bytes)); verdict != shares.Granted {
		return x.noMemory(verdict, int64(bytes))
	}
	return nil
}

// noMemory says why the request gets no more memory, of which it needs so many bytes.
func (x *exchange) noMemory(verdict shares.Verdict, bytes int64) error {
	known := overloaded("The gateway has no memory left for this request; try again shortly.")
	most := x.memory.Most()
	switch {
	case x.memory.Held()+bytes > most:
		known.Message = "The request takes more memory than the " + strconv.FormatInt(most, 10) +
			" bytes that one caller may have for bodies (a third of limits.memory)."
		known.NoRetry = true
	case verdict == shares.ShareUsed:
		known.Message = "Your requests have as much of the gateway's memory as one caller may have now; try again when some of them have ended."
	}
	return known
}

func overloaded(message string) *schema.Error {
	return &schema.Error{Message: message, Type: schema.TypeServiceUnavailable, Code: schema.CodeOverloaded, RetryAfter: time.Second}
}

// isOverloaded tells whether an error says that the gateway has no room for a body.
func isOverloaded(err error) bool {
	var known *schema.Error
	return errors.As(err, &known) && schema.ResultOf(known.Code) == schema.ResultOverloaded
}
