package engines

import (
	"bytes"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/jsonscan"
	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// Sizes are the numbers of tokens that a model has room for; 0 means that a number is unknown.
type Sizes struct {
	// Window is the limit of a prompt together with its answer, or of a prompt alone if the answer
	// is limited apart, and Output that of an answer.
	Window, Output int64
}

// Ask asks an engine: it posts the JSON, or sends a GET if that is empty. It returns nil unless the
// engine answers with 200.
type Ask func(path, post string) []byte

// ReadSizes returns the sizes in force of the models, as far as the engine has them now, or nil if
// it has none for any. It loads no model.
type ReadSizes func(ask Ask, models []string) map[string]Sizes

// largest is more than the sizes of any model; llama.cpp and others write such numbers for none.
const largest = 1 << 40

// sizeNames are the members of lists of models with the size of the window, and outputNames those
// with the size of an answer. Those with the length that a model was trained with are not among them.
var (
	sizeNames = [...]string{
		"max_model_len",         // vLLM, SGLang
		"loaded_context_length", // LM Studio
		"context_length",        // Xinference, OpenRouter, other gateways
		"context_window",        // llama-swap, Groq
		"max_input_tokens",      // Anthropic
		"inputTokenLimit",       // Gemini
	}
	outputNames = [...]string{"max_output_tokens", "max_completion_tokens", "outputTokenLimit", "max_tokens"}
)

// ListedSizes reads sizes from the list of models of OpenAI's and Anthropic's APIs.
func ListedSizes(ask Ask, models []string) map[string]Sizes {
	return listed(answerOf(ask, "/v1/models"), models)
}

// GeminiSizes reads sizes from the list of models of Gemini's API.
func GeminiSizes(ask Ask, models []string) map[string]Sizes {
	return listed(answerOf(ask, "/v1beta/models"), models)
}

func answerOf(ask Ask, path string) jsonscan.Value { return parse(bytes.NewReader(ask(path, ""))) }

// listed reads sizes from a list of models.
func listed(list jsonscan.Value, models []string) map[string]Sizes {
	var found map[string]Sizes
	entries := list.Get("data")
	if !entries.Given() {
		entries = list.Get("models")
	}
	for m := range entries.All() {
		name := string(m.TextOf("id"))
		if name == "" {
			name = strings.TrimPrefix(string(m.TextOf("name")), "models/")
		}
		if !slices.Contains(models, name) {
			continue
		}
		sizes := Sizes{first(m, sizeNames[:]), first(m, outputNames[:])}
		if kind := string(m.TextOf("model_type")); kind == "embedding" || kind == "rerank" {
			sizes = Sizes{Window: first(m, []string{"max_tokens"})} // Xinference: of the input
		}
		if sizes != (Sizes{}) {
			if found == nil {
				found = map[string]Sizes{}
			}
			found[name] = sizes
		}
	}
	return found
}

// first returns the first of the members that is the size of something, else 0.
func first(m jsonscan.Value, names []string) int64 {
	for _, name := range names {
		if n, ok := m.Get(name).Int(); ok && n > 0 && n < largest {
			return n
		}
	}
	return 0
}

// UnknownSizes reads the sizes of a backend behind OpenAI's API. The owner of its models shows
// whether it is an engine that has them elsewhere.
func UnknownSizes(ask Ask, models []string) map[string]Sizes {
	list := answerOf(ask, "/v1/models")
	switch string(list.Get("data").First().TextOf("owned_by")) {
	case "llamacpp":
		return LlamaCppSizes(ask, models)
	case "library":
		return OllamaSizes(ask, models)
	case "organization_owner", "organization-owner":
		found := map[string]Sizes{} // LM Studio has the sizes of the models in memory
		maps.Copy(found, listed(answerOf(ask, "/api/v0/models"), models))
		return found
	}
	return listed(list, models)
}

// LlamaCppSizes reads the context of a slot of llama.cpp. A router has one server for each model.
func LlamaCppSizes(ask Ask, models []string) map[string]Sizes {
	found := map[string]Sizes{}
	slot := func(props jsonscan.Value) Sizes {
		return Sizes{Window: first(props.Get("default_generation_settings"), []string{"n_ctx"})}
	}
	props := answerOf(ask, "/props")
	if !props.Is("role", "router") {
		for _, model := range models {
			found[model] = slot(props)
		}
		return found
	}
	running := NewReport()
	readModels(&Answer{Body: bytes.NewReader(ask("/models", "")), Models: models}, &running)
	for _, model := range running.Awake {
		found[model] = slot(answerOf(ask, "/props?autoload=false&model="+url.QueryEscape(model)))
	}
	return found
}

// OllamaSizes reads the contexts of Ollama: the parameter num_ctx of a model, else that of the model
// in memory. A model without either has one when it is loaded.
func OllamaSizes(ask Ask, models []string) map[string]Sizes {
	found := map[string]Sizes{}
	for m := range answerOf(ask, "/api/ps").Get("models").All() {
		for _, model := range models {
			if isSameModel(model, string(m.TextOf("name"))) {
				found[model] = Sizes{Window: first(m, []string{"context_length"})}
			}
		}
	}
	for _, model := range models {
		shown := parse(bytes.NewReader(ask("/api/show", `{"model":`+string(jsonwrite.AppendText(nil, model))+`}`)))
		for line := range strings.Lines(string(shown.TextOf("parameters"))) {
			fields := strings.Fields(line)
			if len(fields) != 2 || fields[0] != "num_ctx" {
				continue
			}
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil && n > 0 {
				found[model] = Sizes{Window: n}
			}
		}
	}
	return found
}

// TEISizes reads the longest input of text-embeddings-inference, which has one model.
func TEISizes(ask Ask, models []string) map[string]Sizes {
	found := map[string]Sizes{}
	size := first(answerOf(ask, "/info"), []string{"max_input_length"})
	for _, model := range models {
		found[model] = Sizes{Window: size}
	}
	return found
}
