package anthropic

import (
	"strconv"

	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// requestWriter writes the body of one call. Texts are copied as they came,
// escapes included, so that nothing is decoded that is only passed on.
type requestWriter struct {
	req   *schema.Request
	model modelTraits
	out   []byte

	// What lies deeper in the request than it was recorded is scanned again.
	parts, calls, deep jsonscan.Document

	turn         string // the role of the turn that is open in out
	system       []byte // the lifted texts as one JSON string, without its quotes
	systemBlocks []byte // the same as blocks, without their brackets
	systemCached bool   // a block has a cache mark, which only blocks can carry
	unsigned     bool   // the last assistant message calls tools and brings no thinking along
	legacyCalls  int    // function calls in the old shape, which have no ids
}

// write writes everything but the model.
func (w *requestWriter) write() error {
	if err := (Chat{}).Refuse(w.req); err != nil {
		return err
	}
	for _, step := range []func() *schema.Error{
		w.writeMessages, w.writeOutputConfig, w.writeSystem, w.writeTools, w.writeLimits,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	w.writeStop()
	w.writeMetadata()
	if tier := w.req.Field("service_tier"); string(tier.Text()) == "auto" || string(tier.Text()) == "standard_only" {
		w.raw("service_tier", tier.Raw())
	}
	if w.req.Stream {
		w.raw("stream", []byte("true"))
	}
	w.writeOthers()
	return nil
}

// writeStop writes the stop sequences, which are a list there.
func (w *requestWriter) writeStop() {
	switch stop := w.req.Field("stop"); stop.Kind() {
	case jsonscan.String:
		w.name("stop_sequences")
		w.out = append(append(append(w.out, '['), stop.Raw()...), ']')
	case jsonscan.Array:
		w.raw("stop_sequences", stop.Raw())
	default:
		w.native("stop_sequences")
	}
}

// writeMetadata names the user. Other metadata is for the caller's own records,
// and the backend refuses what it does not know.
func (w *requestWriter) writeMetadata() {
	user := w.req.Field("user")
	if !user.Given() {
		user = w.req.Field("metadata").Get("user_id")
	}
	if user.Kind() != jsonscan.String {
		return
	}
	w.name("metadata")
	w.out = append(append(append(w.out, `{"user_id":`...), user.Raw()...), '}')
}

// writeOutputConfig writes the format of the answer and the effort, both of
// which the caller may also have given in the backend's own words.
func (w *requestWriter) writeOutputConfig() *schema.Error {
	members, err := w.answerFormat()
	if err != nil {
		return err
	}
	effort, err := w.effort()
	if err != nil {
		return err
	}
	written := map[string]bool{"format": members != nil}
	if w.model.adaptiveOnly && effort != "" {
		members = append(appendMember(members, "effort"), `"`+effort+`"`...)
		written["effort"] = true
	}
	own := w.req.Field("output_config")
	for m := own.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		if !written[string(m.Key())] {
			members = append(appendMember(members, string(m.RawKey())), m.Raw()...)
		}
	}
	if members != nil {
		w.name("output_config")
		w.out = append(append(append(w.out, '{'), members...), '}')
	}
	return nil
}

// answerFormat turns a response format into members of the output settings.
func (w *requestWriter) answerFormat() ([]byte, *schema.Error) {
	field := w.req.Field("response_format")
	if !field.Given() {
		return nil, nil
	}
	format := w.scan(&w.deep, field)
	switch string(format.Get("type").Text()) {
	case "text":
		return nil, nil
	case "json_object":
		// There is no such mode; formats are asked for in words.
		w.instruct([]byte("Answer with one valid JSON object and nothing else: no code fence, no text around it."))
		return nil, nil
	case "json_schema":
		wanted := format.Get("json_schema").Get("schema")
		if wanted.Kind() != jsonscan.Object {
			return nil, schema.InvalidValue("response_format.json_schema.schema", "'response_format.json_schema.schema' must be an object.")
		}
		members := append(appendMember(nil, "format"), `{"type":"json_schema","schema":`...)
		return append(append(members, wanted.Raw()...), '}'), nil
	}
	return nil, nil // Refuse has seen to it
}

// writeOthers passes on what nobody here knows, as it came.
func (w *requestWriter) writeOthers() {
	root := w.req.Body.Root()
	for m := root.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		if m.Given() && !isTranslated(m.Key()) {
			w.raw(string(m.RawKey()), m.Raw())
		}
	}
	extra := root.Get("extra_body")
	if !extra.Given() {
		return
	}
	own := root.Members()
	for m := extra.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		if m.Given() && !isTranslated(m.Key()) && !own.Get(m.Key()).Given() {
			w.raw(string(m.RawKey()), m.Raw())
		}
	}
}

// isTranslated reports whether a field of the request is written by the code
// above, or has no equal there and does no harm by its absence: the backend
// refuses a body with a field that it does not know.
func isTranslated(name []byte) bool {
	switch string(name) {
	case "model", "messages", "extra_body", "system", "max_tokens", "max_completion_tokens",
		"temperature", "top_p", "top_k", "stop", "stop_sequences", "tools", "tool_choice",
		"parallel_tool_calls", "user", "metadata", "service_tier", "stream", "stream_options",
		"response_format", "output_config", "reasoning_effort", "thinking":
		return true
	case "n", "seed", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs",
		"store", "modalities", "prediction", "verbosity", "safety_identifier", "prompt_cache_key",
		"prompt_cache_retention", "functions", "function_call", "audio", "web_search_options":
		return true
	}
	return false
}

// name begins a member of the body.
func (w *requestWriter) name(name string) {
	w.out = append(append(append(w.out, `,"`...), name...), `":`...)
}

// raw writes a member whose value is JSON already.
func (w *requestWriter) raw(name string, value []byte) {
	w.name(name)
	w.out = append(w.out, value...)
}

// integer writes a member that is a whole number.
func (w *requestWriter) integer(name string, value int64) {
	w.name(name)
	w.out = strconv.AppendInt(w.out, value, 10)
}

// native passes on a field that the caller gave in the backend's own words.
func (w *requestWriter) native(name string) {
	if v := w.req.Field(name); v.Given() {
		w.raw(name, v.Raw())
	}
}

// scan looks into a value of the request deeper than the request was recorded.
func (w *requestWriter) scan(doc *jsonscan.Document, v jsonscan.Value) jsonscan.Value {
	doc.AllowDuplicateKeys = true // the request was checked for them
	if doc.Parse(v.Raw()) != nil {
		return jsonscan.Value{} // not possible: the text is a part of one that was scanned
	}
	return doc.Root()
}

// appendMember begins another member of an object that is being written without its
// braces.
func appendMember(members []byte, name string) []byte {
	if members != nil {
		members = append(members, ',')
	}
	return append(append(append(members, '"'), name...), `":`...)
}
