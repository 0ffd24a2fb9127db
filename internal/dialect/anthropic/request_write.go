package anthropic

import (
	"slices"

	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// requestWriter writes the body of one call. Texts are copied as they came, escapes
// included: a text that is only passed on is not decoded.
type requestWriter struct {
	*chat.Request
	isAdaptive bool // the model takes an effort, and neither a budget for thinking nor sampling settings
	jsonwrite.Writer

	deep         jsonscan.Document // of values deeper in the request than it was read
	turn         string            // the role of the turn that is open
	system       []byte            // the lifted texts as one JSON string, without its quotes
	systemBlocks jsonwrite.Writer  // the same as blocks, the elements of an array
	systemCached bool              // a block has a cache mark, which only blocks can carry
	unsigned     bool              // the last assistant message calls tools and brings no thinking along
	legacyCalls  int               // function calls in the old shape, which have no ids
}

// write writes everything but the model and how the answer is sent.
func (w *requestWriter) write() error {
	for _, step := range []func() *schema.Error{
		w.writeMessages, w.writeOutputConfig, w.writeSystem, w.writeTools, w.writeLimits,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	w.writeStop()
	w.writeMetadata()
	if tier := w.Other("service_tier"); string(tier.Text()) == "auto" || string(tier.Text()) == "standard_only" {
		w.Member("service_tier", tier.Raw())
	}
	for m := range w.Others() {
		if !isTranslated(m.Key()) {
			w.Copy(m)
		}
	}
	return nil
}

// writeStop writes the stop sequences, which are a list there.
func (w *requestWriter) writeStop() {
	switch stop := w.Stop; stop.Kind() {
	case jsonscan.String:
		w.Name("stop_sequences").Array()
		w.Raw(stop.Raw())
		w.EndArray()
	case jsonscan.Array:
		w.Member("stop_sequences", stop.Raw())
	default:
		w.Field("stop_sequences", w.Other("stop_sequences"))
	}
}

// writeMetadata names the user. Other metadata is for the caller's own records, and the
// backend refuses unknown members.
func (w *requestWriter) writeMetadata() {
	user := w.User
	if user == nil {
		user = chat.TextIn(w.Other("metadata"), "user_id")
	}
	if user != nil {
		w.Open(`"metadata":{"user_id":`).Escaped(user)
		w.EndObject()
	}
}

// writeOutputConfig writes the format of the answer and the effort. The caller may also
// have given both in the backend's own words.
func (w *requestWriter) writeOutputConfig() *schema.Error {
	var config jsonwrite.Members
	switch w.Format.Type {
	case "json_object": // it has no mode
		w.addSystem([]byte("Answer with one valid JSON object and nothing else: no code fence, no text around it."),
			nil, true)
	case "json_schema":
		if !w.Format.HasSchema() {
			return schema.BadField("response_format.json_schema.schema", "value.object")
		}
		config.Add("format", slices.Concat([]byte(`{"type":"json_schema","schema":`), w.Format.Schema, []byte("}")))
	}
	if effort := w.effort(); w.isAdaptive && effort != "" {
		config.Add("effort", jsonwrite.AppendText(nil, effort))
	}
	for m := range w.Other("output_config").All() {
		config.Add(string(m.Key()), m.Raw())
	}
	if !config.Empty() {
		w.Member("output_config", config.Object())
	}
	return nil
}

// isTranslated reports whether a field of the request is written by the code
// above, or has no equal there and does no harm by its absence: the backend
// refuses a body with a field that it does not know.
func isTranslated(name []byte) bool {
	switch string(name) {
	case "system", "stop_sequences", "metadata", "service_tier", "output_config", "thinking",
		"logit_bias", "store", "modalities", "prediction", "safety_identifier", "prompt_cache_key",
		"prompt_cache_retention", "prompt_cache_options", "functions", "function_call", "audio", "moderation",
		"web_search_options":
		return true
	}
	return false
}
