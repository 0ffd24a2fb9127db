package dialect

import (
	"bytes"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/chat"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// SplitAnswer makes a stream of a whole answer, for a backend that answers at once although
// a stream was asked for: of each choice what it says, then why it ended, and at the end
// the usage. The answer belongs to the stream.
func SplitAnswer(answer *chat.Answer) (Deltas, error) {
	for i := range answer.Choices {
		if answer.Choices[i].Finish == "" {
			return nil, fmt.Errorf("%w: no finish_reason", ErrInvalid)
		}
	}
	split := &splitDeltas{answer: *answer, next: chat.Delta{ID: answer.ID, Created: answer.Created}}
	*answer = chat.Answer{}
	return split, nil
}

// splitDeltas are the deltas of a whole answer.
type splitDeltas struct {
	answer chat.Answer
	told   int // deltas of choices
	ended  bool
	next   chat.Delta
}

// Usage returns what the backend has reported.
func (s *splitDeltas) Usage() schema.Usage { return s.answer.Usage.Usage }

// Next returns the next delta.
func (s *splitDeltas) Next() (*chat.Delta, error) {
	s.next.Reset()
	const perChoice = 2
	if at := s.told / perChoice; at < len(s.answer.Choices) {
		whole := &s.answer.Choices[at]
		c := s.next.Add(whole.Index)
		if s.told%perChoice == 0 {
			*c = *whole
			c.Begins, c.HasNoText = true, len(c.Text) == 0 && (len(c.Calls) > 0 || len(c.Refusal) > 0)
			c.Finish, c.StopSequence = "", nil
			if c.Text == nil && !c.HasNoText {
				c.Text = []byte{}
			} else if c.HasNoText {
				c.Text = nil
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
	if s.answer.Usage.Known && !s.ended {
		s.ended = true
		s.next.Usage = s.answer.Usage
		return &s.next, nil
	}
	return nil, io.EOF
}

// CompactCopy returns a copy of an answer, in one line if it is a JSON text.
func CompactCopy(body []byte) []byte {
	compact := jsontext.Value(bytes.Clone(bytes.TrimPrefix(body, []byte(jsonscan.ByteOrderMark))))
	if compact.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return bytes.Clone(body)
	}
	return compact
}
