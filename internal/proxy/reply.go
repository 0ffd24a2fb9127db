package proxy

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/transport"
)

// maxReply bounds an answer that has to be whole before it is sent.
const maxReply = 256 << 20

// errReplyTooLarge means that an answer exceeds maxReply.
var errReplyTooLarge = errors.New("the backend's answer is too large")

// reply is the answer of an instance, which is read in parts: the segments of a
// whole answer, the bytes of a binary one as they come, or the events of a stream.
type reply struct {
	from   *transport.Response
	whole  bool // all of it was read before it is sent
	binary bool
	plain  dialect.Reply
	body   []byte // what was read
	events dialect.Events
	framed dialect.FramedEvents // events, if they come in their frames
	first  []byte               // the first event, which was waited for
	sent   int                  // segments of plain that were returned

	firstByte time.Time // when the answer began
	// arrived is when all of a whole answer had come; what follows is the
	// gateway's own time.
	arrived time.Time
	outcome breaker.Outcome
}

// open reads as much of a response as must be there before the client is told that
// the request succeeded.
func (r *reply) open(req *request, speak dialect.Adapter, from *transport.Response, deadline time.Time) error {
	r.from = from
	if from.Status < 200 || from.Status > 299 {
		return r.readRefusal()
	}
	if encodingOf(from.Header("Content-Encoding")) != "" {
		return fmt.Errorf("%w: it is compressed, which was not asked for", dialect.ErrInvalid)
	}
	contentType := strings.ToLower(from.Header("Content-Type"))
	// Silence before the first event or byte is part of the wait for an answer.
	from.SetDeadline(deadline)
	opening, err := dialect.Open(speak, req.req, dialect.Incoming{
		ContentType: contentType, From: from, Buffer: r.body[:0], Model: req.model,
	})
	from.SetDeadline(time.Time{})
	r.body = opening.Read
	if err != nil {
		return err
	}
	if opening.Form == dialect.Whole {
		return r.readWhole(req.req, speak, contentType)
	}
	r.plain.ContentType = opening.ContentType
	r.events, r.first, r.binary = opening.Events, opening.First, opening.Form == dialect.Binary
	r.framed, _ = opening.Events.(dialect.FramedEvents)
	return nil
}

// readWhole reads an answer that is sent when all of it is there.
func (r *reply) readWhole(req *schema.Request, speak dialect.Adapter, contentType string) error {
	if r.from.Length > maxReply {
		return errReplyTooLarge
	}
	if err := r.readBody(maxReply); err != nil {
		return err
	}
	r.arrived = time.Now()
	if err := speak.Reply(req, dialect.Answer{ContentType: contentType, Body: r.body}, &r.plain); err != nil {
		return err
	}
	var err error
	r.events, err = dialect.EventsOf(speak, req, &r.plain)
	r.whole = err == nil
	return err
}

// readBody reads the rest of the response into the reply's own buffer.
func (r *reply) readBody(limit int) error {
	for {
		if len(r.body) > limit {
			return errReplyTooLarge
		}
		if len(r.body) == cap(r.body) {
			r.body = slices.Grow(r.body, min(max(4<<10, len(r.body)), limit+1-len(r.body)))
		}
		n, err := r.from.Read(r.body[len(r.body):cap(r.body)])
		r.body = r.body[:len(r.body)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// next returns the next part, good until the following call, and io.EOF after the
// last one of a complete answer.
func (r *reply) next() ([]byte, error) {
	switch {
	case r.first != nil:
		first := r.first
		r.first = nil
		return first, nil
	case r.events != nil:
		return r.events.Next()
	case r.binary && len(r.body) > 0: // what was waited for
		first := r.body
		r.body = first[:0]
		return first, nil
	case r.binary:
		return readChunk(r.from, r.body[:cap(r.body)])
	case r.sent == len(r.plain.Segments):
		return nil, io.EOF
	}
	r.sent++
	return r.plain.Segments[r.sent-1], nil
}

// readChunk reads once. Bytes that come together with an error are bytes first;
// the error comes again.
func readChunk(from io.Reader, into []byte) ([]byte, error) {
	n, err := from.Read(into)
	if n > 0 {
		return into[:n], nil
	}
	return nil, err
}

// isComplete tells whether a client may take its answer for complete when it has
// the part that next returned last.
func (r *reply) isComplete() bool {
	if r.framed != nil {
		return r.whole || r.framed.IsComplete()
	}
	return r.events == nil && r.whole
}

// isSentWhileItComes tells whether the client gets the answer in the rhythm of the
// backend.
func (r *reply) isSentWhileItComes() bool { return r.events != nil || r.binary }

// usage returns what the backend has reported so far.
func (r *reply) usage() schema.Usage {
	if r.events != nil {
		return r.events.Usage()
	}
	return r.plain.Usage
}

// length returns the length of an answer that is not sent while it comes.
func (r *reply) length() int {
	length := 0
	for _, s := range r.plain.Segments {
		length += len(s)
	}
	return length
}

// keepBody is the largest buffer that is kept for the next request.
const keepBody = 256 << 10

// reset forgets everything but the memory.
func (r *reply) reset() {
	r.plain.Reset()
	body := r.body[:0]
	if cap(body) > keepBody {
		body = nil
	}
	*r = reply{plain: r.plain, body: body}
}
