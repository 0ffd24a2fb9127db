package openai

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// decodeChat reads a completion for clients of other dialects.
func decodeChat(req *schema.Request, body []byte, doc *jsonscan.Document, to *chat.Answer) error {
	doc.AllowDuplicateKeys, doc.Deep = true, true
	err := doc.Parse(body)
	doc.Deep = false // it is used again for answers that need no depth
	if err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	root := doc.Root()
	if err := dialect.FailureIn(root); err != nil {
		return err
	}
	to.ID, to.Usage = chat.TextIn(root, "id"), readUsage(root.Get("usage"))
	readTimings(root.Get("timings"), &to.Usage.Tokens)
	for c := range root.Get("choices").All() {
		message := c.Get("message")
		if message.Kind() != jsonscan.Object {
			return dialect.Invalid("a choice that says nothing")
		}
		index, ok := c.Get("index").Int()
		if !ok {
			index = int64(len(to.Choices))
		}
		to.Add(index).Read(c, message)
	}
	if len(to.Choices) == 0 {
		return dialect.Invalid("no choices")
	}
	return dialect.CheckChoices(len(to.Choices), dialect.WantedChoices(req))
}

// decodeStream reads the chunks of a completion for clients of other dialects.
func decodeStream(req *schema.Request, body io.Reader) dialect.Deltas {
	d := &deltas{reader: newReader(body, dialect.WantedChoices(req))}
	d.Doc.Deep = true
	return d
}

// deltas reads the chunks of a completion.
type deltas struct {
	reader
	delta   chat.Delta
	pattern dialect.TextPattern // of chunks that bring nothing but text
	// completesText says that the chunks belong to a text and not to a chat.
	completesText bool
}

// Usage returns the last report.
func (d *deltas) Usage() chat.Usage { return d.usage }

// Next returns the delta of the next chunk.
func (d *deltas) Next() (*chat.Delta, error) {
	d.delta.Reset()
	if err := d.next(d.take); err != nil {
		return nil, err
	}
	return &d.delta, nil
}

// take reads an event, and reports whether it is a chunk that says something.
func (d *deltas) take(event dialect.Event) (bool, error) {
	if text, ok := d.pattern.Text(event.Data); ok && string(event.Name) != errorEvent {
		d.rest()
		d.delta.Add(0).Text = text
		return true, nil
	}
	var m members
	isChunk, err := d.scan(event, &m)
	if !isChunk || err != nil || m.hasOnlyUsage() {
		return false, err
	}
	if d.delta.ID == nil {
		d.delta.ID = bytes.Clone(chat.TextOf(m.id))
	}
	for c := range m.choices.All() {
		index, err := d.see(c)
		if err != nil {
			return false, err
		}
		choice := d.delta.Add(index)
		if d.completesText {
			readText(choice, c)
			continue
		}
		said := c.Get("delta")
		choice.Read(c, said)
		for i := range choice.Calls {
			call := &choice.Calls[i]
			if call.Index, err = d.numbers.numberOf(index, call.Index, call.ID, len(call.Name) > 0); err != nil {
				return false, err
			}
		}
		if index == 0 && !m.usage.Given() && len(d.delta.Choices) == 1 && c.Next().Kind() == jsonscan.Absent &&
			saysOnlyText(c, said) {
			start, end := said.Get("content").Span()
			d.pattern.Learn(d.Doc.Data(), start, end)
		}
	}
	return true, nil
}

// saysOnlyText reports whether a chunk brings a text and nothing else. Chunks that differ
// from it only in the text need not be scanned.
func saysOnlyText(choice, delta jsonscan.Value) bool {
	content := delta.First()
	return content.Kind() == jsonscan.String && string(content.Key()) == "content" &&
		content.Next().Kind() == jsonscan.Absent &&
		!choice.Get("finish_reason").Given() && !choice.Get("logprobs").Given()
}

// readUsage reads the usage of a completion. A part that is not told, or that is more than
// the whole, is 0.
func readUsage(v jsonscan.Value) chat.Usage {
	u := chat.Usage{Tokens: schema.ReadUsage(v)}
	part := func(group, name string) int64 {
		n, _ := v.Get(group).Get(name).Int()
		return n
	}
	u.Cached = part("prompt_tokens_details", "cached_tokens")
	u.Reasoning = part("completion_tokens_details", "reasoning_tokens")
	u.Cached, u.Reasoning = u.Parts()
	return u
}

// readTimings reads llama.cpp's report of its time beside the usage.
func readTimings(v jsonscan.Value, u *schema.Usage) {
	if v.Kind() != jsonscan.Object {
		return
	}
	const most = 1e8 // more than a day
	if ms, ok := v.Get("prompt_ms").Float(); ok && ms > 0 && ms < most {
		u.Prefill = time.Duration(ms * float64(time.Millisecond))
	}
	if cached, ok := v.Get("cache_n").Int(); ok && !u.IsCachedTold && cached >= 0 && cached <= u.Prompt {
		u.Cached, u.IsCachedTold = cached, true
	}
}
