package chat

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
)

// The members of a message or delta that say something.
const (
	saidContent = iota
	saidReasoningContent
	saidReasoning
	saidRefusal
	saidCalls
	saidImages
	saidBlocks
	saidDetails
	saidExtra
	saidAnnotations
	saidMembers
)

// saidNames are the names of the members in the order of their places.
var saidNames = jsonscan.NewNames("content", "reasoning_content", "reasoning", "refusal", "tool_calls", "images",
	"thinking_blocks", "reasoning_details", "extra_content", "annotations")

// Read reads a choice of a completion or of a chunk, in OpenAI's shape, into one that is
// empty. Said is its message or delta. The document must be a deep one.
func (c *Choice) Read(choice, said jsonscan.Value) {
	var m [saidMembers]jsonscan.Value
	said.Find(saidNames, m[:])
	c.Text, c.Thinking = textIn(m[saidContent]), thinkingIn(&m)
	c.Refusal = TextOf(m[saidRefusal])
	for call := range m[saidCalls].All() {
		if call.Kind() == jsonscan.Object {
			c.Calls = append(c.Calls, saidCall(call))
		}
	}
	for image := range m[saidImages].All() {
		address := image.Get("image_url")
		if address.Kind() == jsonscan.Object {
			address = address.Get("url")
		}
		c.Images = append(c.Images, TextOf(address))
	}
	c.Blocks = objectsIn(c.Blocks, m[saidBlocks])
	c.Details = objectsIn(c.Details, m[saidDetails])
	c.Extra = ofKind(m[saidExtra], jsonscan.Object)
	if m[saidAnnotations].Kind() == jsonscan.Array {
		c.Annotations = m[saidAnnotations].Raw()
	}
	if logprobs := choice.Get("logprobs"); logprobs.Given() {
		c.Logprobs = elementsIn(logprobs.Get("content"))
	}
	if c.Finish = FinishReason(choice.TextOf("finish_reason")); c.Finish != "" {
		for _, name := range [...]string{"stop_reason", "matched_stop"} {
			if stop := choice.TextOf(name); len(stop) > 0 && c.StopSequence == nil {
				c.StopSequence = stop
			}
		}
	}
}

// HasContent reports whether a message or delta in OpenAI's shape has content, as
// Choice.HasContent reports it of one that was read, or audio.
func HasContent(said jsonscan.Value) bool {
	for m := range said.All() {
		switch string(m.Key()) {
		case "content", "reasoning_content", "reasoning", "refusal", "tool_calls", "function_call", "images", "audio":
			if isFilled(m) {
				return true
			}
		}
	}
	return false
}

// isFilled reports whether a value is a text, list or object that is not empty.
func isFilled(v jsonscan.Value) bool {
	switch v.Kind() {
	case jsonscan.String:
		return len(TextOf(v)) > 0
	case jsonscan.Array, jsonscan.Object:
		return !v.Empty()
	}
	return false
}

// thinkingIn returns the model's thinking in a message or delta. Backends have two
// names for it, or give it as parts of the content, as Mistral's API does.
func thinkingIn(m *[saidMembers]jsonscan.Value) []byte {
	for _, v := range m[saidReasoningContent : saidReasoning+1] {
		if text := TextOf(v); len(text) > 0 {
			return text
		}
	}
	return joinParts(nil, m[saidContent], "thinking")
}

// textIn returns the text of a message or delta. Some backends give it in parts.
func textIn(content jsonscan.Value) []byte {
	if content.Kind() == jsonscan.Array {
		return joinParts(nil, content, "text")
	}
	return TextOf(content)
}

// joinParts appends the texts of the parts of a type. A part has its text in a member of
// that name, which may have parts itself.
func joinParts(dst []byte, parts jsonscan.Value, kind string) []byte {
	if parts.Kind() != jsonscan.Array {
		return dst
	}
	for p := range parts.All() {
		if !p.Is("type", kind) {
			continue
		}
		inner := p.Get(kind)
		dst = append(dst, TextOf(inner)...)
		dst = joinParts(dst, inner, "text")
	}
	return dst
}

// saidCall reads a tool call or a piece of one. Without a number its index is -1. Some
// backends give arguments as an object where others give its text.
func saidCall(c jsonscan.Value) ToolCall {
	function := c.Get("function")
	call := ToolCall{Index: -1, ID: TextIn(c, "id"), Name: TextIn(function, "name"),
		Extra: ofKind(c.Get("extra_content"), jsonscan.Object)}
	if index, ok := c.Get("index").Int(); ok {
		call.Index = index
	}
	if arguments := function.Get("arguments"); arguments.Kind() == jsonscan.Object {
		call.Arguments = Escape(arguments.Raw())
	} else {
		call.Arguments = TextOf(arguments)
	}
	return call
}

// objectsIn adds the elements of an array that are objects.
func objectsIn(to [][]byte, list jsonscan.Value) [][]byte {
	for v := range list.All() {
		if v.Kind() == jsonscan.Object {
			to = append(to, v.Raw())
		}
	}
	return to
}

// elementsIn returns the elements of an array without its brackets.
func elementsIn(v jsonscan.Value) []byte {
	if v.Kind() != jsonscan.Array {
		return nil
	}
	raw := v.Raw()
	return bytes.TrimSpace(raw[1 : len(raw)-1])
}
