package dialect

import (
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// Resumer is implemented by streams that can go on with another answer: what was sent stays
// as it is, and what follows has the same id.
type Resumer interface {
	// CanResume reports whether the stream can go on where it is.
	CanResume() bool
	// Resume makes the stream go on with the deltas of another answer to the request, from
	// which what was sent has been taken out.
	Resume(req *schema.Request, from Deltas)
}

// CanResume reports whether the stream can go on with another answer.
func (s *Stream) CanResume() bool {
	resumer, ok := s.Events.(Resumer)
	return ok && resumer.CanResume()
}

// Resuming returns how the request of a stream that broke off is put to a backend so that
// the answer goes on in that stream. join takes out of the new answer what was sent before.
// It returns false where the backend's answers cannot be read for that.
func (s Speaker) Resuming(stream *Stream, join func(Deltas) Deltas) (Speaker, bool) {
	resumer, ok := stream.Events.(Resumer)
	if !ok || s.Decode == nil || s.DecodeStream == nil {
		return s, false
	}
	s.passes = s.client == nil
	s.client = &Client{Events: func(req *schema.Request, from Deltas) *Stream {
		resumer.Resume(req, join(from))
		return stream
	}}
	return s, true
}

// CanResume implements Resumer.
func (e *unifiedEvents) CanResume() bool { return e.head != nil }

// Resume implements Resumer.
func (e *unifiedEvents) Resume(_ *schema.Request, from Deltas) { e.from = from }
