package proxy

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/account"
	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/breaker"
)

// maxReply is the largest answer that is read whole.
const maxReply = 256 << 20

// errReplyTooLarge means that an answer exceeds maxReply.
var errReplyTooLarge = errors.New("the backend's answer is too large")

// reply is the answer of an instance in the form in which the client gets it. It is
// read in parts: the segments of an answer that was read whole, the bytes of a binary
// one as they arrive, or the events of a stream.
type reply struct {
	from   *transport.Response
	whole  bool // all of it was read before any of it is sent
	binary bool
	plain  dialect.Reply
	body   []byte // what was read of the response
	// memory is what a large body has of the memory for bodies.
	memory memory.Lease
	events *dialect.Stream
	first  []byte // the first event, which open read
	sent   int    // how many segments of plain Next has returned

	firstByte time.Time // when the answer began
	// firstToken is when the first content of a stream, or all of any other answer, had
	// come; zero while it has not.
	firstToken time.Time
	// arrived is when an answer that is read whole was complete. The time from then
	// to firstByte is the gateway's, not the backend's.
	arrived time.Time
	outcome breaker.Outcome
}

// open reads as much of a response as is needed before the client is told that the
// request succeeded.
func (r *reply) open(req *request, speaker dialect.Speaker, from *transport.Response, deadline time.Time) error {
	r.from = from
	if err := r.checkHead(); err != nil {
		return err
	}
	if from.Status == http.StatusNoContent || from.Status == http.StatusResetContent {
		return unusableStatus(from.Status, "which has no body")
	}
	contentType := strings.ToLower(from.Header("Content-Type"))
	// The deadline holds until the first event or byte, not only for the head.
	from.SetDeadline(deadline)
	var opening dialect.Opening
	err := opening.Open(speaker, req.Asks, &dialect.Incoming{
		ContentType: contentType, From: from, Buffer: r.body[:0], Model: req.Asked(),
	})
	from.SetDeadline(time.Time{})
	r.body = opening.Read
	if err != nil {
		return err
	}
	if opening.Delivery == dialect.Whole {
		return r.readWhole(req.Asks, speaker, contentType)
	}
	r.plain.ContentType = opening.ContentType
	r.events, r.first, r.binary = opening.Events, opening.First, opening.Delivery == dialect.Binary
	return nil
}

// checkHead returns the error of a response whose status or encoding means that its body
// is not an answer.
func (r *reply) checkHead() error {
	if r.from.Status < 200 || r.from.Status > 299 {
		return r.readErrorStatus()
	}
	if encoding := encodingOf(r.from.Header("Content-Encoding")); encoding != "" {
		return unusableEncoding(encoding)
	}
	return nil
}

// readUnchecked reads an answer that is passed on as it is.
func (r *reply) readUnchecked() error {
	if err := r.checkHead(); err != nil {
		return err
	}
	if r.from.Length > maxReply {
		return errReplyTooLarge
	}
	return r.readBody(maxReply)
}

// readWhole reads an answer that is sent only when all of it was read and checked.
func (r *reply) readWhole(req *schema.Request, speaker dialect.Speaker, contentType string) error {
	if r.from.Length > maxReply {
		return errReplyTooLarge
	}
	if err := r.readBody(maxReply); err != nil {
		return err
	}
	r.arrived = time.Now()
	if err := speaker.Reply(req, dialect.Answer{ContentType: contentType, Body: r.body}, &r.plain); err != nil {
		return err
	}
	var err error
	r.events, err = speaker.Split(req, &r.plain)
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
			if err := r.growBody(limit); err != nil {
				return err
			}
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

// countedBody is the size from which the buffer of an answer counts in the memory for
// bodies.
const countedBody = 1 << 20

// growBody makes room for more of the response: as much again as has arrived, and no more
// than is left of an answer whose length is known.
func (r *reply) growBody(limit int) error {
	size := min(len(r.body)+max(4<<10, len(r.body)), limit+1)
	if r.from.Length >= int64(len(r.body)) {
		size = min(size, max(int(r.from.Length)+1, 4<<10)) // with room left, the end is read without another buffer
	}
	isCounted := size > countedBody
	if isCounted { // until it is copied the old buffer is there as well
		if verdict := r.memory.Take(int64(size)); verdict != memory.Granted {
			return noMemoryForReply(verdict, int64(size), r.memory.Most())
		}
	}
	r.body = append(make([]byte, 0, size), r.body...)
	if isCounted {
		r.memory.Keep(int64(size))
	}
	return nil
}

// Next implements Answer.
func (r *reply) Next() ([]byte, error) {
	switch {
	case r.first != nil:
		first := r.first
		r.first = nil
		return first, nil
	case r.events != nil:
		return r.events.Next()
	case r.binary && len(r.body) > 0: // the bytes that open read
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

// readChunk reads once. If bytes arrive together with an error it returns the bytes;
// the next read returns the error again.
func readChunk(from io.Reader, into []byte) ([]byte, error) {
	n, err := from.Read(into)
	if n > 0 {
		return into[:n], nil
	}
	return nil, err
}

// isFramed reports whether the answer is events in the frames in which they are sent.
func (r *reply) isFramed() bool { return r.events != nil && r.events.IsComplete != nil }

// IsComplete implements Answer.
func (r *reply) IsComplete() bool {
	if r.isFramed() {
		return r.whole || r.events.IsComplete()
	}
	return r.events == nil && r.whole
}

// isStreamed tells whether the answer is sent while it arrives from the backend.
func (r *reply) isStreamed() bool { return r.events != nil || r.binary }

// HasContent reports whether the parts that were read have content.
func (r *reply) HasContent() bool { return r.whole || r.events == nil || r.events.HasContent() }

// Usage returns the token counts that the backend has reported so far.
func (r *reply) Usage() schema.Usage {
	if r.events != nil {
		return r.events.Usage()
	}
	return r.plain.Usage
}

// Form implements Answer.
func (r *reply) Form() account.Form {
	switch {
	case r.events != nil:
		return account.Form{ContentType: cmp.Or(r.plain.ContentType, r.events.ContentType, TypeEvents), Length: -1, Events: true, Framed: r.isFramed()}
	case r.binary:
		return account.Form{ContentType: r.plain.ContentType, Length: -1}
	}
	length := 0
	for _, s := range r.plain.Segments {
		length += len(s)
	}
	return account.Form{ContentType: cmp.Or(r.plain.ContentType, TypeJSON), Length: length}
}

// keepBody is the largest buffer that is kept for the next request.
const keepBody = 256 << 10

// reset clears the reply and keeps its memory for the next request.
func (r *reply) reset() {
	r.plain.Reset()
	r.memory.Close()
	body := r.body[:0]
	if cap(body) > keepBody {
		body = nil
	}
	*r = reply{plain: r.plain, body: body}
}
