package dialect

import (
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Resumer is implemented by streams that can go on with another answer: the sent part
// stays, and the rest has the same id.
type Resumer interface {
	// CanResume reports whether the stream can go on where it is.
	CanResume() bool
	// Resume makes the stream go on with the deltas of another answer to the request,
	// without the part that was sent before.
	Resume(req *schema.Request, from Deltas)
}

// CanResume reports whether the stream can go on with another answer.
func (s *Stream) CanResume() bool {
	resumer, ok := s.Events.(Resumer)
	return ok && resumer.CanResume()
}

// Resuming returns how the request of a stream that broke off is put to a backend to let
// the answer go on in that stream. join removes the part that was sent before from the new
// answer. It returns false where the backend's answers cannot be read for that.
func (s Speaker) Resuming(stream *Stream, join func(Deltas) Deltas) (Speaker, bool) {
	resumer, ok := stream.Events.(Resumer)
	if !ok || s.turn != nil || s.Decode == nil || s.DecodeStream == nil {
		return s, false
	}
	s.passes = s.client == nil
	s.client = &Client{Events: func(req *schema.Request, from Deltas) *Stream {
		resumer.Resume(req, join(from))
		return stream
	}}
	return s, true
}

// recorder is implemented by streams that are passed on and can record the passed part of
// an answer.
type recorder interface {
	Record(to *chat.Transcript)
}

// Recording returns the speaker with a transcript of the texts that its stream sends.
func (s Speaker) Recording(to *chat.Transcript) Speaker {
	s.sent = to
	return s
}

// Recorded returns deltas and writes a transcript of them.
func Recorded(from Deltas, to *chat.Transcript) Deltas { return &recorded{from, to} }

type recorded struct {
	Deltas
	to *chat.Transcript
}

// Next implements Deltas.
func (r *recorded) Next() (*chat.Delta, error) {
	delta, err := r.Deltas.Next()
	if err == nil {
		r.to.Note(delta)
	}
	return delta, err
}

// CanContinue reports whether the backend can go on with the beginning of an answer that a
// request has; see schema.Request.Continue.
func (s Speaker) CanContinue(req *schema.Request, to *Target) bool {
	return s.Adapter.Continues != nil && s.Adapter.Continues(req, to)
}

// Always is the function Adapter.Continues of a dialect that lets the model go on with a last
// message of its own.
func Always(*schema.Request, *Target) bool { return true }

// ContinueMessages adds the edits that make the model go on with the beginning of its answer, if
// the request has one: that becomes the last message. If the request has the member limit, at
// the path of the given names, the answer may use the rest of that limit.
func ContinueMessages(edits []jsonscan.Edit, req *schema.Request, limit ...string) []jsonscan.Edit {
	begun := req.Continuation()
	if begun == nil {
		return edits
	}
	w := jsonwrite.Writer{Out: []byte{','}}
	w.Open(`{"role":"assistant","content":`).Escaped(begun.Text)
	w.EndObject()
	_, end := req.Body.Root().Get("messages").Span()
	edits = append(edits, jsonscan.Edit{Start: end - 1, End: end - 1, With: w.Out})
	most := req.Body.Root()
	for _, name := range limit {
		most = most.Get(name)
	}
	if begun.Most > 0 && most.Given() {
		edits = append(edits, most.Replace(strconv.AppendInt(nil, begun.Most, 10)))
	}
	return edits
}
