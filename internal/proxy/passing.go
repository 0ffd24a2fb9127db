package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// asksForEvents tells whether the caller of a service type other than chat wants
// the answer as events. Such events are passed on as they are: no two service
// types have the same.
func asksForEvents(req *schema.Request) bool {
	switch req.Service {
	case schema.TTS:
		return string(req.Field("stream_format").Text()) == "sse"
	case schema.ImgGen:
		return req.Field("stream").Kind() == jsonscan.True
	case schema.STT, schema.ImgEdit:
		value, _ := req.Form.Value("stream")
		asked, err := strconv.ParseBool(value)
		return asked && err == nil
	}
	return false
}

// beginPassing waits for the first event of a stream that is passed on as it is.
func (r *Reply) beginPassing(deadline time.Time) error {
	if err := r.beginEvents(&passing{sse: dialect.NewSSE(r.response), model: r.Model}, deadline); err != nil {
		return err
	}
	r.framed = true
	r.plain.ContentType = "text/event-stream"
	return nil
}

// passing passes events on with their names, and watches them go by.
type passing struct {
	sse   *dialect.SSE
	doc   jsonscan.Document
	model string // the caller's name of it
	usage schema.Usage
	frame []byte

	edits    []jsonscan.Edit
	segments [][]byte

	begun bool // an event went out
	typed bool // events are of a kind whose last one is known
	ended bool // the last one was there
	done  bool // and the mark that nothing follows it
}

// keepFrame is the largest frame whose memory is kept for the next one.
const keepFrame = 64 << 10

// Usage returns the last report.
func (e *passing) Usage() schema.Usage { return e.usage }

// isComplete reports whether a client may take the answer for complete when it has
// the last event that Next returned. An event that ends the answer and reports no
// usage may be followed by one that does.
func (e *passing) isComplete() bool { return e.done || e.ended && e.usage.Known }

// Next returns the next event in the frame in which it is sent.
func (e *passing) Next() ([]byte, error) {
	event, err := e.sse.Next()
	for err == nil && len(bytes.TrimSpace(event.Data)) == 0 {
		event, err = e.sse.Next() // it only kept the connection alive
	}
	switch {
	case errors.Is(err, io.EOF) && (!e.begun || e.typed && !e.ended):
		return nil, dialect.ErrTruncated
	case err != nil && e.ended:
		return nil, io.EOF // nothing was lost
	case err != nil:
		return nil, err
	}
	defer e.doc.Reset()
	if err := e.look(event); err != nil {
		return nil, err
	}
	e.begun = true
	e.write(event)
	return e.frame, nil
}

// write writes an event that was looked at into its frame.
func (e *passing) write(event dialect.Event) {
	if cap(e.frame) > keepFrame {
		e.frame = nil
	}
	e.frame = e.frame[:0]
	if len(event.Name) > 0 {
		e.frame = append(append(append(e.frame, "event: "...), event.Name...), '\n')
	}
	e.frame = append(e.frame, "data: "...)
	model := e.doc.Root().Get("model")
	if model.Kind() == jsonscan.String && string(model.Text()) != e.model {
		name, _ := jsontext.AppendQuote(nil, e.model) // the configured name is valid UTF-8
		e.edits = append(e.edits[:0], model.Replace(name))
		e.segments = e.doc.Splice(e.segments[:0], e.edits)
		for _, s := range e.segments {
			e.frame = append(e.frame, s...)
		}
		clear(e.segments)
	} else {
		e.frame = append(e.frame, event.Data...)
	}
	e.frame = append(e.frame, "\n\n"...)
}

// look reads what the gateway must know of an event: that it is no error, whether
// it is the last one, and what it cost.
func (e *passing) look(event dialect.Event) error {
	if string(event.Name) == "error" {
		return dialect.ReadFailure(200, event.Data)
	}
	if bytes.Equal(bytes.TrimSpace(event.Data), []byte("[DONE]")) {
		if !e.begun {
			return dialect.ErrTruncated
		}
		e.ended, e.done = true, true
		return nil
	}
	e.doc.AllowDuplicateKeys = true
	if err := e.doc.Parse(event.Data); err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	root := e.doc.Root()
	kind := root.Get("type").Text()
	switch {
	case root.Kind() != jsonscan.Object:
		return fmt.Errorf("%w: an event that is no object", dialect.ErrInvalid)
	case root.Get("error").Given(), string(kind) == "error":
		return dialect.ReadFailure(200, event.Data)
	}
	choices := root.Get("choices") // vLLM sends transcripts as chunks of a completion
	e.typed = e.typed || len(kind) > 0 || choices.Kind() == jsonscan.Array
	e.ended = e.ended || finishes(choices) || bytes.HasSuffix(kind, []byte(".done")) || bytes.HasSuffix(kind, []byte(".completed"))
	if usage := schema.ReadUsage(root.Get("usage")); usage.Known {
		e.usage = usage
	}
	return nil
}

// finishes tells whether one of the choices says why it is at its end.
func finishes(choices jsonscan.Value) bool {
	for c := choices.First(); c.Kind() != jsonscan.Absent; c = c.Next() {
		if len(c.Get("finish_reason").Text()) > 0 {
			return true
		}
	}
	return false
}
