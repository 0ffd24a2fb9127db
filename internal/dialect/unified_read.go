package dialect

import (
	"bytes"

	"github.com/patchbay-ai/patchbay/internal/chat"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
)

// The members of a message or delta in which something is said.
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

// ReadChoice reads a choice of a completion or of a chunk into one that is empty. Said is
// its message or delta. The document must be a deep one.
func ReadChoice(to *chat.Choice, choice, said jsonscan.Value) {
	var m [saidMembers]jsonscan.Value
	said.Find(saidNames, m[:])
	to.Text, to.Thinking = readText(m[saidContent]), readThinking(&m)
	to.Refusal = RawText(m[saidRefusal])
	for c := m[saidCalls].First(); c.Kind() != jsonscan.Absent; c = c.Next() {
		if c.Kind() == jsonscan.Object {
			to.Calls = append(to.Calls, readCall(c))
		}
	}
	for image := m[saidImages].First(); image.Kind() != jsonscan.Absent; image = image.Next() {
		address := image.Get("image_url")
		if address.Kind() == jsonscan.Object {
			address = address.Get("url")
		}
		to.Images = append(to.Images, RawText(address))
	}
	to.Blocks = readObjects(to.Blocks, m[saidBlocks])
	to.Details = readObjects(to.Details, m[saidDetails])
	to.Extra = readObject(m[saidExtra])
	if m[saidAnnotations].Kind() == jsonscan.Array {
		to.Annotations = m[saidAnnotations].Raw()
	}
	if logprobs := choice.Get("logprobs"); logprobs.Given() {
		to.Logprobs = elementsOf(logprobs.Get("content"))
	}
	if reason := choice.Get("finish_reason"); IsFinishReason(reason) {
		to.Finish = chat.FinishReason(reason.Text())
		for _, name := range [...]string{"stop_reason", "matched_stop"} {
			if stop := choice.Get(name).Text(); len(stop) > 0 && to.StopSequence == nil {
				to.StopSequence = stop
			}
		}
	}
}

// readThinking returns what a message or delta has of the model's thinking. Backends have
// two names for it, or give it as parts of the content, as Mistral's API does.
func readThinking(m *[saidMembers]jsonscan.Value) []byte {
	for _, v := range m[saidReasoningContent : saidReasoning+1] {
		if text := RawText(v); len(text) > 0 {
			return text
		}
	}
	return joinParts(nil, m[saidContent], "thinking")
}

// readText returns the text of a message or delta. Some backends give it in parts.
func readText(content jsonscan.Value) []byte {
	if content.Kind() == jsonscan.Array {
		return joinParts(nil, content, "text")
	}
	return RawText(content)
}

// joinParts appends the texts of the parts of a type. A part has its text in a member of
// that name, which may have parts itself.
func joinParts(dst []byte, parts jsonscan.Value, kind string) []byte {
	if parts.Kind() != jsonscan.Array {
		return dst
	}
	for p := parts.First(); p.Kind() != jsonscan.Absent; p = p.Next() {
		if string(p.Get("type").Text()) != kind {
			continue
		}
		inner := p.Get(kind)
		dst = append(dst, RawText(inner)...)
		dst = joinParts(dst, inner, "text")
	}
	return dst
}

// readCall reads a tool call or a piece of one. Without a number its index is -1. Some
// backends give arguments as an object where others give its text.
func readCall(c jsonscan.Value) chat.ToolCall {
	function := c.Get("function")
	call := chat.ToolCall{Index: -1, ID: RawText(c.Get("id")), Name: RawText(function.Get("name")), Extra: readObject(c.Get("extra_content"))}
	if index, ok := c.Get("index").Int(); ok {
		call.Index = index
	}
	if arguments := function.Get("arguments"); arguments.Kind() == jsonscan.Object {
		call.Arguments = EscapeText(arguments.Raw())
	} else {
		call.Arguments = RawText(arguments)
	}
	return call
}

// EscapeText returns the content of the JSON string that a text is.
func EscapeText(text []byte) []byte {
	quoted := jsonwrite.AppendText(nil, text)
	return quoted[1 : len(quoted)-1]
}

func readObject(v jsonscan.Value) []byte {
	if v.Kind() != jsonscan.Object {
		return nil
	}
	return v.Raw()
}

// readObjects adds the elements of an array that are objects.
func readObjects(to [][]byte, list jsonscan.Value) [][]byte {
	for v := list.First(); v.Kind() != jsonscan.Absent; v = v.Next() {
		if v.Kind() == jsonscan.Object {
			to = append(to, v.Raw())
		}
	}
	return to
}

// elementsOf returns the elements of an array without its brackets.
func elementsOf(v jsonscan.Value) []byte {
	if v.Kind() != jsonscan.Array {
		return nil
	}
	raw := v.Raw()
	return bytes.TrimSpace(raw[1 : len(raw)-1])
}
