package dialect

import (
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// Passed is a stream that is passed on to clients of the backend's own dialect. The types that pass the
// events of a dialect on embed it.
type Passed struct {
	EventReader
	// Model is the client's name of the model, as JSON.
	Model []byte
	// Tokens is the usage that was reported last.
	Tokens schema.Usage
	// Content reports whether an event had content, and Complete whether the last event was passed on.
	Content, Complete bool
	// Onward writes the rest of the answer from another backend; nil while there is none.
	Onward Onward
	// Out is the output, and Edits is memory for the edits of an event.
	Out   []byte
	Edits []jsonscan.Edit

	segments [][]byte
}

// Onward writes the rest of an answer that was passed on at first.
type Onward interface {
	Events
	// IsComplete reports whether the last event was written.
	IsComplete() bool
}

// Usage returns the usage that was reported last.
func (p *Passed) Usage() schema.Usage {
	if p.Onward != nil {
		return p.Onward.Usage()
	}
	return p.Tokens
}

// HasContent reports whether an event had content.
func (p *Passed) HasContent() bool { return p.Content || p.Onward != nil && p.Onward.HasContent() }

// IsComplete reports whether the last event was passed on or written.
func (p *Passed) IsComplete() bool { return p.Complete || p.Onward != nil && p.Onward.IsComplete() }

// Read reads events until take has written one to Out, and returns the output.
func (p *Passed) Read(take func(Event) (bool, error)) ([]byte, error) {
	p.Out = Reuse(p.Out)
	if err := p.EventReader.Next(take); err != nil {
		return nil, err
	}
	return p.Out, nil
}

// Append appends the scanned event with some edits to the output, in the frame that frame appends.
func (p *Passed) Append(edits []jsonscan.Edit, frame func(dst []byte, parts ...[]byte) []byte) {
	p.Edits = edits
	p.segments = p.Doc.Splice(p.segments[:0], edits)
	p.Out = frame(p.Out, p.segments...)
	clear(p.segments)
}

// AppendEvent appends the scanned event with some edits to the output, as a server-sent event.
func (p *Passed) AppendEvent(name []byte, edits []jsonscan.Edit) {
	p.Append(edits, func(dst []byte, parts ...[]byte) []byte { return AppendFrame(dst, name, parts...) })
}
