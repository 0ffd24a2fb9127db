package simulator

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// addMemory adds the endpoints of each kind of engine that load models and put them to
// sleep. Ollama needs no more endpoints for that.
func (b *Backend) addMemory(add func(pattern string, answer service)) {
	switch b.options.Kind {
	case VLLM:
		add("POST /v1/load_lora_adapter", answerLoadAdapter)
		add("POST /v1/unload_lora_adapter", answerUnloadAdapter)
		if b.options.Sleepless {
			return
		}
		add("POST /sleep", answerSleep)
		add("POST /wake_up", answerWakeUp)
		add("GET /is_sleeping", answerIsSleeping)
	case LlamaRouter:
		add("GET /models", answerRouterModels)
		add("POST /models/load", answerRouterLoad)
		add("POST /models/unload", answerRouterUnload)
	case LlamaSwap:
		add("GET /running", answerRunning)
		add("GET /unload", answerSwapUnload)
		add("POST /api/models/unload", answerSwapUnload)
		add("POST /api/models/unload/{model...}", answerSwapUnload)
		add("GET /upstream/{model}/{path...}", answerUpstream)
	case Ollama, LlamaCpp:
	}
}

// needs loads the model of a request, if the engine has room for some models only. It
// returns false if the request was answered. A vLLM takes requests while it sleeps, and
// holds them until it is woken up.
func (x *exchange) needs(model string) bool {
	return x.backend.engine == nil || x.backend.options.Engine.Room == 0 || x.backend.options.Kind == VLLM ||
		x.load(model)
}

// untagged returns the name of a model without the default tag of Ollama's models.
func untagged(model string) string { return strings.TrimSuffix(model, ":latest") }

// load waits until a model is in memory. If it cannot be loaded or the client leaves, it
// returns false, and the request is answered.
func (x *exchange) load(model string) bool {
	live := x.backend.engine
	job := &engine.Job{Model: untagged(model), LoadOnly: true, Keep: x.work.keep}
	ready := live.Add(job)
	select {
	case <-ready:
	case <-x.request.Context().Done():
		live.End(job, 0)
		x.abandon()
	}
	x.work.loading = job.Loading
	switch x.refused = true; {
	case x.broken:
	case !job.Failed:
		x.refused = false
	case live.State().Fault == engine.Dies:
		x.broken = true
	default:
		x.fail(http.StatusInternalServerError, apiError{message: "model failed to load", kind: "server_error",
			code: "internal_error"})
	}
	return !x.refused
}

// keepFor takes the keep_alive of Ollama's clients. It reports whether the model is to go
// at once.
func (x *exchange) keepFor(keepAlive jsontext.Value) (goes bool) {
	value := given(keepAlive)
	if value == nil {
		return false
	}
	seconds, err := strconv.ParseFloat(string(value), 64)
	if err != nil {
		d, err := time.ParseDuration(unquote(value))
		if err != nil {
			return false
		}
		seconds = d.Seconds()
	}
	x.work.keep = max(seconds, 1e-9)
	if seconds < 0 {
		x.work.keep = -1
	}
	return seconds == 0
}

// loadOrGo serves a request of Ollama's that only loads a model or takes it out of
// memory. It returns the reason at the end of the answer, empty if the request was
// answered.
func (x *exchange) loadOrGo(model string, goes bool) (reason string) {
	switch {
	case x.backend.engine == nil:
		return "load"
	case goes:
		x.backend.engine.Retire(untagged(model))
		return "unload"
	case !x.lies() && !x.load(model):
		return ""
	}
	return "load"
}

// lies reports whether the engine claims loads that it has not done.
func (x *exchange) lies() bool { return x.backend.engine.State().Fault == engine.Lies }

func (x *exchange) sendText(status int, text string) {
	x.send(status, "application/json; charset=utf-8", []byte(text))
}

// answerSleep serves POST /sleep?level= as vLLM does.
func answerSleep(x *exchange) {
	level, err := strconv.Atoi(x.request.URL.Query().Get("level"))
	if err != nil || level < 1 {
		level = 1
	}
	x.backend.engine.Sleep(level)
	x.send(http.StatusOK, "text/plain", nil)
}

// answerWakeUp serves POST /wake_up, which is answered when the engine is awake.
func answerWakeUp(x *exchange) {
	if x.lies() || x.load(x.backend.models()[0]) {
		x.send(http.StatusOK, "text/plain", nil)
	}
}

// answerIsSleeping serves GET /is_sleeping.
func answerIsSleeping(x *exchange) {
	x.sendText(http.StatusOK, fmt.Sprintf(`{"is_sleeping":%t}`, x.backend.told().IsAsleep))
}

// status returns the word of llama.cpp and llama-swap for the state of a model.
func (t *told) status(model, loaded, loading, absent string) string {
	switch {
	case slices.Contains(t.Loading, model):
		return loading
	case slices.Contains(t.Models, model):
		return loaded
	}
	return absent
}

// answerRouterModels serves GET /models of a llama.cpp that starts a server for each model.
func answerRouterModels(x *exchange) {
	t := x.backend.told()
	var models []string
	for _, name := range x.backend.models() {
		models = append(models, fmt.Sprintf(
			`{"id":%q,"aliases":[],"tags":[],"object":"model","owned_by":"llamacpp","created":1767225600,`+
				`"status":{"value":%q,"args":["llama-server","--alias",%[1]q],"preset":""},"source":"models_dir",`+
				`"can_remove":false}`,
			name, t.status(name, "loaded", "loading", "unloaded")))
	}
	x.sendText(http.StatusOK, `{"data":[`+strings.Join(models, ",")+`],"object":"list"}`)
}

// routerModel reads the model of a request to load or unload it. If it is not known, it
// answers with an error and returns false.
func (x *exchange) routerModel() (model string, ok bool) {
	model = x.askedModel()
	if !slices.Contains(x.backend.models(), model) {
		x.sendText(http.StatusNotFound, `{"error":{"message":"File Not Found","type":"not_found_error","code":404}}`)
		return "", false
	}
	return model, true
}

// answerRouterLoad serves POST /models/load, which is answered before the model is there.
func answerRouterLoad(x *exchange) {
	model, ok := x.routerModel()
	switch t := x.backend.told(); {
	case !ok:
	case slices.Contains(t.Models, model):
		x.sendText(http.StatusBadRequest, `{"error":{"code":400,"message":"model is already running",`+
			`"type":"invalid_request_error"}}`)
	case x.backend.hasUnloaded.Swap(false): // the server of that model has not ended yet
		x.sendText(http.StatusInternalServerError,
			`{"error":{"code":500,"message":"model limit reached, try again later","type":"server_error"}}`)
	default:
		if !x.lies() {
			x.backend.engine.Add(&engine.Job{Model: model, LoadOnly: true})
		}
		x.sendText(http.StatusOK, `{"success":true}`)
	}
}

// answerRouterUnload serves POST /models/unload.
func answerRouterUnload(x *exchange) {
	model, ok := x.routerModel()
	switch {
	case !ok:
	case !x.backend.engine.Unload(model):
		x.sendText(http.StatusBadRequest, `{"error":{"code":400,"message":"model is not running",`+
			`"type":"invalid_request_error"}}`)
	default:
		x.backend.hasUnloaded.Store(true)
		x.sendText(http.StatusOK, `{"success":true}`)
	}
}

// answerRunning serves GET /running of llama-swap.
func answerRunning(x *exchange) {
	t := x.backend.told()
	var models []string
	for _, name := range slices.Sorted(slices.Values(t.Models)) {
		models = append(models, fmt.Sprintf(
			`{"model":%q,"state":%q,"cmd":"llama-server","proxy":"http://localhost:5800","ttl":%d,"name":"",`+
				`"description":""}`,
			name, t.status(name, "ready", "starting", ""), int(t.Spec.Keep)))
	}
	x.sendText(http.StatusOK, `{"running":[`+strings.Join(models, ",")+`]}`)
}

// answerSwapUnload serves the ways to unload one model or all of them of llama-swap.
func answerSwapUnload(x *exchange) {
	model := x.request.PathValue("model")
	if model != "" && !x.backend.knows(model) {
		x.sendText(http.StatusNotFound, `{"src":"llama-swap","error":{"message":"model not found",`+
			`"type":"invalid_request_error","param":null,"code":"not_found"}}`)
		return
	}
	for _, name := range x.backend.engine.State().Models {
		if model == "" || name == model {
			x.backend.engine.Unload(name)
		}
	}
	if x.request.URL.Path == "/api/models/unload" {
		x.sendText(http.StatusOK, `{"msg":"ok"}`)
		return
	}
	x.send(http.StatusOK, "text/plain; charset=utf-8", []byte("OK"))
}

// answerUpstream serves the requests that llama-swap passes on to the server of a model,
// which it starts for that.
func answerUpstream(x *exchange) {
	model := x.request.PathValue("model")
	if x.serves(model) && (x.lies() || x.load(model)) {
		x.sendText(http.StatusOK, `{"status":"ok"}`)
	}
}
