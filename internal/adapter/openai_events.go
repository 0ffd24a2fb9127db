package adapter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// openAIEvents passes completion chunks through and watches them go by.
type openAIEvents struct {
	sse          *SSE
	doc          jsonscan.Document
	model        []byte // the caller's name of the model, as JSON
	includeUsage bool

	usage    schema.Usage
	rawUsage []byte // kept only for a caller that asked for usage
	head     []byte // the members that all chunks share, for a chunk of our own
	out      []byte
	segments [][]byte
	edits    []jsonscan.Edit

	begun     bool // a chunk went out
	finished  bool // a finish_reason was seen
	done      bool // nothing more is read
	usageSent bool
}

var doneMark = []byte("[DONE]")

// Usage returns the last report; backends that repeat it send running totals.
func (e *openAIEvents) Usage() schema.Usage { return e.usage }

// Next returns the next chunk for the caller.
func (e *openAIEvents) Next() ([]byte, error) {
	for !e.done {
		event, err := e.sse.Next()
		switch {
		case err != nil:
			if !e.finished {
				if errors.Is(err, io.EOF) {
					err = ErrTruncated
				}
				return nil, err
			}
			// The answer was complete; a missing [DONE] or an unclean end takes
			// nothing from it.
			e.done = true
		case bytes.Equal(event.Data, doneMark):
			if !e.begun {
				return nil, ErrTruncated
			}
			e.done = true
		default:
			chunk, err := e.chunk(event.Data)
			if e.sse.cut && errors.Is(err, ErrInvalid) {
				// Half an event: the stream ended within it.
				if !e.finished {
					return nil, ErrTruncated
				}
				e.done = true
				continue
			}
			if chunk != nil || err != nil {
				return chunk, err
			}
		}
	}
	if e.includeUsage && !e.usageSent && e.rawUsage != nil {
		e.usageSent = true
		return e.usageChunk(), nil
	}
	return nil, io.EOF
}

// chunk reads one event; it returns nil for one that the caller does not get.
func (e *openAIEvents) chunk(data []byte) ([]byte, error) {
	e.doc.AllowDuplicateKeys = true
	if err := e.doc.Parse(data); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	root := e.doc.Root()
	if root.Kind() != jsonscan.Object {
		return nil, fmt.Errorf("%w: an event that is no object", ErrInvalid)
	}
	if err := complaint(root); err != nil {
		return nil, err
	}
	choices := root.Get("choices")
	usage := root.Get("usage")
	if usage.Given() {
		e.sawUsage(root, usage)
		if !choices.Given() {
			return nil, nil // clients choke on it; the caller gets a chunk of our own
		}
		if choices.Empty() {
			if !e.includeUsage {
				return nil, nil
			}
			e.usageSent = true
		}
	}
	for c := choices.First(); c.Kind() != jsonscan.Absent; c = c.Next() {
		e.finished = e.finished || c.Get("finish_reason").Given()
	}
	e.begun = true
	e.edits = renameModel(e.edits[:0], root, e.model)
	if len(e.edits) == 0 {
		return data, nil
	}
	const perEdit = 3 // what stands before it, what it puts in, a comma
	e.segments = e.doc.Splice(slices.Grow(e.segments[:0], perEdit*len(e.edits)+1), e.edits)
	e.out = slices.Grow(e.out[:0], 2*len(data)) // room for longer ones that follow
	for _, s := range e.segments {
		e.out = append(e.out, s...)
	}
	return e.out, nil
}

func (e *openAIEvents) sawUsage(root, usage jsonscan.Value) {
	report := schema.ReadUsage(usage)
	if !report.Known {
		return
	}
	e.usage = report
	if !e.includeUsage {
		return
	}
	e.rawUsage = append(e.rawUsage[:0], usage.Raw()...)
	e.head = e.head[:0]
	for _, name := range []string{"id", "created"} {
		if v := root.Get(name); v.Given() {
			e.head = append(e.head, `"`+name+`":`...)
			e.head = append(e.head, v.Raw()...)
			e.head = append(e.head, ',')
		}
	}
}

// usageChunk makes the chunk that a caller asked for and whose content the
// backend sent along with another one.
func (e *openAIEvents) usageChunk() []byte {
	e.out = append(e.out[:0], '{')
	e.out = append(e.out, e.head...)
	e.out = append(e.out, `"object":"chat.completion.chunk","model":`...)
	e.out = append(e.out, e.model...)
	e.out = append(e.out, `,"choices":[],"usage":`...)
	e.out = append(e.out, e.rawUsage...)
	e.out = append(e.out, '}')
	return e.out
}
