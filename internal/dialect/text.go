package dialect

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
)

// RawText returns the content of a JSON string as it came, escapes and all.
// Appending to it leaves the document alone.
func RawText(v jsonscan.Value) []byte {
	if v.Kind() != jsonscan.String {
		return nil
	}
	raw := v.Raw()
	return raw[1 : len(raw)-1 : len(raw)-1]
}

// CompactObject returns an object without the spaces between its tokens, which
// plain answers are full of.
func CompactObject(v jsonscan.Value) []byte {
	if v.Kind() != jsonscan.Object {
		return []byte("{}")
	}
	compact := jsontext.Value(slices.Clone(v.Raw()))
	if compact.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return v.Raw()
	}
	return compact
}

// Rescan scans a value again, so that its inner parts can be reached.
func Rescan(doc *jsonscan.Document, v jsonscan.Value) jsonscan.Value {
	doc.AllowDuplicateKeys = true
	if doc.Parse(v.Raw()) != nil {
		return jsonscan.Value{} // the whole was scanned before: a part has no faults
	}
	return doc.Root()
}

// ThinkingIn returns what a unified message or delta has of the model's thinking, as the
// content of a JSON string. Backends have two names for it, or give it as parts of the
// content, as Mistral's API does.
func ThinkingIn(v jsonscan.Value) []byte {
	for _, name := range [...]string{"reasoning_content", "reasoning"} {
		if text := RawText(v.Get(name)); len(text) > 0 {
			return text
		}
	}
	return joinParts(nil, v.Get("content"), "thinking")
}

// ContentIn returns the text of a unified message or delta, as the content of a JSON
// string. Some backends give it in parts.
func ContentIn(v jsonscan.Value) []byte {
	content := v.Get("content")
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

// IsFinishReason reports whether a finish_reason is one: some backends write an empty
// text where others write null.
func IsFinishReason(v jsonscan.Value) bool {
	return v.Kind() == jsonscan.String && len(v.Raw()) > len(`""`)
}

// AppendReminder appends a text of the system that stands between turns, as the user's
// text. The templates of many models refuse a system message there; the marks are those
// that agents use themselves. Both texts are contents of JSON strings.
func AppendReminder(dst, text []byte) []byte {
	dst = append(append(dst, `<system-reminder>\n`...), text...)
	return append(dst, `\n</system-reminder>\n`...)
}
