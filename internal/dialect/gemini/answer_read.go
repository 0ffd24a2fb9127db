package gemini

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
)

// maxCandidates bounds the number of a candidate, whether the answer gives it or the
// candidate's place.
const maxCandidates = 128

// partialAnswer is an answer as far as it was read: all of a plain one, or the
// part of a stream that came since the last chunk.
type partialAnswer struct {
	model  []byte // the caller's name of the model, as JSON
	object string // what is made of it: a completion or its chunks
	out    dialect.Completion

	choices []choice
	usage   tokenCounts
	blocked string // why the prompt was refused

	doc, content, inner jsonscan.Document
}

// choice is one candidate. Its texts are contents of JSON strings, its
// lists elements of JSON arrays.
type choice struct {
	index  int64
	calls  int    // so far
	finish string // the unified reason, empty while there is none
	reason string // the backend's reason for withholding content
	begun  bool   // a chunk went out
	filled bool   // there was content of any kind

	text, reasoning             []byte
	toolCalls, images, logprobs jsonwrite.Writer
	signature                   []byte // as JSON
}

// take reads an answer or an event of a stream. A stream that was not asked to
// be one of events comes as an array of them.
func (a *partialAnswer) take(data []byte) error {
	a.doc.AllowDuplicateKeys = true
	if err := a.doc.Parse(data); err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	root := a.doc.Root()
	if root.Kind() != jsonscan.Array {
		return a.takeObject(root)
	}
	var list [][]byte
	for v := root.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		list = append(list, v.Raw())
	}
	for _, raw := range list {
		if err := a.doc.Parse(raw); err != nil {
			return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
		}
		if err := a.takeObject(a.doc.Root()); err != nil {
			return err
		}
	}
	return nil
}

// takeObject reads one object. Its members are gone through once rather than
// looked up one by one: this is what every event of every stream costs.
func (a *partialAnswer) takeObject(root jsonscan.Value) error {
	if root.Kind() != jsonscan.Object {
		return fmt.Errorf("%w: something else than an object", dialect.ErrInvalid)
	}
	var candidates, id jsonscan.Value
	for m := root.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		switch string(m.Key()) {
		case "candidates":
			candidates = m
		case "usageMetadata":
			a.usage.read(m)
		case "responseId":
			id = m
		case "promptFeedback":
			if reason := m.Get("blockReason"); reason.Given() {
				a.blocked = plainReason(reason.Text())
			}
		case "error":
			if err := dialect.FailureIn(root); err != nil {
				return err
			}
		}
	}
	if !a.out.Identified() {
		a.out.Identify(a.object, dialect.RawText(id), time.Now().Unix(), a.model)
	}
	position := int64(0)
	for c := candidates.First(); c.Kind() != jsonscan.Absent; c = c.Next() {
		if err := a.candidate(c, position); err != nil {
			return err
		}
		position++
	}
	return nil
}

func (a *partialAnswer) candidate(c jsonscan.Value, position int64) error {
	index := position
	var content, logprobs, reason, message jsonscan.Value
	for m := c.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		switch string(m.Key()) {
		case "index":
			var ok bool
			if index, ok = m.Int(); !ok {
				index = -1
			}
		case "content":
			content = m
		case "logprobsResult":
			logprobs = m
		case "finishReason":
			reason = m
		case "finishMessage":
			message = m
		}
	}
	if index < 0 || index >= maxCandidates {
		return fmt.Errorf("%w: a candidate without a proper index", dialect.ErrInvalid)
	}
	choice := a.choice(index)
	if content.Kind() == jsonscan.Object {
		if err := a.parts(choice, content); err != nil {
			return err
		}
	}
	if logprobs.Kind() == jsonscan.Object {
		if err := a.tokens(choice, logprobs); err != nil {
			return err
		}
	}
	if !reason.Given() {
		return nil
	}
	return choice.end(reason.Text(), message.Text())
}

func (a *partialAnswer) choice(index int64) *choice {
	for i := range a.choices {
		if a.choices[i].index == index {
			return &a.choices[i]
		}
	}
	a.choices = append(a.choices, choice{index: index})
	return &a.choices[len(a.choices)-1]
}

// parts reads the parts of a candidate, which lie deeper than a whole answer is
// recorded.
func (a *partialAnswer) parts(choice *choice, content jsonscan.Value) error {
	a.content.AllowDuplicateKeys = true
	if err := a.content.Parse(content.Raw()); err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	for part := a.content.Root().Get("parts").First(); part.Kind() != jsonscan.Absent; part = part.Next() {
		if err := a.part(choice, part); err != nil {
			return err
		}
	}
	choice.filled = choice.filled || len(choice.text)+len(choice.reasoning)+len(choice.toolCalls.Out)+len(choice.images.Out) > 0
	return nil
}

func (a *partialAnswer) part(choice *choice, part jsonscan.Value) error {
	var text, thought, call, data, signature jsonscan.Value
	for m := part.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		switch string(m.Key()) {
		case "text":
			text = m
		case "thought":
			thought = m
		case "functionCall":
			call = m
		case "inlineData":
			data = m
		case "thoughtSignature":
			signature = m
		}
	}
	switch {
	case call.Given():
		return a.call(choice, call, signature)
	case data.Given():
		if err := a.image(choice, data); err != nil {
			return err
		}
	case thought.Kind() == jsonscan.True:
		choice.reasoning = append(choice.reasoning, dialect.RawText(text)...)
	default:
		choice.text = append(choice.text, dialect.RawText(text)...)
	}
	if len(dialect.RawText(signature)) > 0 {
		choice.signature = append(choice.signature[:0], signature.Raw()...)
	}
	return nil
}

// call reads a function call. The signature is the call's own and goes with it.
func (a *partialAnswer) call(choice *choice, call, signature jsonscan.Value) error {
	a.inner.AllowDuplicateKeys = true
	if err := a.inner.Parse(call.Raw()); err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	call = a.inner.Root()
	name := call.Get("name")
	if len(dialect.RawText(name)) == 0 {
		return fmt.Errorf("%w: a function call without a name", dialect.ErrInvalid)
	}
	index, id := choice.calls, call.Get("id").Raw()
	if a.object == dialect.CompletionObject {
		index = -1
	}
	if len(dialect.RawText(call.Get("id"))) == 0 {
		id = []byte(`"` + inventedCall + rand.Text() + `"`)
	}
	out := &choice.toolCalls
	dialect.BeginCall(out, index, id, name.Raw())
	out.Text(dialect.CompactObject(call.Get("args")))
	out.EndObject()
	if len(dialect.RawText(signature)) > 0 {
		writeSignature(out, signature.Raw())
	}
	out.EndObject()
	choice.calls++
	return nil
}

// writeSignature writes the member in which callers get a signature and are to
// give it back, the one of Google's own OpenAI surface.
func writeSignature(w *jsonwrite.Writer, signature []byte) {
	w.Open(`"extra_content":{"google":{`)
	w.Member("thought_signature", signature)
	w.Close("}}")
}

// image reads a picture that the model made.
func (a *partialAnswer) image(choice *choice, data jsonscan.Value) error {
	a.inner.AllowDuplicateKeys = true
	if err := a.inner.Parse(data.Raw()); err != nil {
		return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
	}
	out := &choice.images
	out.Open(`{"type":"image_url","image_url":{"url":"data:`)
	out.Out = append(out.Out, dialect.RawText(a.inner.Root().Get("mimeType"))...)
	out.Out = append(out.Out, `;base64,`...)
	out.Out = append(out.Out, dialect.RawText(a.inner.Root().Get("data"))...)
	out.Close(`"}}`)
	return nil
}

// end reads the reason why a candidate ended.
func (c *choice) end(reason, message []byte) error {
	switch string(reason) {
	case "STOP", "OTHER":
		c.finish = "stop"
	case "MAX_TOKENS":
		c.finish = "length"
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		c.finish, c.reason = "content_filter", plainReason(reason)
	case "", "FINISH_REASON_UNSPECIFIED":
	case "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS",
		"MISSING_THOUGHT_SIGNATURE", "NO_IMAGE", "IMAGE_OTHER":
		if len(message) == 0 {
			message = reason
		}
		return &dialect.Failure{Status: 200, Message: string(message)}
	default:
		// Reasons are added over time; an answer with content is one.
		c.finish = "stop"
	}
	return nil
}

// finishReason returns the unified reason, for clients that look there first to
// learn that there are calls.
func (c *choice) finishReason() string {
	if c.calls > 0 && c.finish != "content_filter" {
		return "tool_calls"
	}
	return c.finish
}

// plainReason returns a reason that is safe to be shown: the backend's reasons
// are names in capitals.
func plainReason(reason []byte) string {
	for _, c := range reason {
		if (c < 'A' || c > 'Z') && c != '_' {
			return "BLOCKED"
		}
	}
	if len(reason) == 0 {
		return "BLOCKED"
	}
	return string(reason)
}
