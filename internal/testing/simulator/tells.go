package simulator

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// Kind is the product that an engine imitates when it reports about itself.
type Kind int

// Kinds of engines. vLLM has GET /metrics and its sleep mode; llama.cpp has GET /metrics,
// /slots and /props, and timings in its answers; Ollama has GET /api/ps, and durations in
// its answers. LlamaRouter is a llama.cpp that starts a server for each of its models, and
// LlamaSwap is llama-swap. The last three load models on request.
const (
	VLLM Kind = iota
	LlamaCpp
	Ollama
	LlamaRouter
	LlamaSwap
)

// Lie is a false report of an engine. Its answers are as they were.
type Lie struct {
	// Number replaces the numbers of its queue and its cache, such as NaN; as it is where
	// it is empty.
	Number string
	// Model replaces the names of models.
	Model string
}

// Lie makes the engine of the backend report falsely; nil ends that.
func (b *Backend) Lie(lie *Lie) { b.lie.Store(lie) }

// Engine returns the engine of the backend, nil without one.
func (b *Backend) Engine() *engine.Live { return b.engine }

// defaultSlots is the number of slots that llama.cpp reports where the engine has no
// bound.
const defaultSlots = 4

// addEngine adds the endpoints of the engine.
func (b *Backend) addEngine(add func(pattern string, answer service)) {
	switch b.options.Kind {
	case VLLM:
		add("GET /metrics", answerVLLMMetrics)
	case LlamaCpp:
		add("GET /metrics", answerLlamaMetrics)
		add("GET /slots", answerLlamaSlots)
		add("GET /props", answerLlamaProps)
	case Ollama:
		add("GET /api/ps", answerOllamaPs)
	case LlamaRouter:
		add("GET /props", answerRouterProps)
	case LlamaSwap:
	}
	b.addMemory(add)
}

// told is the report of a backend's engine: its state, and a way to lie about it.
type told struct {
	engine.State
	lie   Lie
	model string
}

func (b *Backend) told() told {
	t := told{State: b.engine.State(), model: b.models()[0]}
	if lie := b.lie.Load(); lie != nil {
		t.lie = *lie
	}
	if t.lie.Model != "" {
		t.model = t.lie.Model
		t.Models, t.Loading = []string{t.model}, nil
	}
	return t
}

// number returns the reported text of a number.
func (t *told) number(truth float64) string {
	if t.lie.Number != "" {
		return t.lie.Number
	}
	return strconv.FormatFloat(truth, 'g', -1, 64)
}

// slots returns the number of slots that llama.cpp reports.
func (t *told) slots() int {
	if t.Spec.Slots == 0 {
		return defaultSlots
	}
	return t.Spec.Slots
}

// answerVLLMMetrics serves GET /metrics as vLLM does.
func answerVLLMMetrics(x *exchange) {
	t := x.backend.told()
	var out strings.Builder
	labels := fmt.Sprintf(`{engine="0",model_name=%q}`, t.model)
	metric := func(name, kind string, value float64) {
		fmt.Fprintf(&out, "# TYPE vllm:%s %s\nvllm:%s%s %s\n", name, kind, name, labels, t.number(value))
	}
	metric("num_requests_running", "gauge", float64(t.Reading+t.Decoding))
	metric("num_requests_waiting", "gauge", float64(t.Waiting))
	metric("kv_cache_usage_perc", "gauge", t.Used)
	metric("prefix_cache_queries_total", "counter", float64(t.Tokens))
	metric("prefix_cache_hits_total", "counter", float64(t.Cached))
	metric("prompt_tokens_total", "counter", float64(t.Tokens))
	metric("generation_tokens_total", "counter", float64(t.Outputs))
	awake := 1
	if t.IsAsleep {
		awake = 0
	}
	fmt.Fprintf(&out, "# TYPE vllm:engine_sleep_state "+
		"gauge\nvllm:engine_sleep_state{engine=\"0\",model_name=%q,sleep_state=\"awake\"} %d\n", t.model, awake)
	fmt.Fprintf(&out, "# TYPE vllm:cache_config_info "+
		"gauge\nvllm:cache_config_info{block_size=%q,engine=\"0\",num_gpu_blocks=%q} 1.0\n",
		strconv.Itoa(t.Spec.Block), t.number(float64(t.Spec.Cache/t.Spec.Block)))
	if adapters := x.backend.options.Adapters; adapters != nil && t.Requests > 0 {
		fmt.Fprintf(&out, "# TYPE vllm:lora_requests_info "+
			"gauge\nvllm:lora_requests_info{max_lora=%q,running_lora_adapters=\"\",waiting_lora_adapters=\"\"} %d\n",
			strconv.Itoa(adapters.Most), time.Now().Unix())
	}
	fmt.Fprintf(&out, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %.2f\n",
		float64(t.Began.UnixMilli())/1000)
	x.send(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", []byte(out.String()))
}

// answerLlamaMetrics serves GET /metrics as llama.cpp does.
func answerLlamaMetrics(x *exchange) {
	t := x.backend.told()
	var out strings.Builder
	metric := func(name, kind string, value float64) {
		fmt.Fprintf(&out, "# TYPE llamacpp:%s %s\nllamacpp:%s %s\n", name, kind, name, t.number(value))
	}
	metric("prompt_tokens_total", "counter", float64(t.Tokens-t.Cached))
	metric("prompt_tokens_cached_total", "counter", float64(t.Cached))
	metric("prompt_seconds_total", "counter", t.Prefill)
	metric("tokens_predicted_total", "counter", float64(t.Outputs))
	metric("requests_processing", "gauge", float64(t.Reading+t.Decoding))
	metric("requests_deferred", "gauge", float64(t.Waiting))
	x.Header().Set("Process-Start-Time-Unix", strconv.FormatInt(t.Began.Unix(), 10))
	x.send(http.StatusOK, "text/plain; version=0.0.4", []byte(out.String()))
}

// answerLlamaSlots serves GET /slots.
func answerLlamaSlots(x *exchange) {
	t := x.backend.told()
	var slots []string
	for n := range t.slots() {
		decoded := 0
		if n >= t.Reading {
			decoded = 1
		}
		slots = append(slots, fmt.Sprintf(
			`{"id":%d,"n_ctx":%s,"speculative":false,"is_processing":%t,"id_task":%s,`+
				`"next_token":[{"has_next_token":true,"n_decoded":%d}]}`,
			n, t.number(float64(t.Spec.Cache/t.slots())), n < t.Reading+t.Decoding, t.number(float64(t.Requests)),
			decoded))
	}
	x.send(http.StatusOK, "application/json; charset=utf-8", []byte("["+strings.Join(slots, ",")+"]"))
}

// answerLlamaProps serves GET /props.
func answerLlamaProps(x *exchange) {
	t := x.backend.told()
	x.send(http.StatusOK, "application/json; charset=utf-8", fmt.Appendf(nil,
		`{"default_generation_settings":{"n_ctx":%s},"total_slots":%s,"model_alias":%q,"model_path":%[3]q,`+
			`"media_marker":"<__media_%x__>","is_sleeping":false}`,
		t.number(float64(t.Spec.Cache/t.slots())), t.number(float64(t.slots())), t.model, t.Began.UnixNano()))
}

// answerRouterProps serves GET /props of a llama.cpp that starts a server for each model.
func answerRouterProps(x *exchange) {
	t := x.backend.told()
	x.sendText(http.StatusOK, fmt.Sprintf(
		`{"role":"router","max_instances":%s,"models_autoload":true,"model_alias":"llama-server","model_path":"none"}`,
		t.number(float64(t.Spec.Room))))
}

// answerOllamaPs serves GET /api/ps.
func answerOllamaPs(x *exchange) {
	t := x.backend.told()
	var models []string
	for _, name := range t.Models {
		if !strings.Contains(name, ":") {
			name += ":latest"
		}
		models = append(models, fmt.Sprintf(
			`{"name":%q,"model":%[1]q,"size":%s,"digest":%q,"expires_at":"2026-01-01T00:05:00Z","size_vram":%[2]s,`+
				`"context_length":%[4]s}`,
			name, t.number(float64(max(t.Spec.Size, 1))), strings.Repeat(hex(seedOf(name)), 4),
			t.number(float64(t.Spec.Cache))))
	}
	x.send(http.StatusOK, "application/json; charset=utf-8", []byte(`{"models":[`+strings.Join(models, ",")+`]}`))
}
