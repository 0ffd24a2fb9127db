package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// events passes completion chunks on. It reads from them whether the answer is
// complete and what it cost.
type events struct {
	sse          *dialect.SSE
	doc          jsonscan.Document
	model        []byte // the caller's name of the model, as JSON
	includeUsage bool
	wanted       int    // choices that were asked for
	object       []byte // the member object of chunks that have none
	idPrefix     string // of an id that is made here

	usage    schema.Usage
	rawUsage []byte // kept only for a caller that asked for usage
	out      []byte
	segments [][]byte
	edits    []jsonscan.Edit
	template chunkTemplate
	numbers  callNumbers
	// mended are the edits that the choices of the chunk need.
	mended []jsonscan.Edit

	// The members that all chunks share, from the first chunk or made here, for
	// chunks that lack them. They lie in the two arrays if they fit.
	id, created  []byte
	idSpace      [64]byte
	createdSpace [32]byte

	choices   int  // choices of which something was seen
	begun     bool // a chunk went out
	finished  bool // a finish_reason was seen
	done      bool // nothing more is read
	usageSent bool
	large     bool // the last event was large, and memory that it needed is held
	rested    bool // nothing was scanned since rest
}

var (
	chunkObject = []byte(`"object":"chat.completion.chunk"`)
	emptyDelta  = []byte(`"delta":{}`)
)

// newEvents returns the stream of chunks that events reads.
func newEvents(e *events) *dialect.Stream { return &dialect.Stream{Events: e} }

// Usage returns the last report; backends that repeat it send running totals.
func (e *events) Usage() schema.Usage { return e.usage }

// Next returns the next chunk for the caller.
func (e *events) Next() ([]byte, error) {
	for !e.done {
		e.dropLarge()
		event, err := e.sse.Next()
		switch {
		case err != nil:
			if !e.finished {
				if errors.Is(err, io.EOF) {
					err = dialect.ErrTruncated
				}
				return nil, err
			}
			// The answer was complete; a missing [DONE] or an unclean end takes
			// nothing from it.
			e.done = true
		case dialect.IsDone(event.Data):
			if !e.begun {
				return nil, dialect.ErrTruncated
			}
			e.done = true
		default:
			chunk, err := e.chunk(event)
			switch {
			case err == nil && chunk == nil:
			case !errors.Is(err, dialect.ErrInvalid):
				return chunk, err
			case e.finished:
				e.done = true // nor does noise behind it
			case e.sse.Cut():
				return nil, dialect.ErrTruncated // half an event: the stream ended within it
			default:
				return nil, err
			}
		}
	}
	if err := dialect.CheckChoices(e.choices, e.wanted); err != nil {
		return nil, err
	}
	if e.includeUsage && !e.usageSent && e.rawUsage != nil {
		e.usageSent = true
		return e.usageChunk(), nil
	}
	return nil, io.EOF
}

// rest gives up what scanning a chunk needs: while chunks match the template it is not
// needed, and thousands of streams may wait.
func (e *events) rest() {
	if e.rested {
		return
	}
	e.rested = true
	e.doc, e.template.delta, e.numbers.delta = jsonscan.Document{}, jsonscan.Document{}, jsonscan.Document{}
	e.segments, e.edits, e.mended = nil, nil, nil
}

// dropLarge gives back the memory of a large event, now that its chunk was used.
func (e *events) dropLarge() {
	if !e.large {
		return
	}
	e.large = false
	dialect.DropLarge(&e.doc)
	dialect.DropLarge(&e.numbers.delta)
	clear(e.segments)
	e.out = dialect.Reuse(e.out)
}

// chunk reads one event; it returns nil for one that the caller does not get.
func (e *events) chunk(event dialect.Event) ([]byte, error) {
	if err := event.Failure(); err != nil {
		return nil, err
	}
	if e.template.matches(event.Data) {
		e.rest()
		return e.template.apply(&e.out, event.Data), nil
	}
	e.rested = false
	e.large = len(event.Data) > dialect.MaxKept
	e.doc.AllowDuplicateKeys = true
	if err := e.doc.Parse(event.Data); err != nil {
		if len(bytes.TrimSpace(event.Data)) == 0 {
			return nil, nil // a line that only keeps the connection alive
		}
		return nil, fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	return e.pass(e.doc.Root())
}

// pass returns what the caller gets of an event that was scanned; nil means nothing.
func (e *events) pass(root jsonscan.Value) ([]byte, error) {
	var m members
	m.read(root)
	e.mended = e.mended[:0]
	if m.fault.Given() || string(m.object.Text()) == "error" || root.Kind() == jsonscan.Array {
		if err := dialect.FailureIn(root); err != nil {
			return nil, err
		}
	}
	isChunk := m.choices.Kind() == jsonscan.Array
	if m.usage.Given() {
		e.identify(&m)
		e.recordUsage(m.usage)
		if !m.choices.Given() || isChunk && m.choices.Empty() {
			return e.usageOnly(root, &m), nil
		}
	}
	if !isChunk {
		return nil, e.nonChunkError(root, &m)
	}
	plain := !m.usage.Given()
	for c := m.choices.First(); c.Kind() != jsonscan.Absent; c = c.Next() {
		if c.Kind() != jsonscan.Object {
			return nil, fmt.Errorf("%w: a choice that is no object", dialect.ErrInvalid)
		}
		if dialect.IsFinishReason(c.Get("finish_reason")) {
			e.finished, plain = true, false
		}
		if index, _ := c.Get("index").Int(); index < int64(e.wanted) { // without one it is the first
			e.choices = max(e.choices, int(index)+1)
		}
		if delta := c.Get("delta"); !delta.Given() && !c.Get("text").Given() {
			// A report of Azure's content filter, for example. Clients require one.
			e.mended, plain = addMissingMember(e.mended, c, delta, emptyDelta), false
		}
		var hasCalls bool
		var err error
		if e.mended, hasCalls, err = e.numbers.mend(e.mended, c); err != nil {
			return nil, err
		}
		plain = plain && !hasCalls
	}
	e.begun = true
	e.identify(&m)
	out := e.edited(root, &m)
	if plain {
		e.template.learn(e.doc.Data(), m.choices, out, e.edits)
	}
	return out, nil
}

// usageOnly returns the chunk for an event that has only usage, or nil if the caller
// does not get it. Clients add up all usage that they see, so it is sent once, when
// the answer is complete: earlier reports are running totals, and a report that is
// not in the expected form is written again at the end.
func (e *events) usageOnly(root jsonscan.Value, m *members) []byte {
	if !e.includeUsage || !e.finished || e.usageSent || !m.choices.Given() {
		return nil
	}
	e.usageSent = true
	return e.edited(root, m)
}

// nonChunkError returns the error for an event that is JSON but not a chunk, or nil
// if the event may be skipped. The client never gets such an event.
func (e *events) nonChunkError(root jsonscan.Value, m *members) error {
	switch kind := string(m.kind.Text()); {
	case root.Kind() == jsonscan.Null, root.Kind() == jsonscan.Object && root.Empty(), kind == "ping", kind == "keepalive":
		return nil // servers are known to keep connections alive with these
	case dialect.LooksLikeFailure(root):
		return &dialect.Failure{Status: 200, Message: dialect.FailureMessage(root)}
	case root.Kind() != jsonscan.Object:
		return fmt.Errorf("%w: an event that is no object", dialect.ErrInvalid)
	case e.finished:
		return nil // the answer is complete, and this is no part of it
	}
	return fmt.Errorf("%w: an event that is no chunk", dialect.ErrInvalid)
}

// identify remembers what all chunks of the stream share.
func (e *events) identify(m *members) {
	if e.id == nil {
		if m.id.Kind() == jsonscan.String {
			e.id = append(append(e.idSpace[:0], `"id":`...), m.id.Raw()...)
		} else {
			e.id = appendNewID(e.idSpace[:0], e.idPrefix)
		}
	}
	if e.created == nil {
		if m.created.Kind() == jsonscan.Number {
			e.created = append(append(e.createdSpace[:0], `"created":`...), m.created.Raw()...)
		} else {
			e.created = appendCreated(e.createdSpace[:0])
		}
	}
}

// edited returns the chunk as the caller gets it: under its own name of the
// model, with the members that clients require, and without a usage that stands
// beside choices.
func (e *events) edited(root jsonscan.Value, m *members) []byte {
	e.edits = append(m.renameModel(e.edits[:0], root, e.model), e.mended...)
	if m.usage.Given() && !m.choices.Empty() {
		e.edits = append(e.edits, withoutUsage(m))
	}
	if !m.created.Given() {
		e.edits = addMissingMember(e.edits, root, m.created, e.created)
	}
	if !m.object.Given() {
		e.edits = addMissingMember(e.edits, root, m.object, e.object)
	}
	if !m.id.Given() {
		e.edits = addMissingMember(e.edits, root, m.id, e.id)
	}
	data := e.doc.Data()
	if len(e.edits) == 0 {
		return data
	}
	const perEdit = 3 // what stands before it, what it puts in, a comma
	e.segments = e.doc.Splice(slices.Grow(e.segments[:0], perEdit*len(e.edits)+1), e.edits)
	room := 2 * len(data) // for longer ones that follow
	if e.large {
		room = len(data) + dialect.MaxKept
	}
	e.out = slices.Grow(e.out[:0], room)
	for _, s := range e.segments {
		e.out = append(e.out, s...)
	}
	return e.out
}

// withoutUsage takes the usage out of a chunk. Two members cannot be removed from
// one object where they are neighbours, so that beside an error that is null,
// which is removed as well, the usage becomes null: that is no report.
func withoutUsage(m *members) jsonscan.Edit {
	if m.fault.Kind() == jsonscan.Null {
		return m.usage.Replace(jsonNull)
	}
	return m.usage.Remove()
}

func (e *events) recordUsage(usage jsonscan.Value) {
	report := schema.ReadUsage(usage)
	if !report.Known {
		return
	}
	e.usage = report
	if e.includeUsage {
		e.rawUsage = append(e.rawUsage[:0], usage.Raw()...)
	}
}

// usageChunk makes the usage chunk that a caller asked for and that the backend
// did not send as one of its own at the end.
func (e *events) usageChunk() []byte {
	w := jsonwrite.Writer{Out: e.out[:0]}
	w.Object()
	for _, member := range [][]byte{e.id, e.object, e.created} {
		w.Raw(member)
	}
	w.Member("model", e.model)
	w.Literal(`"choices":[]`)
	w.Member("usage", e.rawUsage)
	w.EndObject()
	e.out = w.Out
	return e.out
}
