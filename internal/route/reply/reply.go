// Package reply reads the answer of an instance in the form that the client gets, and
// decides the meaning of its failures: for the caller, for the instance, and for the calls
// that may follow.
package reply

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/count/memory"
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/account"
)

// The content types of replies of the unified API.
const (
	TypeJSON   = "application/json"
	TypeEvents = "text/event-stream; charset=utf-8"
)

// maxReply is the largest answer that is read whole.
const maxReply = 256 << 20

// errReplyTooLarge means that an answer exceeds maxReply.
var errReplyTooLarge = errors.New("the backend's answer is too large")

// Reply is the answer of an instance in the form that the client gets. It is read in
// parts: the segments of an answer that was read whole, the bytes of a binary one as
// they arrive, or the events of a stream.
type Reply struct {
	from   *transport.Response
	Whole  bool // all of it was read before any of it is sent
	Binary bool
	Plain  dialect.Reply
	body   []byte // the bytes of the response so far
	// Memory is the lease of a large body on the memory for bodies.
	Memory memory.Lease
	Events *dialect.Stream
	first  []byte // the first event, which open read
	Sent   int    // how many segments of plain Next has returned

	FirstByte time.Time // when the answer began
	// FirstToken is the time when the first content of a stream, or all of any other
	// answer, had come; zero before that.
	FirstToken time.Time
	// Arrived is when an answer that is read whole was complete. The time from then
	// to FirstByte is the gateway's, not the backend's.
	Arrived time.Time
	Outcome breaker.Outcome
}

// Open reads as much of a response as is needed before the client is told that the
// request succeeded. The model is the name by which the caller asked.
func (r *Reply) Open(
	req *schema.Request, model string, speaker dialect.Speaker, from *transport.Response, deadline time.Time,
) error {
	r.from = from
	if err := r.checkHead(); err != nil {
		return err
	}
	if from.Status == http.StatusNoContent || from.Status == http.StatusResetContent {
		return unusable("answer.bodyless", "status", from.Status)
	}
	contentType := strings.ToLower(from.Header("Content-Type"))
	// The deadline holds until the first event or byte, not only for the head.
	from.SetDeadline(deadline)
	var opening dialect.Opening
	err := opening.Open(speaker, req, &dialect.Incoming{
		ContentType: contentType, From: from, Buffer: r.body[:0], Model: model,
	})
	from.SetDeadline(time.Time{})
	r.body = opening.Read
	if err != nil {
		return err
	}
	if opening.Delivery == dialect.Whole {
		return r.readWhole(req, speaker, contentType)
	}
	r.Plain.ContentType = opening.ContentType
	r.Events, r.first, r.Binary = opening.Events, opening.First, opening.Delivery == dialect.Binary
	return nil
}

// checkHead returns the error of a response with a status or encoding that means that its body
// is not an answer.
func (r *Reply) checkHead() error {
	if r.from.Status < 200 || r.from.Status > 299 {
		return r.readErrorStatus()
	}
	if encoding := encodingOf(r.from.Encoding); encoding != "" {
		return unusableEncoding(encoding)
	}
	return nil
}

// ReadUnchecked reads an answer that is passed on as it is.
func (r *Reply) ReadUnchecked(from *transport.Response) ([]byte, error) {
	r.from = from
	if err := r.checkHead(); err != nil {
		return nil, err
	}
	if from.Length > maxReply {
		return nil, errReplyTooLarge
	}
	err := r.readBody(maxReply)
	return r.body, err
}

// readWhole reads an answer that is sent only when all of it was read and checked.
func (r *Reply) readWhole(req *schema.Request, speaker dialect.Speaker, contentType string) error {
	if r.from.Length > maxReply {
		return errReplyTooLarge
	}
	if err := r.readBody(maxReply); err != nil {
		return err
	}
	r.Arrived = time.Now()
	if err := speaker.Reply(req, dialect.Answer{ContentType: contentType, Body: r.body}, &r.Plain); err != nil {
		return err
	}
	var err error
	r.Events, err = speaker.Split(req, &r.Plain)
	r.Whole = err == nil
	return err
}

// readBody reads the rest of the response into the reply's own buffer.
func (r *Reply) readBody(limit int) error {
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

// CountedBody is the size from which the buffer of an answer counts in the memory for
// bodies.
const CountedBody = 1 << 20

// growBody makes room for more of the response: as much again as has arrived, and no more
// than the rest of an answer with a known length.
func (r *Reply) growBody(limit int) error {
	size := min(len(r.body)+max(4<<10, len(r.body)), limit+1)
	if r.from.Length >= int64(len(r.body)) {
		size = min(size, max(int(r.from.Length)+1, 4<<10)) // with room left, the end is read without another buffer
	}
	isCounted := size > CountedBody
	if isCounted { // until it is copied the old buffer is there as well
		if verdict := r.Memory.Take(int64(size)); verdict != memory.Granted {
			return NoMemory(verdict, int64(size), r.Memory.Most())
		}
	}
	r.body = append(make([]byte, 0, size), r.body...)
	if isCounted {
		r.Memory.Keep(int64(size))
	}
	return nil
}

// Next implements Answer.
func (r *Reply) Next() ([]byte, error) {
	switch {
	case r.first != nil:
		first := r.first
		r.first = nil
		return first, nil
	case r.Events != nil:
		return r.Events.Next()
	case r.Binary && len(r.body) > 0: // the bytes that open read
		first := r.body
		r.body = first[:0]
		return first, nil
	case r.Binary:
		return readChunk(r.from, r.body[:cap(r.body)])
	case r.Sent == len(r.Plain.Segments):
		return nil, io.EOF
	}
	r.Sent++
	return r.Plain.Segments[r.Sent-1], nil
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

// isFramed reports whether the answer is events in their frames for the client.
func (r *Reply) isFramed() bool { return r.Events != nil && r.Events.IsComplete != nil }

// IsComplete implements Answer.
func (r *Reply) IsComplete() bool {
	if r.isFramed() {
		return r.Whole || r.Events.IsComplete()
	}
	return r.Events == nil && r.Whole
}

// IsStreamed reports whether the answer is sent while it arrives from the backend.
func (r *Reply) IsStreamed() bool { return r.Events != nil || r.Binary }

// HasContent reports whether the parts that were read have content.
func (r *Reply) HasContent() bool { return r.Whole || r.Events == nil || r.Events.HasContent() }

// Usage returns the token counts that the backend has reported so far.
func (r *Reply) Usage() schema.Usage {
	if r.Events != nil {
		return r.Events.Usage()
	}
	return r.Plain.Usage
}

// Form implements Answer.
func (r *Reply) Form() account.Form {
	switch {
	case r.Events != nil:
		return account.Form{
			ContentType: cmp.Or(r.Plain.ContentType, r.Events.ContentType, TypeEvents), Length: -1,
			Events: true, Framed: r.isFramed(),
		}
	case r.Binary:
		return account.Form{ContentType: r.Plain.ContentType, Length: -1}
	}
	length := 0
	for _, s := range r.Plain.Segments {
		length += len(s)
	}
	return account.Form{ContentType: cmp.Or(r.Plain.ContentType, TypeJSON), Length: length}
}

// keepBody is the largest buffer that is kept for the next request.
const keepBody = 256 << 10

// Free gives back the memory of the response if it was read whole: nobody else has it then.
func (r *Reply) Free() {
	if r.Whole && r.Events == nil && r.from != nil {
		r.from.Free()
	}
}

// Reset clears the reply and keeps its memory for the next request.
func (r *Reply) Reset() {
	r.Plain.Reset()
	r.Memory.Close()
	body := r.body[:0]
	if cap(body) > keepBody {
		body = nil
	}
	*r = Reply{Plain: r.Plain, body: body}
}
