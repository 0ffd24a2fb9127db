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

// BeginCall begins a tool call up to its arguments, which are a JSON string that
// holds an object. The id and the name of the function are JSON. Calls of a stream
// are numbered; an index below 0 means that the call is part of a whole message.
func BeginCall(w *jsonwrite.Writer, index int, id, name []byte) {
	w.Object()
	if index >= 0 {
		w.Name("index")
		w.Int(int64(index))
	}
	w.Member("id", id)
	w.Open(`"type":"function","function":{`)
	w.Member("name", name)
	w.Name("arguments")
}
