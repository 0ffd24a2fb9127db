package llamaswap

import (
	"path"
	"slices"
	"strings"

	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/route/discover"
)

// Capabilities say what a model takes and gives.
type Capabilities struct {
	In, Out    []string // text, audio, image
	IsReranker bool
}

// ServiceOf guesses the service type of a model by its name.
func ServiceOf(model string) schema.ServiceType { return discover.GuessService(model) }

// program is a model server that a command may start.
type program struct {
	word    string // in the program's name, or in that of an image
	adapter string
	types   []schema.ServiceType // nil where that depends on the model
}

// programs are tried in this order.
var programs = []program{
	{"whisper-server", "whispercpp", []schema.ServiceType{schema.STT}},
	{"whisper.cpp", "whispercpp", []schema.ServiceType{schema.STT}},
	{"sd-server", "", []schema.ServiceType{schema.ImgGen, schema.ImgEdit}},
	{"stable-diffusion", "", []schema.ServiceType{schema.ImgGen, schema.ImgEdit}},
	{"llama-server", "llamacpp", nil},
	{"llama.cpp", "llamacpp", nil},
	{"vllm", "vllm", nil},
	{"sglang", "sglang", nil},
}

// Serves returns the service types of a model, the adapter that speaks to its server, and the
// path that it is called at, both empty for the usual. It goes by what the model is said to do,
// by the command that serves it, and by its name.
func Serves(model, command string, said Capabilities) (types []schema.ServiceType, adapter, route string) {
	words := strings.Fields(command)
	found := program{}
	for _, word := range words {
		at := slices.IndexFunc(programs, func(p program) bool {
			return strings.Contains(path.Base(strings.ToLower(word)), p.word) ||
				strings.Contains(word, "/"+p.word)
		})
		if at >= 0 && !strings.HasPrefix(word, "-") {
			found = programs[at]
			break
		}
	}
	types = found.types
	switch is := slices.Contains[[]string]; {
	case said.IsReranker:
		types = []schema.ServiceType{schema.Rerank}
	case is(said.Out, "image") && !is(said.Out, "text"):
		types = []schema.ServiceType{schema.ImgGen}
	case is(said.Out, "audio") && !is(said.Out, "text"):
		types = []schema.ServiceType{schema.TTS}
	case is(said.In, "audio") && !is(said.In, "text"):
		types = []schema.ServiceType{schema.STT}
	case types != nil:
	case is(words, "--rerank") || is(words, "--reranking"):
		types = []schema.ServiceType{schema.Rerank}
	case is(words, "--embedding") || is(words, "--embeddings"):
		types = []schema.ServiceType{schema.Embedding}
	case len(said.In) > 0 || len(said.Out) > 0:
		types = []schema.ServiceType{schema.Chat}
	default:
		types = []schema.ServiceType{ServiceOf(model)}
	}
	if found.adapter == "whispercpp" {
		route = valueOf(words, "--request-path") + valueOf(words, "--inference-path")
	}
	return types, found.adapter, route
}

// valueOf returns the argument after a flag, without quotation marks.
func valueOf(words []string, flag string) string {
	at := slices.Index(words, flag)
	if at < 0 || at+1 == len(words) {
		return ""
	}
	return strings.Trim(words[at+1], `'"`)
}
