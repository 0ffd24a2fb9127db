package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/patchbay-ai/patchbay/internal/adapter"
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
	if err := r.beginEvents(&passing{sse: adapter.NewSSE(r.response)}, deadline); err != nil {
		return err
	}
	r.framed = true
	r.plain.ContentType = "text/event-stream"
	return nil
}

// passing passes events on with their names, and watches them go by.
type passing struct {
	sse   *adapter.SSE
	doc   jsonscan.Document
	usage schema.Usage
	frame []byte

	begun bool // an event went out
	typed bool // events say what they are, so that the last one is known
	ended bool // the last one was there
}

// keepFrame is the largest frame whose memory is kept for the next one.
const keepFrame = 64 << 10

// Usage returns the last report.
func (e *passing) Usage() schema.Usage { return e.usage }

// Next returns the next event in the frame in which it is sent.
func (e *passing) Next() ([]byte, error) {
	event, err := e.sse.Next()
	for err == nil && len(bytes.TrimSpace(event.Data)) == 0 {
		event, err = e.sse.Next() // it only kept the connection alive
	}
	switch {
	case errors.Is(err, io.EOF) && (!e.begun || e.typed && !e.ended):
		return nil, adapter.ErrTruncated
	case err != nil && e.ended:
		return nil, io.EOF // nothing was lost
	case err != nil:
		return nil, err
	}
	if err := e.look(event); err != nil {
		return nil, err
	}
	e.begun = true
	if cap(e.frame) > keepFrame {
		e.frame = nil
	}
	e.frame = e.frame[:0]
	if len(event.Name) > 0 {
		e.frame = append(append(append(e.frame, "event: "...), event.Name...), '\n')
	}
	e.frame = append(append(append(e.frame, "data: "...), event.Data...), "\n\n"...)
	return e.frame, nil
}

// look reads what the gateway must know of an event: that it is no error, whether
// it is the last one, and what it cost.
func (e *passing) look(event adapter.Event) error {
	if string(event.Name) == "error" {
		return adapter.ReadFailure(200, event.Data)
	}
	if bytes.Equal(bytes.TrimSpace(event.Data), []byte("[DONE]")) {
		if !e.begun {
			return adapter.ErrTruncated
		}
		e.ended = true
		return nil
	}
	defer e.doc.Reset()
	e.doc.AllowDuplicateKeys = true
	if err := e.doc.Parse(event.Data); err != nil {
		return fmt.Errorf("%w: %w", adapter.ErrInvalid, err)
	}
	root := e.doc.Root()
	kind := root.Get("type").Text()
	switch {
	case root.Kind() != jsonscan.Object:
		return fmt.Errorf("%w: an event that is no object", adapter.ErrInvalid)
	case root.Get("error").Given(), string(kind) == "error":
		return adapter.ReadFailure(200, event.Data)
	}
	e.typed = e.typed || len(kind) > 0
	e.ended = e.ended || bytes.HasSuffix(kind, []byte(".done")) || bytes.HasSuffix(kind, []byte(".completed"))
	if usage := schema.ReadUsage(root.Get("usage")); usage.Known {
		e.usage = usage
	}
	return nil
}
