package engines

import (
	"reflect"
	"strings"
	"testing"
)

// TestWhatRealEnginesToldOfTheirModels reads what llama.cpp's router, llama-swap and Ollama
// answered while they loaded, threw out and put to sleep tiny models.
func TestWhatRealEnginesToldOfTheirModels(t *testing.T) {
	t.Parallel()
	all := []string{"a", "b", "c", "g1", "g2", "slow", "tinychat", "tinyembed"}
	loads := func(models ...string) func(*Report) { return func(r *Report) { r.Loading = models } }
	for name, c := range map[string]struct {
		questions []Question
		path      string
		want      Report
	}{
		"llamacpp-router-props.json":    {LlamaCpp, "/props", said(-1, -1, -1, -1, func(r *Report) { r.Room = 2 })},
		"llamacpp-router-models.json":   {LlamaCpp, "/models", said(-1, -1, -1, -1, has([]string{"b"}, nil), loads("a"))},
		"llamacpp-router-sleeping.json": {LlamaCpp, "/models", said(-1, -1, -1, -1, has(nil, []string{"a"}))},
		"llamaswap-ready.json":          {LlamaSwap, "/running", said(-1, -1, -1, -1, has([]string{"g1", "g2"}, nil))},
		"llamaswap-starting.json":       {LlamaSwap, "/running", said(-1, -1, -1, -1, has(nil, nil), loads("slow"))},
		"ollama-ps-one.json":            {Ollama, "/api/ps", said(-1, -1, -1, -1, has([]string{"tinyembed"}, nil), takes(map[string]int64{"tinyembed": 4162560}))},
	} {
		got, told := askFrom(c.questions, c.path, &Answer{Body: strings.NewReader(transcript(t, name)), Models: all})
		if !told || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v %+v, want %+v", name, told, got, c.want)
		}
	}
}

// TestWhatARealVLLMTold reads what vLLM 0.24 told after some hundred requests, without the buckets of
// its histograms: an idle engine that is awake, the size of its cache, and its work.
func TestWhatARealVLLMTold(t *testing.T) {
	t.Parallel()
	want := said(0, 0, 0, 70_400, from("1795034857", 3_625_000+22_575), has([]string{"m"}, nil))
	got, told := askFrom(VLLM, "/metrics", &Answer{Body: strings.NewReader(transcript(t, "vllm-0.24-metrics.txt")), Models: []string{"m"}})
	if !told || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %+v, want %+v", told, got, want)
	}
}

// TestWhatARealVLLMToldOfItsAdapters reads what vLLM 0.24 told after it had loaded three adapters with
// --max-loras 2 and answered for each: its metrics keep a line for each batch that there was, and its
// list has more than fit into one.
func TestWhatARealVLLMToldOfItsAdapters(t *testing.T) {
	t.Parallel()
	const lines = `# HELP vllm:lora_requests_info Running stats on lora requests.
# TYPE vllm:lora_requests_info gauge
vllm:lora_requests_info{max_lora="2",running_lora_adapters="",waiting_lora_adapters=""} 1.7950349612152474e+09
vllm:lora_requests_info{max_lora="2",running_lora_adapters="r1",waiting_lora_adapters="r1"} 1.7950349605789893e+09
vllm:lora_requests_info{max_lora="2",running_lora_adapters="r3",waiting_lora_adapters="r3"} 1.7950349612137349e+09
`
	got, _ := askFrom(VLLM, "/metrics", &Answer{Body: strings.NewReader(lines), Models: []string{"m"}})
	if got.AdapterRoom != 2 {
		t.Errorf("%d adapters in a batch", got.AdapterRoom)
	}
	paths := map[string]string{"r1": "/tmp/lora/l1", "r2": "/tmp/lora/moved", "r3": "/tmp/lora/l3", "r4": "/tmp/lora/l4"}
	got, told := askFrom(VLLM, "/v1/models", &Answer{Body: strings.NewReader(transcript(t, "vllm-0.24-models.json")), Adapters: paths})
	want := said(-1, -1, -1, -1, func(r *Report) {
		r.TellsAdapters, r.Adapters, r.Stale = true, []string{"r1", "r3"}, []string{"r2"}
	})
	if !told || !reflect.DeepEqual(got, want) {
		t.Errorf("%v %+v, want %+v", told, got, want)
	}
}
