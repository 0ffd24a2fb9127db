package engines

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
)

const (
	// maxMetrics is how much of the metrics of an engine is read. vLLM has some 100 KB.
	maxMetrics = 4 << 20
	// maxLine is the longest line that is read; longer ones are passed over.
	maxLine = 16 << 10
)

// readMetrics reads metrics in the text format of Prometheus: the ones of vLLM,
// SGLang, llama.cpp, TGI and TEI, by their names.
func readMetrics(answer *Answer, into *Report) bool {
	r := metrics{report: into, models: answer.Models, awake: math.NaN()}
	lines := bufio.NewReaderSize(io.LimitReader(answer.Body, maxMetrics), maxLine)
	for {
		line, err := lines.ReadSlice('\n')
		if err == nil || errors.Is(err, io.EOF) {
			r.read(line)
		}
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if err != nil {
			break
		}
	}
	if !r.isKnown {
		return false
	}
	if answer.ProcessStart != "" {
		into.start = answer.ProcessStart
	}
	if r.awake == 0 || r.awake > 0 {
		into.isAwake(r.awake > 0, answer.Models)
	}
	return true
}

// metrics reads the lines of an engine's metrics.
type metrics struct {
	report  *Report
	models  []string
	awake   float64 // engines that are awake, NaN if that is not told
	isKnown bool    // the metrics are those of an engine
}

// read reads a line. Most lines have other metrics, and finding that out is all they cost.
func (m *metrics) read(line []byte) {
	var name [maxName]byte
	end := 0
	for end < len(line) && line[end] > ' ' && line[end] != '{' {
		if end == maxName || line[end] == '#' {
			return
		}
		name[end] = line[end]
		if name[end] == ':' { // some collectors do not like it
			name[end] = '_'
		}
		end++
	}
	if end == len(line) {
		return
	}
	take := meanings[string(name[:end])]
	if take == nil {
		return
	}
	labels, value, ok := split(line[end:])
	if !ok || !m.speaksOfOurs(labels) {
		return
	}
	take(m, labels, value)
}

// maxName is longer than all names in meanings.
const maxName = 40

// meanings has the function that takes a metric, by the metric's name with _ in
// place of a colon.
var meanings = map[string]func(m *metrics, labels []byte, value float64){
	"vllm_num_requests_waiting":    waiting,
	"vllm_num_requests_running":    running,
	"vllm_kv_cache_usage_perc":     used,
	"vllm_gpu_cache_usage_perc":    used,
	"vllm_cache_config_info":       cacheConfig,
	"vllm_engine_sleep_state":      sleepState,
	"vllm_lora_requests_info":      adapterRoom,
	"vllm_prompt_tokens_total":     progress,
	"vllm_generation_tokens_total": progress,
	"vllm_prompt_tokens_created":   start,

	"sglang_num_queue_reqs":          waiting,
	"sglang_num_running_reqs":        running,
	"sglang_token_usage":             used,
	"sglang_max_total_num_tokens":    capacity,
	"sglang_prompt_tokens_total":     progress,
	"sglang_generation_tokens_total": progress,

	"llamacpp_requests_deferred":      waiting,
	"llamacpp_requests_processing":    running,
	"llamacpp_kv_cache_usage_ratio":   used,
	"llamacpp_prompt_tokens_total":    progress,
	"llamacpp_tokens_predicted_total": progress,

	"tgi_queue_size":         waiting,
	"tgi_batch_current_size": running,
	"tgi_request_count":      progress,

	"te_queue_size":    waiting,
	"te_request_count": progress,

	"process_start_time_seconds": processStart,
}

func waiting(m *metrics, labels []byte, value float64) { m.count(&m.report.Waiting, labels, value) }

func running(m *metrics, labels []byte, value float64) { m.count(&m.report.Running, labels, value) }

// count adds the value of one of the engines or ranks behind an address. One
// impossible number makes the sum impossible.
func (m *metrics) count(sum *float64, labels []byte, value float64) {
	if isCopy(labels) {
		return
	}
	m.isKnown = true
	if !(value >= 0) { // also if it is NaN
		value = math.NaN()
	}
	if *sum == -1 {
		*sum = 0
	}
	*sum += value
}

// isCopy reports whether a line repeats another one. SGLang can let all ranks of tensor
// parallelism report their requests, which are the same, and reports the requests of each
// priority beside the total.
func isCopy(labels []byte) bool {
	if priority, ok := label(labels, "priority"); ok && len(priority) > 0 {
		return true
	}
	rank, ok := label(labels, "tp_rank")
	if !ok || string(rank) == "0" {
		return false
	}
	replica, _ := label(labels, "dp_rank")
	return len(replica) == 0
}

// used takes the share of the cache that is in use, of the fullest engine.
func used(m *metrics, _ []byte, value float64) {
	m.isKnown = true
	if !(value >= 0) {
		value = math.NaN()
	}
	m.report.Used = max(m.report.Used, value)
}

func capacity(m *metrics, labels []byte, value float64) { m.count(&m.report.Capacity, labels, value) }

// cacheConfig takes the size of the cache from the labels with which vLLM describes
// it.
func cacheConfig(m *metrics, labels []byte, _ float64) {
	if caching, _ := label(labels, "enable_prefix_caching"); string(caching) == "False" {
		m.count(&m.report.Capacity, labels, 0)
		return
	}
	number := func(name string) float64 {
		text, _ := label(labels, name)
		n, err := strconv.ParseFloat(string(text), 64)
		if err != nil || !(n > 0) {
			return 0
		}
		return n
	}
	tokens := number("kv_cache_size_tokens")
	if tokens == 0 {
		tokens = number("num_gpu_blocks") * number("block_size")
	}
	if tokens > 0 {
		m.count(&m.report.Capacity, labels, tokens)
	}
}

// sleepState takes whether an engine of vLLM is awake.
func sleepState(m *metrics, labels []byte, value float64) {
	if state, _ := label(labels, "sleep_state"); string(state) != "awake" {
		return
	}
	m.isKnown = true
	if math.IsNaN(m.awake) {
		m.awake = 0
	}
	if value > 0 {
		m.awake++
	}
}

// adapterRoom takes how many LoRA adapters a batch may have, from the labels with which vLLM
// describes the last batch.
func adapterRoom(m *metrics, labels []byte, _ float64) {
	text, _ := label(labels, "max_lora")
	if most, err := strconv.Atoi(string(text)); err == nil && most > 0 {
		m.report.AdapterRoom = most
	}
}

func progress(m *metrics, _ []byte, value float64) {
	m.isKnown = true
	if value >= 0 {
		m.report.progress = max(m.report.progress, 0) + value
	}
}

// start takes the creation time of a metric, which is the start time of the process. The
// start time that the process itself reports counts for more.
func start(m *metrics, labels []byte, value float64) {
	if m.report.start == "" {
		processStart(m, labels, value)
	}
}

func processStart(m *metrics, _ []byte, value float64) {
	if value > 0 {
		m.report.start = strconv.FormatFloat(value, 'f', 0, 64)
	}
}

// speaksOfOurs reports whether a line speaks of a model that the gateway asks for, or of
// none in particular.
func (m *metrics) speaksOfOurs(labels []byte) bool {
	model, ok := label(labels, "model_name")
	return !ok || len(model) == 0 || slices.Contains(m.models, string(model))
}

// split splits the rest of a line after the name: labels in braces, which may be missing,
// a value, and a time that is not read.
func split(rest []byte) (labels []byte, value float64, ok bool) {
	if rest[0] == '{' {
		end := endOfLabels(rest)
		if end < 0 {
			return nil, 0, false
		}
		labels, rest = rest[1:end], rest[end+1:]
	}
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return nil, 0, false
	}
	value, err := strconv.ParseFloat(string(fields[0]), 64)
	return labels, value, err == nil
}

// endOfLabels returns the index of the brace that closes the labels, -1 if there is
// none.
func endOfLabels(text []byte) int {
	quoted := false
	for n := 0; n < len(text); n++ {
		switch c := text[n]; {
		case quoted && c == '\\':
			n++
		case c == '"':
			quoted = !quoted
		case c == '}' && !quoted:
			return n
		}
	}
	return -1
}

// label returns the value of a label, with its escapes undone.
func label(labels []byte, name string) (value []byte, ok bool) {
	for len(labels) > 0 {
		equals := bytes.IndexByte(labels, '=')
		if equals < 0 {
			return nil, false
		}
		found := string(bytes.Trim(labels[:equals], " \t,")) == name
		labels = bytes.TrimLeft(labels[equals+1:], " \t")
		if len(labels) == 0 || labels[0] != '"' {
			return nil, false
		}
		end := 1
		for end < len(labels) && labels[end] != '"' {
			if labels[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(labels) {
			return nil, false
		}
		if found {
			return unescape(labels[1:end]), true
		}
		labels = labels[end+1:]
	}
	return nil, false
}

// unescape undoes the escapes of a label: of a backslash, a quotation mark and a new line.
func unescape(value []byte) []byte {
	if bytes.IndexByte(value, '\\') < 0 {
		return value
	}
	var out []byte
	for n := 0; n < len(value); n++ {
		c := value[n]
		if c == '\\' && n+1 < len(value) {
			n++
			if c = value[n]; c == 'n' {
				c = '\n'
			}
		}
		out = append(out, c)
	}
	return out
}
