package gemini

import (
	"errors"
	"io"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// deltas reads a stream of partial answers. How a candidate ended is told last of all:
// some servers go on after they said it, and calls may still come.
type deltas struct {
	dialect.EventReader
	answer partialAnswer
	delta  chat.Delta
	ended  bool // the last delta went out
}

// decodeStream reads server-sent events of partial answers.
func decodeStream(_ *schema.Request, body io.Reader) dialect.Deltas {
	d := &deltas{EventReader: dialect.EventReader{SSE: dialect.NewSSE(body)}}
	d.answer.to = &d.delta
	return d
}

// Usage returns the last report.
func (d *deltas) Usage() chat.Usage { return d.answer.usage.Usage }

// Next returns the delta of the next event.
func (d *deltas) Next() (*chat.Delta, error) {
	d.delta.Reset()
	dialect.DropLarge(&d.answer.content, &d.answer.inner)
	err := d.EventReader.Next(d.take)
	if errors.Is(err, io.EOF) && !d.ended {
		if err = d.answer.settle(dialect.ErrTruncated); err == nil {
			d.ended = true
			d.tellEnds()
		}
	}
	if err != nil {
		return nil, err
	}
	return &d.delta, nil
}

// take reads an event, and reports whether it tells something.
func (d *deltas) take(event dialect.Event) (bool, error) {
	if dialect.IsDone(event.Data) { // the dialect has none, but proxies add it
		d.Stopped = true
		return false, nil
	}
	if err := event.Failure(); err != nil {
		return false, err
	}
	err := d.answer.take(&d.Doc, event.Data)
	d.Finished = d.complete()
	if err != nil {
		return false, err
	}
	d.tellPending()
	return len(d.delta.Choices) > 0, nil
}

// complete reports whether every candidate has ended.
func (d *deltas) complete() bool {
	if len(d.answer.candidates) == 0 {
		return d.answer.blocked != ""
	}
	for i := range d.answer.candidates {
		if d.answer.candidates[i].finish == "" {
			return d.answer.blocked != ""
		}
	}
	return true
}

// tellPending leaves the choices in the delta that have something to tell.
func (d *deltas) tellPending() {
	told := 0
	for i := range d.delta.Choices {
		c := &d.delta.Choices[i]
		if len(c.Text)+len(c.Thinking)+len(c.Calls)+len(c.Images)+len(c.Extra)+len(c.Logprobs) == 0 {
			continue
		}
		d.answer.candidate(c.Index).begin(c)
		if told != i { // the choice that moves to i is told nowhere
			d.delta.Choices[told], d.delta.Choices[i] = *c, d.delta.Choices[told]
		}
		told++
	}
	d.delta.Choices = d.delta.Choices[:told]
}

// tellEnds writes how every candidate ended.
func (d *deltas) tellEnds() {
	for i := range d.answer.candidates {
		c := &d.answer.candidates[i]
		choice := d.delta.Add(c.index)
		c.begin(choice)
		choice.Finish = c.finishReason()
	}
}

// begin completes the first delta of a candidate, which has a text in any case.
func (c *candidate) begin(choice *chat.Choice) {
	if len(choice.Text) == 0 {
		choice.Text = nil
	}
	if c.begun {
		return
	}
	c.begun, choice.Begins = true, true
	switch {
	case len(choice.Text) > 0:
	case c.refused():
		choice.HasNoText, choice.Refusal = true, c.refusal()
	case c.filled:
		choice.HasNoText = true
	default:
		choice.Text = []byte{}
	}
}
