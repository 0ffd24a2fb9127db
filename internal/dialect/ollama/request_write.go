package ollama

import (
	"bytes"
	"slices"

	"github.com/patchbay-ai/patchbay/internal/dialect"
	"github.com/patchbay-ai/patchbay/internal/request/chat"
	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
)

// requestWriter writes the body of a call: its members, and the members of the options
// inside it. Of members with the same name the first one counts.
type requestWriter struct {
	top, options jsonwrite.Members
	levels       bool // the model accepts think levels (low, medium, high)
}

func newRequestWriter(req *schema.Request, to *dialect.Target) *requestWriter {
	b := new(requestWriter)
	model := to.ModelNameJSON(req)
	b.top.Add("model", model)
	b.levels = bytes.Contains(model, []byte("gpt-oss"))
	return b
}

// stream says whether the answer is to be a stream, and returns the type of the answer.
// Ollama sends a stream when it is told nothing.
func (b *requestWriter) stream(req *schema.Request) (accept string) {
	if req.Stream {
		b.top.Add("stream", []byte("true"))
		return "application/x-ndjson"
	}
	b.top.Add("stream", []byte("false"))
	return "application/json"
}

// body returns the body in pieces; its last member has the given value, which is
// not copied.
func (b *requestWriter) body(segments [][]byte, name string, value []byte) [][]byte {
	var w jsonwrite.Writer
	w.Object()
	w.Raw(b.top.Raw())
	if !b.options.Empty() {
		w.Name("options").Raw(b.options.Object())
	}
	w.Name(name)
	return append(segments, w.Out, value, []byte("}"))
}

// sampling translates the settings that Ollama wants among its options.
func (b *requestWriter) sampling(s *chat.Settings) error {
	for _, field := range []struct {
		unified, option string
		value           jsonscan.Value
	}{
		{"max_tokens", "num_predict", s.MaxTokens},
		{"stop", "stop", s.Stop},
		{"temperature", "temperature", s.Temperature},
		{"top_p", "top_p", s.TopP},
		{"top_k", "top_k", s.TopK},
		{"seed", "seed", s.Seed},
		{"presence_penalty", "presence_penalty", s.PresencePenalty},
		{"frequency_penalty", "frequency_penalty", s.FrequencyPenalty},
		{"repeat_penalty", "repeat_penalty", s.Other("repeat_penalty")},
		{"repetition_penalty", "repeat_penalty", s.Other("repetition_penalty")},
	} {
		if err := b.option(field.option, field.unified, field.value); err != nil {
			return err
		}
	}
	return nil
}

// option adds an option. Options that Ollama knows are checked, because it answers a
// wrong type as if the fault were its own, which would speak against the instance.
func (b *requestWriter) option(name, param string, v jsonscan.Value) error {
	if !v.Given() {
		return nil
	}
	kind := v.Kind()
	switch name {
	case "num_predict", "num_ctx", "num_keep", "num_batch", "num_gpu", "main_gpu", "num_thread",
		"draft_num_predict", "repeat_last_n", "seed", "temperature", "top_k", "top_p", "min_p", "typical_p",
		"presence_penalty", "frequency_penalty", "repeat_penalty":
		if kind != jsonscan.Number {
			return schema.BadField(param, "value.number")
		}
	case "use_mmap":
		if kind != jsonscan.True && kind != jsonscan.False {
			return schema.BadField(param, "value.switch")
		}
	case "stop":
		return b.stop(param, v)
	}
	b.options.Add(name, v.Raw())
	return nil
}

// stop adds the stop texts. Ollama wants an array of them.
func (b *requestWriter) stop(param string, v jsonscan.Value) error {
	if v.Kind() == jsonscan.String {
		b.options.Add("stop", slices.Concat([]byte("["), v.Raw(), []byte("]")))
		return nil
	}
	if v.Kind() != jsonscan.Array {
		return schema.BadField(param, "value.string_or_strings")
	}
	if !v.Empty() {
		b.options.Add("stop", v.Raw())
	}
	return nil
}

// place is the destination of a field.
type place uint8

const (
	amongOptions place = iota // it goes among the options
	atTopLevel                // it stays where it is
	notPassedOn               // it has a meaning here, or none for the backend
)

// chatSettings translates the settings of a chat, and passes on the members that the
// unified API does not know.
func (b *requestWriter) chatSettings(asked *chat.Request) error {
	if err := b.sampling(&asked.Settings); err != nil {
		return err
	}
	if asked.Logprobs != nil {
		b.top.Add("logprobs", asked.Logprobs)
	}
	b.top.AddField("top_logprobs", asked.TopLogprobs)
	return b.extensions(&asked.Settings, func(name string) place {
		switch name {
		case "keep_alive", "think", "format", "truncate", "shift":
			return atTopLevel
		case "functions", "function_call", "reasoning", "repeat_penalty", "repetition_penalty", "logit_bias",
			"modalities", "audio", "prediction", "store", "metadata", "service_tier",
			"safety_identifier", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "moderation",
			"web_search_options":
			return notPassedOn
		}
		return amongOptions
	})
}

// extensions passes on the members that are not translated, the members of extra_body
// after the caller's own: clients for the unified API put unknown members in either
// place.
func (b *requestWriter) extensions(s *chat.Settings, placeOf func(string) place) error {
	for v := range s.Others() {
		if err := b.extension(v, placeOf); err != nil {
			return err
		}
	}
	return nil
}

func (b *requestWriter) extension(v jsonscan.Value, placeOf func(string) place) error {
	name := string(v.Key())
	switch {
	case name == "options":
		if v.Kind() != jsonscan.Object {
			return schema.BadField(name, "value.object")
		}
		for o := range v.All() {
			key := string(o.Key())
			if err := b.option(key, "options."+key, o); err != nil {
				return err
			}
		}
	case placeOf(name) == atTopLevel:
		b.top.Add(name, v.Raw())
	case placeOf(name) == amongOptions:
		return b.option(name, name, v)
	}
	return nil
}
