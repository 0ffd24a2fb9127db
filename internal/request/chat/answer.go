// Package chat is a chat with a model, whatever dialects its two sides speak. A door reads
// requests into these types, and a dialect writes them for its backends; the dialect reads
// answers into them, and the door writes these for its clients. A request between a door
// and a backend of the same dialect is passed on as it came, and is read only if somebody
// asks for it.
//
// Texts are contents of JSON strings, escapes and all, because most of them are written as
// they were read. Values that nothing here looks into are JSON as it came. Both share
// memory with the text that they were read from and live no longer than that. To keep
// something a caller makes a copy, such as Text.String returns.
package chat

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// Answer is a whole answer.
type Answer struct {
	// ID names the answer, in the form of OpenAI's ids; empty if nobody named it.
	ID []byte
	// Created is when the answer was made, in seconds; 0 if it is not told.
	Created int64
	Choices []Choice
	Usage   Usage
}

// Delta is the addition of one event of a stream to an answer. It has no usage.
type Delta = Answer

// FinishReason is why a choice ended, in OpenAI's words; empty while it has not.
type FinishReason string

// The reasons that are told apart here.
const (
	Stop          FinishReason = "stop"
	Length        FinishReason = "length"
	ToolCalls     FinishReason = "tool_calls"
	FunctionCall  FinishReason = "function_call"
	ContentFilter FinishReason = "content_filter"
)

// Choice is one of the answers to a request, or the addition of a delta to it.
type Choice struct {
	Index int64
	// Begins says that a delta is the first of its choice.
	Begins bool
	// Text holds the words of the model; nil if it said nothing. A delta with HasNoText
	// says so itself.
	Text      []byte
	HasNoText bool
	Thinking  []byte
	Refusal   []byte
	Calls     []ToolCall
	// Images are the addresses of images that the model made.
	Images [][]byte
	// Blocks and Details hold the parts of the model's thinking that the backend wants
	// back, as Anthropic and as OpenRouter give them: objects. Extra is an object of
	// the same kind for the whole message, as Google gives it.
	Blocks, Details [][]byte
	Extra           []byte
	// Annotations are the sources that a text names: a JSON array, nil if there are none.
	Annotations []byte
	// Logprobs are the probabilities of tokens, as elements of a JSON array.
	Logprobs []byte
	Finish   FinishReason
	// StopSequence is the text that ended the choice, if the backend told it; it is not
	// escaped.
	StopSequence []byte
}

// ToolCall is a call of a tool, or a piece of one.
type ToolCall struct {
	// Index is the number of the call among the calls of the choice. Pieces of one call
	// have the same.
	Index int64
	// ID and Name are empty in the pieces behind the first.
	ID, Name Text
	// Arguments are the text of a JSON object. Input is the object itself, or another
	// value in its place, where a request has the arguments not as a text.
	Arguments Text
	Input     []byte
	// Extra is an object that the backend wants back with the call.
	Extra []byte
}

// keptLists bounds the lists of a choice: longer ones do not keep their memory for the
// next delta.
const keptLists = 64

// Reset drops the choices and keeps their memory, for the next delta.
func (a *Answer) Reset() {
	if cap(a.Choices) > keptLists {
		a.Choices = nil
	}
	all := a.Choices[:cap(a.Choices)] // also the choices that a reader took back
	for i := range all {
		c := &all[i]
		*c = Choice{Calls: empty(c.Calls), Images: empty(c.Images), Blocks: empty(c.Blocks), Details: empty(c.Details)}
	}
	a.Choices = a.Choices[:0]
}

// empty returns a list without its elements, which keep nothing alive.
func empty[T any](list []T) []T {
	if cap(list) > keptLists {
		return nil
	}
	clear(list)
	return list[:0]
}

// Add adds an empty choice, which is good until the next one is added.
func (a *Answer) Add(index int64) *Choice {
	if n := len(a.Choices); n < cap(a.Choices) {
		a.Choices = a.Choices[:n+1] // Reset has emptied it
	} else {
		a.Choices = append(a.Choices, Choice{})
	}
	c := &a.Choices[len(a.Choices)-1]
	c.Index = index
	return c
}

// First returns the first choice, nil if there is none or if it is not the one with the
// number 0. Most doors ask for one answer, and ignore others that a backend gives.
func (a *Answer) First() *Choice {
	if len(a.Choices) == 0 || a.Choices[0].Index > 0 {
		return nil
	}
	return &a.Choices[0]
}

// HasContent reports whether one of the choices has content.
func (a *Answer) HasContent() bool {
	for i := range a.Choices {
		if a.Choices[i].HasContent() {
			return true
		}
	}
	return false
}

// HasContent reports whether the choice has something that the model made: text, thinking,
// a refusal, a tool call or an image. A delta that only begins or ends its choice has not.
func (c *Choice) HasContent() bool {
	return len(c.Text)+len(c.Thinking)+len(c.Refusal)+len(c.Calls)+len(c.Images) > 0
}

// Join adds a piece to a text. The first piece is not copied.
func Join(text, piece []byte) []byte {
	if len(text) == 0 {
		return piece[:len(piece):len(piece)]
	}
	return append(text, piece...)
}

// Unescape returns a text as it is meant. One without escapes is not copied.
func Unescape(text []byte) []byte {
	if bytes.IndexByte(text, '\\') < 0 {
		return text
	}
	return jsonscan.Unescape(nil, text)
}
