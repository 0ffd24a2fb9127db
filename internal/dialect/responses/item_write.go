package responses

import "github.com/patchbay-ai/patchbay/internal/request/jsonwrite"

// The functions of this file write items and their parts. Texts are given as the content
// of JSON strings, lists as elements of JSON arrays.

func writeReasoningItem(w *jsonwrite.Writer, id string, summary []byte, kept *state) {
	w.Open(`{"id":`).Plain(id)
	w.Literal(`"type":"reasoning"`)
	w.Name("summary").Array()
	if len(summary) > 0 {
		writeSummaryPart(w, summary)
	}
	w.EndArray()
	if !kept.empty() {
		w.Name("encrypted_content").Plain(kept.seal())
	}
	w.EndObject()
}

func writeSummaryPart(w *jsonwrite.Writer, text []byte) {
	w.Open(`{"type":"summary_text","text":`).Escaped(text)
	w.EndObject()
}

// beginMessageItem writes a message up to its parts.
func beginMessageItem(w *jsonwrite.Writer, id, status string) {
	w.Open(`{"id":`).Plain(id)
	w.Literal(`"type":"message"`)
	w.Name("status").Plain(status)
	w.Literal(`"role":"assistant"`)
	w.Name("content").Array()
}

func endMessageItem(w *jsonwrite.Writer) { w.Close("]}") }

func writeMessageItem(w *jsonwrite.Writer, id, status string, parts []byte) {
	beginMessageItem(w, id, status)
	if len(parts) > 0 {
		w.Raw(parts)
	}
	endMessageItem(w)
}

func writeTextPart(w *jsonwrite.Writer, text, logprobs, annotations []byte) {
	w.Open(`{"type":"output_text","annotations":[`)
	if len(annotations) > 0 {
		w.Raw(annotations)
	}
	w.EndArray()
	writeLogprobs(w, logprobs)
	w.Name("text").Escaped(text)
	w.EndObject()
}

func writeRefusalPart(w *jsonwrite.Writer, text []byte) {
	w.Open(`{"type":"refusal","refusal":`).Escaped(text)
	w.EndObject()
}

// writeCallItem writes a call of a function; the id of the call is JSON.
func (r *Request) writeCallItem(w *jsonwrite.Writer, id, status string, call []byte, made tool, arguments []byte) {
	beginCallItem(w, "function_call", id, status, call, made)
	w.Name("arguments").Escaped(arguments)
	w.EndObject()
}

// writeCustomItem writes a call of a custom tool; the id of the call is JSON.
func (r *Request) writeCustomItem(w *jsonwrite.Writer, id, status string, call []byte, made tool, input []byte) {
	beginCallItem(w, "custom_tool_call", id, status, call, made)
	w.Name("input").Escaped(input)
	w.EndObject()
}

func beginCallItem(w *jsonwrite.Writer, kind, id, status string, call []byte, made tool) {
	w.Open(`{"id":`).Plain(id)
	w.Name("type").Plain(kind)
	w.Name("status").Plain(status)
	w.Member("call_id", call)
	w.Name("name").Text([]byte(made.name))
	if made.namespace != "" {
		w.Name("namespace").Text([]byte(made.namespace))
	}
}

// writeImageItem writes an image that the model made.
func writeImageItem(w *jsonwrite.Writer, id string, data []byte) {
	w.Open(`{"id":`).Plain(id)
	w.Literal(`"type":"image_generation_call","status":"completed"`)
	w.Name("result").Escaped(data)
	w.EndObject()
}
