package engines

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// ask reads an answer as one to the question at a path.
func ask(path, body string, models ...string) (Report, bool) {
	return askFrom(slices.Concat(VLLM, LlamaCpp, LlamaSwap, Ollama), path, &Answer{Body: strings.NewReader(body), Models: models})
}

func askFrom(questions []Question, path string, answer *Answer) (Report, bool) {
	for _, q := range questions {
		if q.Path == path {
			report := NewReport()
			told := q.Read(answer, &report)
			return report, told
		}
	}
	panic("nobody asks at " + path)
}

func transcript(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// said returns a report with the given numbers.
func said(waiting, running, used, capacity float64, change ...func(*Report)) Report {
	r := Report{Waiting: waiting, Running: running, Used: used, Capacity: capacity, progress: -1}
	for _, c := range change {
		c(&r)
	}
	return r
}

func from(start string, progress float64) func(*Report) {
	return func(r *Report) { r.start, r.progress = start, progress }
}

func has(awake, asleep []string) func(*Report) {
	return func(r *Report) { r.TellsModels, r.Awake, r.Asleep = true, awake, asleep }
}

func takes(bytes map[string]int64) func(*Report) { return func(r *Report) { r.Bytes = bytes } }

const (
	vllmOld = `# HELP vllm:num_requests_running Number of requests currently running on GPU.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="org/m"} 3.0
vllm:num_requests_swapped{model_name="org/m"} 0.0
vllm:num_requests_waiting{model_name="org/m"} 12.0
vllm:gpu_cache_usage_perc{model_name="org/m"} 0.35
vllm:prompt_tokens_total{model_name="org/m"} 1.5e+06
vllm:cache_config_info{block_size="16",cache_dtype="auto",enable_prefix_caching="True",num_cpu_blocks="9362",num_gpu_blocks="81767",num_gpu_blocks_override="None"} 1.0
`
	vllmNew = `process_start_time_seconds 1.79470208231e+09
vllm:num_requests_running{engine="0",model_name="org/m"} 2.0
vllm:num_requests_running{engine="1",model_name="org/m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="org/m"} 4.0
vllm:num_requests_waiting{engine="1",model_name="org/m"} 5.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="org/m",reason="capacity"} 4.0
vllm:engine_sleep_state{engine="0",model_name="org/m",sleep_state="awake"} 1.0
vllm:engine_sleep_state{engine="0",model_name="org/m",sleep_state="weights_offloaded"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="org/m"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="org/m"} 0.5
vllm:prompt_tokens_total{engine="0",model_name="org/m"} 100.0
vllm:prompt_tokens_total{engine="1",model_name="org/m"} 50.0
vllm:prompt_tokens_created{engine="0",model_name="org/m"} 1.794702099e+09
vllm:cache_config_info{block_size="832",enable_prefix_caching="True",engine="0",kv_cache_size_tokens="619479",num_gpu_blocks="745"} 1.0
vllm:cache_config_info{block_size="832",enable_prefix_caching="True",engine="1",kv_cache_size_tokens="None",num_gpu_blocks="10"} 1.0
`
	sglang = `# HELP sglang:num_running_reqs The number of running requests
sglang:num_running_reqs{engine_type="unified",model_name="org/m",pp_rank="0",tp_rank="0"} 162.0
sglang:num_running_reqs{engine_type="unified",model_name="org/m",pp_rank="0",tp_rank="1"} 162.0
sglang:num_queue_reqs{engine_type="unified",model_name="org/m",pp_rank="0",tp_rank="0"} 2826.0
sglang:num_queue_reqs{engine_type="unified",model_name="org/m",pp_rank="0",priority="1",tp_rank="0"} 26.0
sglang:token_usage{engine_type="unified",model_name="org/m",pp_rank="0",tp_rank="0"} 0.28
sglang:max_total_num_tokens{engine_type="unified",model_name="org/m",pp_rank="0",tp_rank="0"} 471258.0
sglang:prompt_tokens_total{model_name="org/m",is_streaming="true"} 8.128902e+06
sglang:prompt_tokens_total{model_name="org/m",is_streaming="false"} 98
`
	sglangReplicas = `sglang_num_running_reqs{dp_rank="0",tp_rank="0"} 1
sglang_num_running_reqs{dp_rank="1",tp_rank="1"} 2
sglang_num_queue_reqs{dp_rank="0",tp_rank="0"} 3
sglang_num_queue_reqs{dp_rank="1",tp_rank="1"} 4
`
	tgi = `# TYPE tgi_request_count counter
tgi_request_count 42
# TYPE tgi_queue_size gauge
tgi_queue_size 7
tgi_batch_current_size 12
tgi_batch_current_max_tokens 16000
tgi_request_duration_bucket{le="0.1"} 42
`
	router = `{"role":"router","max_instances":3,"models_autoload":true,"model_alias":"llama-server"}`
	routed = `{"object":"list","data":[{"id":"a","status":{"value":"loaded","args":["x"]}},{"id":"b","status":{"value":"sleeping"}},
{"id":"c","status":{"value":"unloaded"}},{"id":"d","status":{"value":"loading"}},{"id":"other","status":{"value":"loaded"}},{"id":"e","status":{"value":"unloaded","failed":true,"exit_code":1}}]}`
	slotsBusy = `[{"id":0,"n_ctx":4096,"is_processing":true,"id_task":7,"next_token":[{"n_decoded":0}]},
{"id":1,"n_ctx":4096,"is_processing":true,"id_task":5,"next_token":{"n_decoded":12}},{"id":2,"n_ctx":4096,"is_processing":false},
{"id":3,"n_ctx":4096,"is_processing":true,"id_task":9}]`
)

func TestWhatEnginesTell(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path, body string
		models     []string
		want       Report
	}{
		"vLLM's simulator":             {"/metrics", transcript(t, "vllm-metrics.txt"), []string{"qwen-sim"}, said(0, 0, 0, 16384, from("", 96), func(r *Report) { r.AdapterRoom = 1 })},
		"an old vLLM":                  {"/metrics", vllmOld, []string{"org/m"}, said(12, 3, 0.35, 81767*16, from("", 1.5e6))},
		"a vLLM with two engines":      {"/metrics", vllmNew, []string{"org/m", "adapter"}, said(9, 3, 0.5, 619479+8320, from("1794702082", 150), has([]string{"org/m", "adapter"}, nil))},
		"a vLLM that sleeps":           {"/metrics", "vllm:engine_sleep_state{sleep_state=\"awake\"} 0\nvllm:engine_sleep_state{sleep_state=\"discard_all\"} 1\n", []string{"m"}, said(-1, -1, -1, -1, has(nil, []string{"m"}))},
		"a vLLM without a cache":       {"/metrics", `vllm:cache_config_info{block_size="16",enable_prefix_caching="False",num_gpu_blocks="100"} 1`, nil, said(-1, -1, -1, 0)},
		"when a counter was made":      {"/metrics", "vllm:prompt_tokens_created 1.794702099e+09\nvllm:prompt_tokens_total 5\n", nil, said(-1, -1, -1, -1, from("1794702099", 5))},
		"SGLang":                       {"/metrics", sglang, []string{"org/m"}, said(2826, 162, 0.28, 471258, from("", 8.129e6))},
		"SGLang with replicas":         {"/metrics", sglangReplicas, nil, said(7, 3, -1, -1)},
		"TGI":                          {"/metrics", tgi, nil, said(7, 12, -1, -1, from("", 42))},
		"TEI":                          {"/metrics", "te_queue_size 3\nte_request_count{method=\"batch\"} 9\n", nil, said(3, -1, -1, -1, from("", 9))},
		"llama.cpp":                    {"/metrics", transcript(t, "llamacpp-metrics.txt"), []string{"tinychat"}, said(0, 0, -1, -1, from("", 383+174))},
		"an old llama.cpp":             {"/metrics", "llamacpp:kv_cache_usage_ratio 0.63\nllamacpp:requests_processing 2\nllamacpp:requests_deferred 1", nil, said(1, 2, 0.63, -1)},
		"slots of llama.cpp":           {"/slots", transcript(t, "llamacpp-slots.json"), nil, said(0, 0, -1, -1, from("", 193))},
		"slots that work":              {"/slots", slotsBusy, nil, said(1, 2, -1, -1, from("", 9))},
		"properties of llama.cpp":      {"/props", transcript(t, "llamacpp-props.json"), []string{"tinychat"}, said(-1, -1, -1, 8192, from("<__media_hW2jJXRUA5m8FLE1XhCwfcvC5IoIcmsu__>", -1), has([]string{"tinychat"}, nil))},
		"a llama.cpp that sleeps":      {"/props", `{"total_slots":2,"default_generation_settings":{"n_ctx":100},"is_sleeping":true}`, []string{"m"}, said(-1, -1, -1, 200, has(nil, []string{"m"}))},
		"a llama.cpp with servers":     {"/props", router, []string{"a"}, said(-1, -1, -1, -1, func(r *Report) { r.Room = 3 })},
		"and its models":               {"/models", routed, []string{"a", "b", "c", "d", "e"}, said(-1, -1, -1, -1, has([]string{"a"}, []string{"b"}), func(r *Report) { r.Loading, r.Failed = []string{"d"}, []string{"e"} })},
		"Ollama":                       {"/api/ps", transcript(t, "ollama-ps.json"), []string{"tinychat", "tinyembed:latest", "tinychat:7b", "other"}, said(-1, -1, -1, -1, has([]string{"tinyembed:latest", "tinychat"}, nil), takes(map[string]int64{"tinychat": 4954368, "tinyembed:latest": 4162560}))},
		"a vLLM that says it sleeps":   {"/is_sleeping", `{"is_sleeping":true}`, []string{"m"}, said(-1, -1, -1, -1, has(nil, []string{"m"}))},
		"a vLLM that says it is awake": {"/is_sleeping", `{"is_sleeping":false}`, []string{"m"}, said(-1, -1, -1, -1, has([]string{"m"}, nil))},
		"llama-swap":                   {"/running", `{"running":[{"model":"a","state":"ready","ttl":0},{"model":"b","state":"starting"},{"model":"c","state":"stopping"},{"model":"other","state":"ready"}]}`, []string{"a", "b", "c"}, said(-1, -1, -1, -1, has([]string{"a"}, nil), func(r *Report) { r.Loading = []string{"b"} })},
		"a llama-swap that is empty":   {"/running", `{"running":[]}`, []string{"a"}, said(-1, -1, -1, -1, has(nil, nil))},
		"an Ollama that is empty":      {"/api/ps", `{"models":[]}`, []string{"tinychat"}, said(-1, -1, -1, -1, has(nil, nil))},
	} {
		got, told := ask(c.path, c.body, c.models...)
		if !told || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v %+v, want %+v", name, told, got, c.want)
		}
	}
}

// TestWhatTellsNothing gives answers that are no good, which must not be read as empty
// queues or as a memory without models.
func TestWhatTellsNothing(t *testing.T) {
	t.Parallel()
	pages := []string{
		"", "\n\n", "ok", "<!doctype html><html>not found</html>", "null", "[]", "{}", "[1]", `{"error":{"code":501,"message":"not supported"}}`,
		"# HELP vllm:num_requests_waiting x\n", "vllm:num_requests_waiting\n", `vllm:num_requests_waiting{model_name="x} 5`, "vllm:num_requests_waiting five\n",
		"process_start_time_seconds 5\ngo_goroutines 7\n", `{"models":null}`, `{"models":{}}`, `{"data":[{"id":"m"}]}`, `{"total_slots":"4"}`,
	}
	for _, path := range []string{"/metrics", "/slots", "/props", "/models", "/api/ps"} {
		for _, page := range pages {
			if got, told := ask(path, page, "m"); told {
				t.Errorf("%s: %q told %+v", path, page, got)
			}
		}
	}
	if got, told := ask("/models", transcript(t, "llamacpp-models.json"), "tinychat"); told {
		t.Errorf("a list of models that are always there told %+v", got)
	}
}

// TestNumbersThatCannotBeTrue reads lies, of which one alone makes a sum worthless.
func TestNumbersThatCannotBeTrue(t *testing.T) {
	t.Parallel()
	for _, lie := range []string{"-1", "NaN", "-Inf", "-1e18"} {
		text := fmt.Sprintf("vllm:num_requests_waiting{engine=\"0\"} 10\nvllm:num_requests_waiting{engine=\"1\"} %[1]s\n"+
			"vllm:num_requests_running %[1]s\nvllm:kv_cache_usage_perc %[1]s\nsglang:max_total_num_tokens %[1]s\nvllm:prompt_tokens_total %[1]s\n", lie)
		got, _ := ask("/metrics", text)
		for _, number := range []float64{got.Waiting, got.Running, got.Used, got.Capacity} {
			if number >= 0 {
				t.Errorf("%s is read as %+v", lie, got)
			}
		}
	}
	for _, lie := range []string{"1e18", "+Inf", "1e308"} {
		got, _ := ask("/metrics", "vllm:num_requests_waiting "+lie+"\n")
		if got.Waiting < 1e18 {
			t.Errorf("%s became %v, which may be true", lie, got.Waiting)
		}
	}
	got, _ := ask("/metrics", `vllm:cache_config_info{block_size="-16",num_gpu_blocks="100"} 1`)
	if got.Capacity != -1 {
		t.Errorf("a cache of %v tokens", got.Capacity)
	}
}

// TestNumbersOfAnotherModel are left out, whether they are alone or beside others.
func TestNumbersOfAnotherModel(t *testing.T) {
	t.Parallel()
	other := `vllm:num_requests_waiting{engine="0",model_name="other"} 500
vllm:num_requests_running{model_name="other",engine="0"} 500
vllm:engine_sleep_state{model_name="other",sleep_state="awake"} 0
`
	if got, told := ask("/metrics", other, "mine"); told {
		t.Errorf("%+v", got)
	}
	own := "vllm:num_requests_waiting{model_name=\"mi\\\\n\\\"e}\"} 2\n"
	got, told := ask("/metrics", other+own, `mi\n"e}`)
	if !told || got.Waiting != 2 || got.Running != -1 || got.TellsModels {
		t.Errorf("%+v", got)
	}
}

func TestLongLinesAndLongAnswersAreCut(t *testing.T) {
	t.Parallel()
	long := `vllm:num_requests_waiting{x="` + strings.Repeat("y", 3*maxLine) + `"} 5` + "\n"
	got, told := ask("/metrics", long+"vllm:num_requests_running 3\n")
	if !told || got.Running != 3 || got.Waiting != -1 {
		t.Errorf("behind a long line: %v %+v", told, got)
	}
	endless := &endless{}
	if _, told := askFrom(VLLM, "/metrics", &Answer{Body: endless}); told || endless.read > maxMetrics {
		t.Errorf("%d bytes were read", endless.read)
	}
}

// endless is an answer that does not end.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte("a 1\n"), len(p)/4+1))
	e.read += len(p)
	return len(p), nil
}

func TestAnswersToSeveralQuestionsAddUp(t *testing.T) {
	t.Parallel()
	all := NewReport()
	for _, c := range []struct{ path, body string }{
		{"/props", transcript(t, "llamacpp-props.json")},
		{"/metrics", "llamacpp:requests_deferred 4\nllamacpp:requests_processing 3\n"},
		{"/slots", slotsBusy},
	} {
		one, _ := ask(c.path, c.body, "m")
		all.Add(&one)
	}
	if want := said(5, 2, -1, 8192, has([]string{"m"}, nil)); !reflect.DeepEqual(all, want) {
		t.Errorf("%+v, want %+v", all, want)
	}
}

// TestRestartsAreNoticed lets a process tell of itself every 10 seconds.
func TestRestartsAreNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said []func(*Report)
		want []int // where a process is new
	}{
		"it goes on":                 {[]func(*Report){from("100", 1), from("100", 1), from("100", 7)}, nil},
		"it tells nothing":           {[]func(*Report){from("", -1), from("", -1)}, nil},
		"it tells nothing in turn":   {[]func(*Report){from("100", 5), from("", -1), from("100", 6)}, nil},
		"another start":              {[]func(*Report){from("100", -1), from("200", -1), from("200", -1)}, []int{1}},
		"another mark":               {[]func(*Report){from("<a>", -1), from("<b>", -1)}, []int{1}},
		"counters begin anew":        {[]func(*Report){from("", 100), from("", 3), from("", 50)}, []int{1}},
		"after a while of nothing":   {[]func(*Report){from("100", 9), from("", -1), from("200", 12)}, []int{2}},
		"a clock is corrected":       {[]func(*Report){from("100", -1), from("101", -1), from("98", -1), from("100", -1)}, nil},
		"a number that is not known": {[]func(*Report){from("", math.NaN()), from("", 5), from("", math.NaN()), from("", 6)}, nil},
		"two behind one address":     {[]func(*Report){from("100", 50), from("900", 3), from("100", 60), from("900", 4), from("100", 70), from("900", 5)}, []int{1}},
		"a lie now and then":         {[]func(*Report){from("", 5), from("", 1e18), from("", 6), from("", 1e18), from("", 7), from("", 1e18), from("", 8)}, []int{2}},
	} {
		var p Process
		var got []int
		now := time.Unix(1000, 0)
		for n, one := range c.said {
			r := said(-1, -1, -1, -1, one)
			if p.IsNew(&r, now) {
				got = append(got, n)
			}
			now = now.Add(10 * time.Second)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: a new process at %v, want %v", name, got, c.want)
		}
	}
	var p Process
	for n := range 5 {
		r := said(-1, -1, -1, -1, from(fmt.Sprintf("<%d>", n), -1))
		if isNew := p.IsNew(&r, time.Unix(int64(n)*600, 0)); isNew != (n > 0) {
			t.Errorf("restart %d after ten minutes: %v", n, isNew)
		}
	}
}

// FuzzAnswers reads any answer to any question: no text may do more than tell wrong numbers.
func FuzzAnswers(f *testing.F) {
	for _, text := range []string{vllmOld, vllmNew, sglang, tgi, router, routed, slotsBusy} {
		f.Add([]byte(text))
	}
	for _, name := range []string{"vllm-metrics.txt", "llamacpp-metrics.txt", "llamacpp-slots.json", "llamacpp-props.json", "ollama-ps.json"} {
		f.Add([]byte(transcript(f, name)))
	}
	models := []string{"org/m", "tinychat", "a"}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, q := range slices.Concat(VLLM, LlamaCpp, LlamaSwap, Ollama) {
			r := NewReport()
			told := q.Read(&Answer{Body: bytes.NewReader(text), Models: models}, &r)
			for _, name := range slices.Concat(r.Awake, r.Asleep) {
				if !slices.Contains(models, name) {
					t.Errorf("%s: %q is no model of the gateway's", q.Path, name)
				}
			}
			if !told && (r.TellsModels || r.Waiting >= 0 || r.Running >= 0 || r.Capacity >= 0 || r.Room > 0) {
				t.Errorf("%s: told nothing, but %+v", q.Path, r)
			}
			if r.Room < 0 || r.Room > 1000 {
				t.Errorf("%s: room for %d models", q.Path, r.Room)
			}
			var p Process
			p.IsNew(&r, time.Unix(0, 0))
		}
	})
}

// TestWhatVLLMTellsOfItsAdapters reads its list of models, in which adapters have a parent.
func TestWhatVLLMTellsOfItsAdapters(t *testing.T) {
	t.Parallel()
	const list = `{"object":"list","data":[{"id":"m","object":"model","root":"/models/m","parent":null},
{"id":"l1","object":"model","root":"/l/1","parent":"m"},{"id":"l2","object":"model","root":"/old/2","parent":"m"},
{"id":"l3","object":"model","root":"/l/3"},{"id":"other","object":"model","root":"/l/other","parent":"m"}]}`
	paths := map[string]string{"m": "/models/m", "l1": "/l/1", "l2": "/l/2", "l3": "/l/3", "l4": "/l/4"}
	got, told := askFrom(VLLM, "/v1/models", &Answer{Body: strings.NewReader(list), Adapters: paths})
	want := said(-1, -1, -1, -1, func(r *Report) {
		r.TellsAdapters, r.Adapters, r.Stale = true, []string{"l1"}, []string{"l2"}
	})
	if !told || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %+v", told, got)
	}
	for _, wrong := range []string{`{"data":{}}`, `[]`, `{"detail":"Not Found"}`} {
		if got, told := askFrom(VLLM, "/v1/models", &Answer{Body: strings.NewReader(wrong), Adapters: paths}); told {
			t.Errorf("%s is read as %+v", wrong, got)
		}
	}
}

// TestLevers has what is sent to load models and to give them up.
func TestLevers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		got, want Command
	}{
		"vLLM wakes":            {VLLMLever.Load(Order{Model: "m"}), Command{"POST", "/wake_up", ""}},
		"vLLM sleeps":           {VLLMLever.Unload(Order{Model: "m"}), Command{"POST", "/sleep?level=1", ""}},
		"vLLM loads an adapter": {VLLMAdapters.Load(Order{Model: "l", Path: "/a\"b"}), Command{"POST", "/v1/load_lora_adapter", `{"lora_name":"l","lora_path":"/a\"b"}`}},
		"and gives it up":       {VLLMAdapters.Unload(Order{Model: "l", Path: "/a"}), Command{"POST", "/v1/unload_lora_adapter", `{"lora_name":"l"}`}},
		"Ollama loads":          {OllamaLever.Load(Order{Model: "a\"b"}), Command{"POST", "/api/generate", `{"model":"a\"b","stream":false}`}},
		"Ollama keeps":          {OllamaLever.Load(Order{Model: "m", Keep: 20 * time.Minute}), Command{"POST", "/api/generate", `{"model":"m","keep_alive":"1200s","stream":false}`}},
		"Ollama keeps for ever": {OllamaLever.Load(Order{Model: "m", Keep: -1}), Command{"POST", "/api/generate", `{"model":"m","keep_alive":-1,"stream":false}`}},
		"Ollama embeds":         {OllamaLever.Load(Order{Model: "m", Embeds: true}), Command{"POST", "/api/embed", `{"model":"m","input":[]}`}},
		"Ollama unloads":        {OllamaLever.Unload(Order{Model: "m"}), Command{"POST", "/api/generate", `{"model":"m","keep_alive":0,"stream":false}`}},
		"llama.cpp loads":       {LlamaCppLever.Load(Order{Model: "m"}), Command{"POST", "/models/load", `{"model":"m"}`}},
		"llama.cpp unloads":     {LlamaCppLever.Unload(Order{Model: "m"}), Command{"POST", "/models/unload", `{"model":"m"}`}},
		"llama-swap loads":      {LlamaSwapLever.Load(Order{Model: "org/a b?"}), Command{"GET", "/upstream/org/a%20b%3F/health", ""}},
		"llama-swap unloads":    {LlamaSwapLever.Unload(Order{Model: "m"}), Command{"POST", "/api/models/unload/m", ""}},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v", name, c.got)
		}
	}
}
