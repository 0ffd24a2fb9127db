package openai

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// reader reads chunks of a completion. It finds out whether the answer is complete and
// how many tokens it cost.
type reader struct {
	dialect.EventReader
	wanted  int        // choices that were asked for
	usage   chat.Usage // the last report; backends that repeat it send running totals
	numbers callNumbers

	choices int  // choices that were seen so far
	begun   bool // a chunk was there
	rested  bool // nothing was scanned since rest
}

func newReader(body io.Reader, wanted int) reader {
	return reader{EventReader: dialect.EventReader{SSE: dialect.NewSSE(body)}, wanted: wanted}
}

// next reads events until take reports that the client gets one.
func (r *reader) next(take func(dialect.Event) (bool, error)) error {
	dialect.DropLarge(&r.numbers.delta)
	err := r.EventReader.Next(take)
	if errors.Is(err, io.EOF) {
		if wrong := dialect.CheckChoices(r.choices, r.wanted); wrong != nil {
			return wrong
		}
	}
	return err
}

// rest gives up the memory for scanning a chunk: while chunks match an earlier one it is
// not needed, and thousands of streams may wait.
func (r *reader) rest() {
	if !r.rested {
		r.rested = true
		r.Doc, r.numbers.delta = jsonscan.Document{Deep: r.Doc.Deep}, jsonscan.Document{}
	}
}

// scan scans an event and reports whether it is a chunk: one of the answer, or one that
// has only usage.
func (r *reader) scan(event dialect.Event, m *members) (isChunk bool, err error) {
	if dialect.IsDone(event.Data) {
		if !r.begun {
			return false, dialect.ErrTruncated
		}
		r.Stopped = true
		return false, nil
	}
	if err := event.Failure(); err != nil {
		return false, err
	}
	r.rested = false
	r.Doc.AllowDuplicateKeys = true
	if err := r.Doc.Parse(event.Data); err != nil {
		if len(bytes.TrimSpace(event.Data)) == 0 {
			return false, nil // a line that only keeps the connection alive
		}
		return false, fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	root := r.Doc.Root()
	m.read(root)
	if m.fault.Given() || string(m.object.Text()) == "error" || root.Kind() == jsonscan.Array {
		if err := dialect.FailureIn(root); err != nil {
			return false, err
		}
	}
	if m.usage.Given() {
		if report := readUsage(m.usage); report.Known {
			readTimings(m.timings, &report.Tokens)
			r.usage, m.reports = report, true
		}
		if m.hasOnlyUsage() {
			return true, nil
		}
	}
	if m.choices.Kind() != jsonscan.Array {
		return false, r.nonChunkError(root, m)
	}
	r.begun = true
	return true, nil
}

// see takes note of a choice of a chunk, and returns its number.
func (r *reader) see(choice jsonscan.Value) (int64, error) {
	if choice.Kind() != jsonscan.Object {
		return 0, dialect.Invalid("a choice that is no object")
	}
	r.Finished = r.Finished || dialect.IsFinishReason(choice.Get("finish_reason"))
	index, _ := choice.Get("index").Int() // without one it is the first
	if index < int64(r.wanted) {
		r.choices = max(r.choices, int(index)+1)
	}
	return index, nil
}

// events passes completion chunks on.
type events struct {
	reader
	model        []byte // the caller's name of the model, as JSON
	includeUsage bool
	object       []byte // the member object of chunks that have none
	idPrefix     string // of an id that is made here

	rawUsage []byte // kept only for a caller that asked for usage
	chunk    []byte // for the caller
	out      []byte
	segments [][]byte
	edits    []jsonscan.Edit
	template chunkTemplate
	// mended are the edits that the choices of the chunk need.
	mended []jsonscan.Edit

	// The members that all chunks share, from the first chunk or made here, for
	// chunks that lack them. They lie in the two arrays if they fit.
	id, created  []byte
	idSpace      [64]byte
	createdSpace [32]byte

	usageSent  bool
	hasContent bool            // a chunk had some
	onward     *dialect.Chunks // writes the rest of the answer from another backend; nil while there is none
	sent       *sentTexts      // for the transcript; nil if there is none
}

// errorEvent is the name of events that are errors.
const errorEvent = "error"

var (
	chunkObject = []byte(`"object":"chat.completion.chunk"`)
	emptyDelta  = []byte(`"delta":{}`)
)

// newEvents returns the stream of chunks that events reads.
func newEvents(e *events) *dialect.Stream { return &dialect.Stream{Events: e} }

// Usage returns the last report.
func (e *events) Usage() schema.Usage {
	if e.onward != nil {
		return e.onward.Usage()
	}
	return e.usage.Tokens
}

// HasContent reports whether a chunk had content.
func (e *events) HasContent() bool { return e.hasContent || e.onward != nil && e.onward.HasContent() }

// Next returns the next chunk for the caller.
func (e *events) Next() ([]byte, error) {
	if e.onward != nil {
		return e.onward.Next()
	}
	e.chunk = nil
	clear(e.segments)
	e.out = dialect.Reuse(e.out)
	err := e.next(e.take)
	if errors.Is(err, io.EOF) && e.includeUsage && !e.usageSent && e.rawUsage != nil {
		e.usageSent = true
		return e.usageChunk(), nil
	}
	return e.chunk, err
}

// take reads an event into the chunk that the caller gets of it, and reports whether there
// is one.
func (e *events) take(event dialect.Event) (bool, error) {
	if chunk, text, matches := e.template.apply(&e.out, event.Data); matches && string(event.Name) != errorEvent {
		if !e.rested {
			e.rest()
			e.template.delta = jsonscan.Document{}
			e.segments, e.edits, e.mended = nil, nil, nil
		}
		e.chunk, e.hasContent = chunk, e.hasContent || len(text) > 0
		if e.sent != nil {
			e.sent.addText(text, e.template.isThinking)
		}
		return true, nil
	}
	var m members
	isChunk, err := e.scan(event, &m)
	if !isChunk || err != nil {
		return false, err
	}
	e.identify(&m)
	if m.reports && e.includeUsage {
		e.rawUsage = append(e.rawUsage[:0], m.usage.Raw()...)
	}
	if m.hasOnlyUsage() {
		e.chunk = e.usageOnly(&m)
	} else {
		e.chunk, err = e.pass(&m)
	}
	return e.chunk != nil, err
}

// pass returns the caller's form of a chunk that was scanned.
func (e *events) pass(m *members) ([]byte, error) {
	e.mended = e.mended[:0]
	plain := !m.usage.Given()
	for c := range m.choices.All() {
		if _, err := e.see(c); err != nil {
			return nil, err
		}
		plain = plain && !dialect.IsFinishReason(c.Get("finish_reason"))
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
		e.hasContent = e.hasContent || hasContent(c, &e.template.delta)
		if e.sent != nil {
			e.sent.add(c)
		}
	}
	out := e.edited(m)
	if plain {
		e.template.learn(e.Doc.Data(), m.choices, out, e.edits)
	}
	return out, nil
}

// hasContent reports whether a choice of a chunk has content. The document is memory to
// scan its delta in.
func hasContent(choice jsonscan.Value, doc *jsonscan.Document) bool {
	if len(chat.TextIn(choice, "text")) > 0 { // of a completion
		return true
	}
	delta := choice.Get("delta")
	return delta.Kind() == jsonscan.Object && chat.HasContent(doc.Rescan(delta))
}

// usageOnly returns the chunk for an event that has only usage, or nil if the caller
// does not get it. Clients add up all usage that they see, so it is sent once, when
// the answer is complete: earlier reports are running totals, and a report that is
// not in the expected form is written again at the end.
func (e *events) usageOnly(m *members) []byte {
	if !e.includeUsage || !e.Finished || e.usageSent || !m.choices.Given() {
		return nil
	}
	e.usageSent = true
	e.mended = e.mended[:0]
	return e.edited(m)
}

// nonChunkError returns the error for an event that is JSON but not a chunk, or nil
// if the event may be skipped. The client never gets such an event.
func (r *reader) nonChunkError(root jsonscan.Value, m *members) error {
	switch kind := string(m.kind.Text()); {
	case root.Kind() == jsonscan.Null, root.Kind() == jsonscan.Object && root.Empty(), kind == "ping",
		kind == "keepalive":
		return nil // servers are known to keep connections alive with these
	case dialect.LooksLikeFailure(root):
		return &dialect.Failure{Status: 200, Message: dialect.FailureMessage(root)}
	case root.Kind() != jsonscan.Object:
		return dialect.Invalid("an event that is no object")
	case r.Finished:
		return nil // the answer is complete, and this is no part of it
	}
	return dialect.Invalid("an event that is no chunk")
}

// identify remembers the members that all chunks of the stream share.
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

// edited returns the chunk as the caller gets it: under its own name of the model, with
// the members that clients require, and without a usage beside choices.
func (e *events) edited(m *members) []byte {
	root := e.Doc.Root()
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
	data := e.Doc.Data()
	if len(e.edits) == 0 {
		return data
	}
	const perEdit = 3 // the text before it, its own text, a comma
	e.segments = e.Doc.Splice(slices.Grow(e.segments[:0], perEdit*len(e.edits)+1), e.edits)
	e.out = slices.Grow(e.out[:0], len(data)+min(len(data), dialect.MaxKept)) // with room for longer ones that follow
	for _, s := range e.segments {
		e.out = append(e.out, s...)
	}
	return e.out
}

// withoutUsage takes the usage out of a chunk. Two neighbouring members cannot be
// removed from one object. So beside an error that is null, which is removed as well,
// the usage becomes null: that is no report.
func withoutUsage(m *members) jsonscan.Edit {
	if m.fault.Kind() == jsonscan.Null {
		return m.usage.Replace(jsonNull)
	}
	return m.usage.Remove()
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
