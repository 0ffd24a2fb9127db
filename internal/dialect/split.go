package dialect

import (
	"io"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// SplitAnswer makes a stream of a whole answer, for a backend that answers at once although
// a stream was asked for: for each choice its message, then why it ended. The answer belongs
// to the stream.
func SplitAnswer(answer *chat.Answer) (Deltas, error) {
	for i := range answer.Choices {
		if answer.Choices[i].Finish == "" {
			return nil, Invalid("no finish_reason")
		}
	}
	split := &splitDeltas{answer: *answer, next: chat.Delta{ID: answer.ID, Created: answer.Created}}
	*answer = chat.Answer{}
	return split, nil
}

// SplitPassed is Adapter.Split for answers that are passed on: decode reads the answer, and
// write writes its events in the client's dialect.
func SplitPassed(req *schema.Request, reply *Reply,
	decode func(*schema.Request, []byte, *jsonscan.Document, *chat.Answer) error,
	write func(*schema.Request, Deltas) *Stream) (*Stream, error) {
	if !req.Stream {
		return nil, nil
	}
	var doc jsonscan.Document
	var answer chat.Answer
	if err := decode(req, slices.Concat(reply.Segments...), &doc, &answer); err != nil {
		return nil, err
	}
	deltas, err := SplitAnswer(&answer)
	if err != nil {
		return nil, err
	}
	return write(req, deltas), nil
}

// splitDeltas are the deltas of a whole answer.
type splitDeltas struct {
	answer chat.Answer
	told   int // deltas
	next   chat.Delta
}

// Usage returns the usage that the backend has reported.
func (s *splitDeltas) Usage() chat.Usage { return s.answer.Usage }

// Next returns the next delta.
func (s *splitDeltas) Next() (*chat.Delta, error) {
	s.next.Reset()
	const perChoice = 2
	if s.told == perChoice*len(s.answer.Choices) {
		return nil, io.EOF
	}
	whole := &s.answer.Choices[s.told/perChoice]
	c := s.next.Add(whole.Index)
	if s.told%perChoice == 0 {
		*c = *whole
		c.Begins, c.HasNoText = true, len(c.Text) == 0 && (len(c.Calls) > 0 || len(c.Refusal) > 0)
		c.Finish, c.StopSequence = "", nil
		if c.HasNoText {
			c.Text = nil
		} else if c.Text == nil {
			c.Text = []byte{}
		}
		for i := range c.Calls {
			c.Calls[i].Index = int64(i)
		}
	} else {
		c.Finish, c.StopSequence = whole.Finish, whole.StopSequence
	}
	s.told++
	return &s.next, nil
}
