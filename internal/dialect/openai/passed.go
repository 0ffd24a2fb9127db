package openai

import (
	"bytes"
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// newPassedEvents reads a stream of events that are passed on.
func newPassedEvents(model string, body io.Reader) *dialect.Stream {
	e := &passedEvents{}
	e.SSE, e.Model = dialect.NewSSE(body), jsonwrite.AppendText(nil, model)
	return &dialect.Stream{Events: e, IsComplete: e.IsComplete}
}

// passedEvents passes events on with their names. It reads the facts that the gateway
// must know and gives events the client's name of the model.
type passedEvents struct {
	dialect.Passed

	begun bool // an event went out
	typed bool // events are of a kind that has a known last one
	ended bool // the last one was there
}

// Next returns the next event in its final frame.
func (e *passedEvents) Next() ([]byte, error) {
	event, err := e.SSE.Next()
	for err == nil && len(bytes.TrimSpace(event.Data)) == 0 {
		event, err = e.SSE.Next() // it only kept the connection alive
	}
	switch {
	case errors.Is(err, io.EOF) && (!e.begun || e.typed && !e.ended):
		return nil, dialect.ErrTruncated
	case err != nil && e.ended:
		return nil, io.EOF // nothing was lost
	case err != nil:
		return nil, err
	}
	defer e.Doc.Reset()
	if err := e.inspect(event); err != nil {
		return nil, err
	}
	e.begun = true
	e.write(event)
	return e.Out, nil
}

// write writes an event that was looked at into its frame.
func (e *passedEvents) write(event dialect.Event) {
	e.Out = dialect.Reuse(e.Out)
	if edits := dialect.RenameModel(e.Edits[:0], e.Doc.Root(), e.Model); len(edits) > 0 {
		e.AppendEvent(event.Name, edits)
	} else {
		e.Out = dialect.AppendFrame(e.Out, event.Name, event.Data)
	}
}

// inspect reads from an event whether it is an error, whether it is the last one,
// and its usage.
func (e *passedEvents) inspect(event dialect.Event) error {
	if err := event.Failure(); err != nil {
		return err
	}
	if dialect.IsDone(event.Data) {
		if !e.begun {
			return dialect.ErrTruncated
		}
		e.ended, e.Complete = true, true
		return nil
	}
	root, err := dialect.Parse(&e.Doc, event.Data)
	if err != nil {
		return err
	}
	kind := root.TextOf("type")
	switch {
	case root.Kind() != jsonscan.Object:
		return dialect.Invalid("an event that is no object")
	case root.Get("error").Given(), string(kind) == "error":
		return dialect.ReadFailure(200, event.Data)
	}
	choices := root.Get("choices") // vLLM sends transcripts as chunks of a completion
	e.typed = e.typed || len(kind) > 0 || choices.Kind() == jsonscan.Array
	e.ended = e.ended || finishes(choices) || bytes.HasSuffix(kind, []byte(".done")) ||
		bytes.HasSuffix(kind, []byte(".completed"))
	if usage := schema.ReadUsage(root.Get("usage")); usage.Known {
		e.Tokens = usage
	}
	// An event that ends the answer and reports no usage may be followed by one that does.
	e.Complete = e.Complete || e.ended && e.Tokens.Known
	e.Content = e.Content || passedContent(root, choices)
	return nil
}

// passedContent reports whether an event has content: a chunk of a completion as any other
// does, a piece of a transcript unless it is empty, and any other event, such as one of
// audio or of an image.
func passedContent(root, choices jsonscan.Value) bool {
	if choices.Kind() != jsonscan.Array {
		piece := root.Get("delta")
		return !piece.Given() || len(chat.TextOf(piece)) > 0
	}
	var doc jsonscan.Document
	for c := range choices.All() {
		if hasContent(c, &doc) {
			return true
		}
	}
	return false
}

// finishes reports whether one of the choices says why it ended.
func finishes(choices jsonscan.Value) bool {
	for c := range choices.All() {
		if dialect.IsFinishReason(c.Get("finish_reason")) {
			return true
		}
	}
	return false
}
