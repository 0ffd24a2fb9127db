package simulator

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Adapters make a vLLM that loads LoRA adapters while it runs, as with --enable-lora and
// VLLM_ALLOW_RUNTIME_LORA_UPDATING. Without them it does not know the commands.
type Adapters struct {
	// Most is how many adapters a batch may have. vLLM loads more, and so does the simulator.
	Most int
	// Load is how long loading takes.
	Load time.Duration
	// Missing are paths without an adapter, and Broken those of adapters that do not fit the model.
	Missing, Broken []string
	// IsOff means that --enable-lora is not given: the commands are there, and fail.
	IsOff bool
}

// AdapterState is what an engine has done with adapters.
type AdapterState struct {
	Loaded                map[string]string // paths by names
	Tries, Loads, Unloads int               // commands to load, and how often an adapter came and went
	Peaks                 int               // the most adapters that were loaded at a time
}

// adapters are the loaded adapters of a backend. A restart of its engine loses them.
type adapters struct {
	mu    sync.Mutex
	began time.Time // of the engine
	AdapterState
}

// AdapterState returns the state of the adapters.
func (b *Backend) AdapterState() AdapterState {
	var s AdapterState
	b.withAdapters(func(a *adapters) {
		s = a.AdapterState
		s.Loaded = maps.Clone(a.Loaded)
	})
	return s
}

// withAdapters calls a function with the adapters of the engine that runs.
func (b *Backend) withAdapters(do func(*adapters)) {
	began := time.Time{}
	if b.engine != nil {
		began = b.engine.State().Began
	}
	a := &b.adapters
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Loaded == nil || !a.began.Equal(began) {
		a.Loaded, a.began = map[string]string{}, began
	}
	do(a)
}

// hasAdapter reports whether an adapter of this name is loaded.
func (b *Backend) hasAdapter(name string) (is bool) {
	if b.options.Adapters != nil {
		b.withAdapters(func(a *adapters) { _, is = a.Loaded[name] })
	}
	return is
}

// appendAdapters adds the adapters to the list of models, each with its path and its model.
func (b *Backend) appendAdapters(out []byte) []byte {
	if b.options.Adapters == nil {
		return out
	}
	b.withAdapters(func(a *adapters) {
		for _, name := range slices.Sorted(maps.Keys(a.Loaded)) {
			out = fmt.Appendf(out, `,{"id":%q,"object":"model","created":1767225600,"owned_by":"vllm","root":%q,`+
				`"parent":%q}`, name, a.Loaded[name], b.models()[0])
		}
	})
	return out
}

// adapterRequest is the body of both commands.
type adapterRequest struct {
	Name string `json:"lora_name"`
	Path string `json:"lora_path"`
}

// adapterCommand reads a command, and reports whether the engine takes it.
func (x *exchange) adapterCommand(into *adapterRequest) bool {
	if x.backend.options.Adapters == nil {
		x.sendText(http.StatusNotFound, `{"detail":"Not Found"}`)
		return false
	}
	return x.decode(into)
}

// failAdapter answers with an error in vLLM's form.
func (x *exchange) failAdapter(status int, kind, format string, values ...any) {
	x.sendText(status, fmt.Sprintf(`{"error":{"message":%q,"type":%q,"param":null,"code":%d}}`,
		fmt.Sprintf(format, values...), kind, status))
}

// answerLoadAdapter serves POST /v1/load_lora_adapter, which is answered when the adapter is loaded.
func answerLoadAdapter(x *exchange) {
	var asked adapterRequest
	if !x.adapterCommand(&asked) {
		return
	}
	x.backend.withAdapters(func(a *adapters) { a.Tries++ })
	options := x.backend.options.Adapters
	refuse := func(format string, values ...any) {
		x.failAdapter(http.StatusBadRequest, "InvalidUserInput", format, values...)
	}
	fail := func(why string) {
		x.failAdapter(http.StatusInternalServerError, "InternalServerError", "Call to add_lora method failed: %s", why)
	}
	switch {
	case asked.Name == "" || asked.Path == "":
		refuse("Both 'lora_name' and 'lora_path' must be provided.")
		return
	case x.backend.hasAdapter(asked.Name):
		refuse("The lora adapter '%s' has already been loaded. If you want to load the adapter in place, set "+
			"'load_inplace' to True.", asked.Name)
		return
	case options.IsOff:
		fail("LoRA is not enabled. Use --enable-lora to enable LoRA.")
		return
	case !x.pause(options.Load):
		return
	case slices.Contains(options.Missing, asked.Path):
		x.failAdapter(http.StatusNotFound, "NotFoundError", "Loading lora %s failed: No adapter found for %s",
			asked.Name, asked.Path)
		return
	case slices.Contains(options.Broken, asked.Path):
		fail("LoRA rank 64 is greater than max_lora_rank 16.")
		return
	}
	x.backend.withAdapters(func(a *adapters) {
		a.Loaded[asked.Name] = asked.Path
		a.Loads++
		a.Peaks = max(a.Peaks, len(a.Loaded))
	})
	x.sendSuccess(asked.Name, "added")
}

// answerUnloadAdapter serves POST /v1/unload_lora_adapter.
func answerUnloadAdapter(x *exchange) {
	var asked adapterRequest
	if !x.adapterCommand(&asked) {
		return
	}
	was := false
	x.backend.withAdapters(func(a *adapters) {
		if _, was = a.Loaded[asked.Name]; was {
			delete(a.Loaded, asked.Name)
			a.Unloads++
		}
	})
	if !was {
		x.failAdapter(http.StatusNotFound, "NotFoundError", "The lora adapter '%s' cannot be found.", asked.Name)
		return
	}
	x.sendSuccess(asked.Name, "removed")
}

func (x *exchange) sendSuccess(name, done string) {
	x.send(http.StatusOK, "text/plain; charset=utf-8",
		fmt.Appendf(nil, "Success: LoRA adapter '%s' %s successfully.", name, done))
}
