package gemini

import (
	"crypto/rand"
	"fmt"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// maxCandidates bounds the number of a candidate, whether the answer gives it or the
// candidate's place.
const maxCandidates = 128

// partialAnswer is an answer as far as it was read.
type partialAnswer struct {
	// to is the result: all of a plain answer, or the part of a stream that came with
	// the last event.
	to *chat.Answer

	candidates []candidate
	usage      tokenCounts
	blocked    string // why the prompt was refused

	content, inner jsonscan.Document
}

// candidate holds the facts about a candidate besides its words.
type candidate struct {
	index  int64
	calls  int64             // so far
	finish chat.FinishReason // empty while there is none
	reason string            // the backend's reason for withholding content
	begun  bool              // a delta of it went out
	filled bool              // there was content of any kind
}

// take reads an answer or an event of a stream. A stream that was not asked to
// be one of events comes as an array of them.
func (a *partialAnswer) take(doc *jsonscan.Document, data []byte) error {
	root, err := dialect.Parse(doc, data)
	if err != nil {
		return err
	}
	if root.Kind() != jsonscan.Array {
		return a.takeObject(root)
	}
	var list [][]byte
	for v := range root.All() {
		list = append(list, v.Raw())
	}
	for _, raw := range list {
		if err := doc.Parse(raw); err != nil {
			return fmt.Errorf("%w: %w", dialect.ErrInvalid, err)
		}
		if err := a.takeObject(doc.Root()); err != nil {
			return err
		}
	}
	return nil
}

// takeObject reads one object. It goes through the members once rather than looking
// them up one by one: every event of every stream costs this.
func (a *partialAnswer) takeObject(root jsonscan.Value) error {
	if root.Kind() != jsonscan.Object {
		return dialect.Invalid("something else than an object")
	}
	var candidates, id jsonscan.Value
	for m := range root.All() {
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
	if text := chat.TextOf(id); a.to.ID == nil && len(text) > 0 {
		a.to.ID = append([]byte(chat.IDPrefix), text...)
	}
	position := int64(0)
	for c := range candidates.All() {
		if err := a.takeCandidate(c, position); err != nil {
			return err
		}
		position++
	}
	return nil
}

func (a *partialAnswer) takeCandidate(c jsonscan.Value, position int64) error {
	index := position
	var content, logprobs, reason, message jsonscan.Value
	for m := range c.All() {
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
		return dialect.Invalid("a candidate without a proper index")
	}
	candidate, choice := a.candidate(index), a.choice(index)
	if content.Kind() == jsonscan.Object {
		if err := a.parts(candidate, choice, content); err != nil {
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
	return candidate.end(reason.Text(), message.Text())
}

func (a *partialAnswer) candidate(index int64) *candidate {
	for i := range a.candidates {
		if a.candidates[i].index == index {
			return &a.candidates[i]
		}
	}
	a.candidates = append(a.candidates, candidate{index: index})
	return &a.candidates[len(a.candidates)-1]
}

func (a *partialAnswer) choice(index int64) *chat.Choice {
	for i := range a.to.Choices {
		if a.to.Choices[i].Index == index {
			return &a.to.Choices[i]
		}
	}
	return a.to.Add(index)
}

// parts reads the parts of a candidate, which lie deeper than a whole answer is
// recorded.
func (a *partialAnswer) parts(candidate *candidate, choice *chat.Choice, content jsonscan.Value) error {
	if _, err := dialect.Parse(&a.content, content.Raw()); err != nil {
		return err
	}
	for part := range a.content.Root().Get("parts").All() {
		if err := a.part(candidate, choice, part); err != nil {
			return err
		}
	}
	candidate.filled = candidate.filled || len(choice.Text)+len(choice.Thinking)+len(choice.Calls)+len(
		choice.Images) > 0
	return nil
}

func (a *partialAnswer) part(candidate *candidate, choice *chat.Choice, part jsonscan.Value) error {
	var text, thought, call, data, signature jsonscan.Value
	for m := range part.All() {
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
		return a.call(candidate, choice, call, signature)
	case data.Given():
		image := a.inner.Rescan(data)
		choice.Images = append(choice.Images, slices.Concat([]byte("data:"), chat.TextIn(image, "mimeType"),
			[]byte(";base64,"), chat.TextIn(image, "data")))
	case thought.Kind() == jsonscan.True:
		choice.Thinking = chat.Join(choice.Thinking, chat.TextOf(text))
	default:
		choice.Text = chat.Join(choice.Text, chat.TextOf(text))
	}
	if len(chat.TextOf(signature)) > 0 {
		choice.Extra = chat.Signed(chat.TextOf(signature))
	}
	return nil
}

// call reads a function call. The signature is the call's own and goes with it.
func (a *partialAnswer) call(candidate *candidate, choice *chat.Choice, v, signature jsonscan.Value) error {
	v = a.inner.Rescan(v)
	call := chat.ToolCall{Index: candidate.calls, ID: chat.TextIn(v, "id"), Name: chat.TextIn(v, "name")}
	if len(call.Name) == 0 {
		return dialect.Invalid("a function call without a name")
	}
	if len(call.ID) == 0 {
		call.ID = []byte(inventedCall + rand.Text())
	}
	call.Arguments = chat.Escape(dialect.CompactObject(v.Get("args")))
	call.Extra = chat.Signed(chat.TextOf(signature))
	choice.Calls = append(choice.Calls, call)
	candidate.calls++
	return nil
}

// end reads the reason why a candidate ended.
func (c *candidate) end(reason, message []byte) error {
	switch string(reason) {
	case "STOP", "OTHER":
		c.finish = chat.Stop
	case "MAX_TOKENS":
		c.finish = chat.Length
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE", "MODEL_ARMOR",
		"IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION":
		c.finish, c.reason = chat.ContentFilter, plainReason(reason)
	case "", "FINISH_REASON_UNSPECIFIED":
	case "MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS",
		"MISSING_THOUGHT_SIGNATURE", "NO_IMAGE", "IMAGE_OTHER":
		if len(message) == 0 {
			message = reason
		}
		return &dialect.Failure{Status: 200, Message: string(message)}
	default:
		// Reasons are added over time; an answer with content is one.
		c.finish = chat.Stop
	}
	return nil
}

// finishReason returns the unified reason, for clients that look there first to
// learn that there are calls.
func (c *candidate) finishReason() chat.FinishReason {
	if c.calls > 0 && c.finish != chat.ContentFilter {
		return chat.ToolCalls
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
