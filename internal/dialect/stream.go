package dialect

import (
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// EventReader reads the events of one answer up to its end.
type EventReader struct {
	SSE *SSE
	// Doc is memory to scan an event in.
	Doc jsonscan.Document
	// Finished says that the answer is complete: a connection that breaks, a mark of the end
	// that does not come, or an event that cannot be read is no error after that. Stopped
	// says that nothing more is read.
	Finished, Stopped bool

	end error // the result of every further call
}

// Scan returns the value of an event of a dialect that has no mark of the end. It reports
// false for such a mark all the same, because proxies add one.
func (r *EventReader) Scan(event Event) (root jsonscan.Value, ok bool, err error) {
	if IsDone(event.Data) {
		return root, false, nil
	}
	if err := event.Failure(); err != nil {
		return root, false, err
	}
	root, err = Parse(&r.Doc, event.Data)
	if err != nil {
		return root, false, err
	}
	return root, true, FailureIn(root)
}

// Next reads events until take reports that there is something for the client. The errors
// are the errors of Events.
func (r *EventReader) Next(take func(Event) (bool, error)) error {
	for r.end == nil && !r.Stopped {
		DropLarge(&r.Doc)
		event, err := r.SSE.Next()
		if err == nil {
			taken, fault := take(event)
			if fault == nil && taken {
				return nil
			}
			if !errors.Is(fault, ErrInvalid) || !r.Finished && !r.SSE.Cut() {
				r.end = fault
				continue
			}
			err = io.EOF // the stream ended in the middle of this event, or before it
		}
		switch {
		case r.Finished:
			r.Stopped = true
		case errors.Is(err, io.EOF):
			r.end = ErrTruncated
		default:
			r.end = err
		}
	}
	if r.end == nil {
		r.end = io.EOF
	}
	return r.end
}

// StoredEvents returns a stream of chunks that are all there.
func StoredEvents(usage schema.Usage, chunks ...[]byte) *Stream {
	return &Stream{Events: &storedEvents{usage: usage, chunks: chunks}}
}

// storedEvents is a stream of chunks that are all there.
type storedEvents struct {
	chunks [][]byte
	usage  schema.Usage
}

func (e *storedEvents) Usage() schema.Usage { return e.usage }

// HasContent implements Events: all of the answer came at once.
func (e *storedEvents) HasContent() bool { return true }

func (e *storedEvents) Next() ([]byte, error) {
	if len(e.chunks) == 0 {
		return nil, io.EOF
	}
	next := e.chunks[0]
	e.chunks = e.chunks[1:]
	return next, nil
}
