package dialect

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
)

// WriteTextPart writes a text, given as the content of a JSON string, as a part of a
// unified message.
func WriteTextPart(w *jsonwrite.Writer, text []byte) {
	w.Open(`{"type":"text","text":`)
	w.Escaped(text)
	w.EndObject()
}

// InOneLine returns a value as it came, or compact if it has line breaks, which would end
// the line of an event.
func InOneLine(v jsonscan.Value) []byte {
	raw := v.Raw()
	if k := v.Kind(); k != jsonscan.Object && k != jsonscan.Array || bytes.IndexByte(raw, '\n') < 0 && bytes.IndexByte(raw, '\r') < 0 {
		return raw
	}
	compact := jsontext.Value(bytes.Clone(raw))
	if compact.Compact(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return []byte("null") // the whole was scanned before: a part has no faults
	}
	return compact
}
