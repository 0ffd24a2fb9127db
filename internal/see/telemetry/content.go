package telemetry

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/see/calls"
	"github.com/patchbay-ai/patchbay/internal/see/metrics"
)

// maxContent is how many bytes an attribute with content may have.
const maxContent = 16 << 10

// message is a message as the conventions write it: who said it, in parts.
type message struct {
	Role         string `json:"role"`
	Parts        []part `json:"parts"`
	FinishReason string `json:"finish_reason,omitempty"`
}

// part is a part of a message. Its members depend on its type: a text or reasoning has content, a
// tool_call id, name and arguments, a tool_call_response id and response. Parts of other types,
// such as pictures, have nothing but their type.
type part map[string]any

// contentOf returns the attributes of the instructions, the messages and the answer of a call for a
// chat, as far as they were captured; nothing else of a call has messages.
func contentOf(c *calls.Record, captured *calls.Captured) (said []*commonpb.KeyValue) {
	if captured == nil || captured.What < metrics.CaptureContent || c.Service != schema.Chat {
		return nil
	}
	isCut := captured.Request.IsCut || captured.Answer.IsCut
	add := func(key, written string, isShortened bool) {
		if written != "" {
			said, isCut = append(said, text(key, written)), isCut || isShortened
		}
	}
	instructions, asked := askedBy(captured.Request.String())
	written, isShortened := bounded(instructions, func(p part) []part { return []part{p} })
	add("gen_ai.system_instructions", written, isShortened)
	written, isShortened = bounded(asked, func(m message) []part { return m.Parts })
	add("gen_ai.input.messages", written, isShortened)
	if c.Code == "" {
		written, isShortened = bounded(answeredBy(captured.Answer.String()), func(m message) []part { return m.Parts })
		add("gen_ai.output.messages", written, isShortened)
	}
	if isCut && len(said) > 0 {
		said = append(said, flag("patchbay.content.truncated", true))
	}
	return said
}

// shortest is the least number of bytes that texts are shortened to before whole values are
// left out.
const shortest = 256

// bounded writes values as JSON of at most maxContent bytes: their long texts are shortened, and if
// that is not enough, the earliest values are left out. Of no values nothing is written.
func bounded[T any](values []T, partsOf func(T) []part) (written string, isShortened bool) {
	for most := maxContent; len(values) > 0; most /= 2 {
		lasts, isWhole := lastsOf(values)
		if isWhole || most < shortest {
			return "[" + strings.Join(lasts, ",") + "]", isShortened || !isWhole
		}
		isShortened = true
		for _, value := range values {
			for _, p := range partsOf(value) {
				p.shorten(most)
			}
		}
	}
	return "", false
}

// lastsOf writes as many of the last values as there is room for, and reports whether they are all.
func lastsOf[T any](values []T) (written []string, isWhole bool) {
	size := len("[]")
	for i := len(values) - 1; i >= 0; i-- {
		encoded, err := json.Marshal(values[i])
		if size += len(encoded) + len(","); err != nil || size > maxContent {
			return written, false
		}
		written = slices.Insert(written, 0, string(encoded))
	}
	return written, true
}

// shorten cuts the texts of a part to a number of bytes.
func (p part) shorten(most int) {
	for _, name := range [...]string{"content", "arguments", "response"} {
		value, ok := p[name]
		if !ok {
			continue
		}
		text, ok := value.(string)
		if !ok {
			encoded, err := json.Marshal(value)
			if err != nil || len(encoded) <= most {
				continue
			}
			text = string(encoded)
		}
		if len(text) <= most {
			continue
		}
		p[name] = strings.ToValidUTF8(text[:most], "") + "…"
	}
}

// object is a JSON object with members that are not known beforehand.
type object map[string]any

func (o object) text(name string) string { text, _ := o[name].(string); return text }
func (o object) list(name string) []any  { list, _ := o[name].([]any); return list }
func (o object) object(name string) object {
	inner, _ := o[name].(map[string]any)
	return inner
}

func objectOf(value any) object { o, _ := value.(map[string]any); return o }

// readObject reads an object that may lack its end.
func readObject(text string) object {
	var o object
	if json.Unmarshal([]byte(text), &o) != nil {
		_ = json.Unmarshal(completed([]byte(text)), &o) // a text that is no object has no members
	}
	return o
}

// completed returns a text of JSON that was cut, with the missing end added: an open text
// of a value ends at the cut, and everything else after the last complete value is left
// out.
func completed(text []byte) []byte {
	var open, openThen []byte // the closing brackets that are due, now and at safe
	safe, inText, isKey, isEscaped, begin := 0, false, false, false, 0
	for i, b := range text {
		switch {
		case inText && isEscaped:
			isEscaped = false
		case inText && b == '\\':
			isEscaped, begin = true, i
		case b == '"':
			inText = !inText
		case inText:
		case b == '{' || b == '[':
			open = append(open, b+2) // '}' and ']' come two after them
			safe, isKey = i+1, b == '{'
			openThen = bytes.Clone(open)
		case b == '}' || b == ']':
			if len(open) > 0 {
				open = open[:len(open)-1]
			}
			safe, openThen = i+1, bytes.Clone(open)
		case b == ',':
			safe, isKey = i, len(open) > 0 && open[len(open)-1] == '}'
			openThen = bytes.Clone(open)
		case b == ':':
			isKey = false
		}
	}
	whole := bytes.Clone(text[:safe])
	if inText && !isKey {
		end := len(text)
		if isEscaped || begin > 0 && end-begin < len(`\u0000`) { // an escape that may be cut too
			end = begin
		}
		whole, openThen = append(bytes.Clone(text[:end]), '"'), open
	}
	for i := len(openThen) - 1; i >= 0; i-- {
		whole = append(whole, openThen[i])
	}
	return whole
}
