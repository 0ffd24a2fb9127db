package dialect

import (
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Written is a stream that a door writes from the deltas of another dialect. The types that
// write the events of a door embed it.
type Written struct {
	From Deltas
	// Complete says that the last event was written, and Content that a delta had content, also
	// some that the client is not told, or not yet.
	Complete, Content bool

	end error // the result of every further call
}

// EventWriter writes the events of a door.
type EventWriter interface {
	// Restart drops the written output.
	Restart()
	// Add writes the parts of a delta that the client is told.
	Add(delta *chat.Delta) error
	// End writes the end of a complete answer.
	End()
	// Bytes returns the output since Restart.
	Bytes() []byte
}

// Usage returns the usage that the backend has reported so far.
func (s *Written) Usage() schema.Usage { return s.From.Usage().Tokens }

// HasContent reports whether a delta had content.
func (s *Written) HasContent() bool { return s.Content }

// IsComplete reports whether the last event was written.
func (s *Written) IsComplete() bool { return s.Complete }

// Resume implements Resumer.
func (s *Written) Resume(_ *schema.Request, from Deltas) { s.From, s.end = from, nil }

// NextFrom returns the events for the next delta that says anything. They are empty for the
// first one with content if the client gets nothing of it.
func (s *Written) NextFrom(w EventWriter) ([]byte, error) {
	if s.end != nil {
		return nil, s.end
	}
	for hadContent := s.Content; ; {
		w.Restart()
		delta, err := s.From.Next()
		if errors.Is(err, io.EOF) {
			w.End()
			s.Complete, s.end = true, io.EOF
			return w.Bytes(), nil
		}
		if err == nil {
			err = w.Add(delta)
		}
		if err != nil {
			s.end = err
			return nil, err
		}
		if len(w.Bytes()) > 0 || s.Content != hadContent {
			return w.Bytes(), nil
		}
	}
}
