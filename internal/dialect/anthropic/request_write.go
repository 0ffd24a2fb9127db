package anthropic

import (
	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/schema"
)

// requestWriter writes the body of one call. Texts are copied as they came,
// escapes included, so that nothing is decoded that is only passed on.
type requestWriter struct {
	req   *schema.Request
	model modelTraits
	jsonwrite.Writer

	// What lies deeper in the request than it was recorded is scanned again.
	parts, calls, deep jsonscan.Document

	turn         string           // the role of the turn that is open
	system       []byte           // the lifted texts as one JSON string, without its quotes
	systemBlocks jsonwrite.Writer // the same as blocks, the elements of an array
	systemCached bool             // a block has a cache mark, which only blocks can carry
	unsigned     bool             // the last assistant message calls tools and brings no thinking along
	legacyCalls  int              // function calls in the old shape, which have no ids
}

// write writes everything but the model.
func (w *requestWriter) write() error {
	if err := refuseChat(w.req); err != nil {
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
		w.Member("service_tier", tier.Raw())
	}
	if w.req.Stream {
		w.Member("stream", []byte("true"))
	}
	w.writeOthers()
	return nil
}

// writeStop writes the stop sequences, which are a list there.
func (w *requestWriter) writeStop() {
	switch stop := w.req.Field("stop"); stop.Kind() {
	case jsonscan.String:
		w.Name("stop_sequences")
		w.Array()
		w.Raw(stop.Raw())
		w.EndArray()
	case jsonscan.Array:
		w.Member("stop_sequences", stop.Raw())
	default:
		w.Field("stop_sequences", w.req.Field("stop_sequences"))
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
	w.Name("metadata")
	w.Object()
	w.Member("user_id", user.Raw())
	w.EndObject()
}

// writeOutputConfig writes the format of the answer and the effort, both of
// which the caller may also have given in the backend's own words.
func (w *requestWriter) writeOutputConfig() *schema.Error {
	wanted, err := w.answerSchema()
	if err != nil {
		return err
	}
	effort, err := w.effort()
	if err != nil {
		return err
	}
	var config jsonwrite.Writer
	written := map[string]bool{}
	if wanted.Given() {
		config.Name("format")
		config.Object()
		config.Name("type")
		config.Plain("json_schema")
		config.Member("schema", wanted.Raw())
		config.EndObject()
		written["format"] = true
	}
	if w.model.adaptiveOnly && effort != "" {
		config.Name("effort")
		config.Plain(effort)
		written["effort"] = true
	}
	own := w.req.Field("output_config")
	for m := own.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		if !written[string(m.Key())] {
			config.Copy(m)
		}
	}
	if len(config.Out) > 0 {
		w.Name("output_config")
		w.Object()
		w.Raw(config.Out)
		w.EndObject()
	}
	return nil
}

// answerSchema returns the schema that a response format wants the answer to have.
// The wish for any JSON object becomes an instruction, because there is no mode
// for it.
func (w *requestWriter) answerSchema() (jsonscan.Value, *schema.Error) {
	field := w.req.Field("response_format")
	if !field.Given() {
		return jsonscan.Value{}, nil
	}
	format := dialect.Rescan(&w.deep, field)
	switch string(format.Get("type").Text()) { // Refuse has refused other types
	case "json_object":
		w.addInstruction([]byte("Answer with one valid JSON object and nothing else: no code fence, no text around it."))
	case "json_schema":
		wanted := format.Get("json_schema").Get("schema")
		if wanted.Kind() != jsonscan.Object {
			return wanted, schema.InvalidValue("response_format.json_schema.schema", "'response_format.json_schema.schema' must be an object.")
		}
		return wanted, nil
	}
	return jsonscan.Value{}, nil
}

// writeOthers copies the members that are unknown here.
func (w *requestWriter) writeOthers() {
	root := w.req.Body.Root()
	for m := root.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		if m.Given() && !isTranslated(m.Key()) {
			w.Copy(m)
		}
	}
	extra := root.Get("extra_body")
	if !extra.Given() {
		return
	}
	own := root.Members()
	for m := extra.First(); m.Kind() != jsonscan.Absent; m = m.Next() {
		if m.Given() && !isTranslated(m.Key()) && !own.Get(m.Key()).Given() {
			w.Copy(m)
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
		"prompt_cache_retention", "prompt_cache_options", "functions", "function_call", "audio", "moderation",
		"web_search_options":
		return true
	}
	return false
}
