package engines

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/request/jsonwrite"
)

// Order is a model that an engine is to load, or to give up.
type Order struct {
	Model string
	// Path is where the engine finds a LoRA adapter; empty for a model.
	Path string
	// Embeds means that it makes vectors and writes no text.
	Embeds bool
	// Keep is how long the engine keeps an idle model: 0 means its default, less than 0
	// for ever.
	Keep time.Duration
}

// Command is a call that an engine obeys.
type Command struct{ Method, Path, Body string }

// Lever is how an engine loads a model and gives it up.
type Lever struct {
	// Load returns the command that loads a model, and Unload the command that unloads
	// it.
	Load, Unload func(Order) Command
	// IsNear means that a model which is given up only sleeps.
	IsNear bool
	// IsWhole means that one server has a single model, under all its names. These sleep and
	// wake up together.
	IsWhole bool
	// TellsRoom means that the engine tells how many models it has room for.
	TellsRoom bool
	// IsImplicit means that the engine loads a model as soon as a request asks for it, even
	// without knowing the command.
	IsImplicit bool
	// GoesOn means that the engine goes on loading a model when nobody waits for the answer
	// any more, and that Unload ends that.
	GoesOn bool
	// Later is part of the engine's answer when it cannot load a model yet, because another
	// one that was unloaded has not ended.
	Later string
	// Unknown is part of the engine's answer when it does not know the command, for engines
	// that answer with the same status where they do not find the model; empty means that the
	// status tells.
	Unknown string
	// Off is part of the engine's answer when it was started without what the command needs.
	Off string
}

// The levers of engines of each kind.
var (
	// VLLMLever is vLLM's sleep mode. Sleep would abort running requests.
	VLLMLever = Lever{
		Load:   func(Order) Command { return Command{"POST", "/wake_up", ""} },
		Unload: func(Order) Command { return Command{"POST", "/sleep?level=1", ""} },
		IsNear: true, IsWhole: true,
	}
	// VLLMAdapters loads LoRA adapters into a vLLM beside its model, which it allows with
	// --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING. It answers when an adapter is
	// loaded. FastAPI's words for a path without a handler tell that from a missing adapter.
	VLLMAdapters = Lever{
		Load: func(o Order) Command {
			return Command{"POST", "/v1/load_lora_adapter",
				`{"lora_name":` + quote(o.Model) + `,"lora_path":` + quote(o.Path) + `}`}
		},
		Unload: func(o Order) Command {
			return Command{"POST", "/v1/unload_lora_adapter", `{"lora_name":` + quote(o.Model) + `}`}
		},
		TellsRoom: true,
		Unknown:   `{"detail":"Not Found"}`,
		Off:       "LoRA is not enabled",
	}
	// OllamaLever is Ollama's: a request without a prompt.
	OllamaLever = Lever{Load: ollamaLoad, Unload: func(o Order) Command {
		return Command{"POST", "/api/generate", `{"model":` + quote(o.Model) + `,"keep_alive":0,"stream":false}`}
	}, IsImplicit: true}
	// LlamaCppLever is for a llama.cpp router that starts a server for each model. A server
	// with a single model loads it when it is asked.
	LlamaCppLever = Lever{
		Load:       func(o Order) Command { return llamaCommand("/models/load", o) },
		Unload:     func(o Order) Command { return llamaCommand("/models/unload", o) },
		TellsRoom:  true,
		IsImplicit: true,
		GoesOn:     true,
		Later:      "model limit reached",
	}
	// LlamaSwapLever is llama-swap's, which starts the server of a model to pass a
	// request on to it.
	LlamaSwapLever = Lever{
		Load: func(o Order) Command { return Command{"GET", "/upstream/" + pathOf(o.Model) + "/health", ""} },
		Unload: func(o Order) Command {
			return Command{"POST", "/api/models/unload/" + pathOf(o.Model), ""}
		},
		IsImplicit: true,
		GoesOn:     true,
	}
)

// ollamaLoad loads a model without asking it for anything. A model for embeddings has nothing
// to write.
func ollamaLoad(o Order) Command {
	keep := ""
	switch {
	case o.Keep < 0:
		keep = `,"keep_alive":-1`
	case o.Keep > 0:
		keep = `,"keep_alive":"` + strconv.FormatInt(int64(max(o.Keep/time.Second, 1)), 10) + `s"`
	}
	if o.Embeds {
		return Command{"POST", "/api/embed", `{"model":` + quote(o.Model) + `,"input":[]` + keep + `}`}
	}
	return Command{"POST", "/api/generate", `{"model":` + quote(o.Model) + keep + `,"stream":false}`}
}

func llamaCommand(path string, o Order) Command {
	return Command{"POST", path, `{"model":` + quote(o.Model) + `}`}
}

// pathOf returns a name as a part of a path. Slashes in it stay.
func pathOf(name string) string {
	parts := strings.Split(name, "/")
	for n := range parts {
		parts[n] = url.PathEscape(parts[n])
	}
	return strings.Join(parts, "/")
}

// quote returns a name as a text in JSON.
func quote(name string) string { return string(jsonwrite.AppendText(nil, []byte(name))) }
