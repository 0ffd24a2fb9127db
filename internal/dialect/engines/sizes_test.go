package engines

import (
	"reflect"
	"testing"
)

// TestSizesOfModelsAreThoseInForceAtTheirEngine gives each engine the answers that its API documents, or
// that it gave when it was tried.
func TestSizesOfModelsAreThoseInForceAtTheirEngine(t *testing.T) {
	t.Parallel()
	window := func(n int64) map[string]Sizes { return map[string]Sizes{"m": {Window: n}} }
	for name, c := range map[string]struct {
		read    ReadSizes
		answers map[string]string
		want    map[string]Sizes
	}{
		"vLLM":                       {ListedSizes, map[string]string{"/v1/models": `{"object":"list","data":[{"id":"other","max_model_len":9},{"id":"m","owned_by":"vllm","root":"m","parent":null,"max_model_len":32768}]}`}, window(32768)},
		"SGLang":                     {ListedSizes, map[string]string{"/v1/models": `{"data":[{"id":"m","owned_by":"sglang","max_model_len":131072}]}`}, window(131072)},
		"Xinference":                 {ListedSizes, map[string]string{"/v1/models": `{"data":[{"id":"m","model_type":"LLM","context_length":40960}]}`}, window(40960)},
		"an embedding of Xinference": {ListedSizes, map[string]string{"/v1/models": `{"data":[{"id":"m","model_type":"embedding","dimensions":1024,"max_tokens":512}]}`}, window(512)},
		"Anthropic":                  {ListedSizes, map[string]string{"/v1/models": `{"data":[{"type":"model","id":"m","max_input_tokens":200000,"max_tokens":64000}]}`}, map[string]Sizes{"m": {200000, 64000}}},
		"Gemini":                     {GeminiSizes, map[string]string{"/v1beta/models": `{"models":[{"name":"models/m","inputTokenLimit":1048576,"outputTokenLimit":65536}]}`}, map[string]Sizes{"m": {1048576, 65536}}},
		"llama.cpp":                  {LlamaCppSizes, map[string]string{"/props": `{"total_slots":4,"default_generation_settings":{"n_ctx":4096}}`}, window(4096)},
		"llama.cpp's router": {LlamaCppSizes, map[string]string{"/props": `{"role":"router","max_instances":2}`,
			"/models":                       `{"data":[{"id":"m","status":{"value":"loaded"}},{"id":"z","status":{"value":"unloaded"}}]}`,
			"/props?autoload=false&model=m": `{"total_slots":1,"default_generation_settings":{"n_ctx":8192}}`}, window(8192)},
		"Ollama, in memory": {OllamaSizes, map[string]string{"/api/ps": `{"models":[{"name":"m:latest","context_length":4096}]}`,
			"/api/show": `{"parameters":"stop \"x\"\ntemperature 0.7","model_info":{"llama.context_length":131072}}`}, window(4096)},
		"Ollama, a parameter": {OllamaSizes, map[string]string{"/api/ps": `{"models":[{"name":"m:latest","context_length":4096}]}`,
			"/api/show": `{"parameters":"num_ctx                        16384\nnum_gpu 1","model_info":{"llama.context_length":131072}}`}, window(16384)},
		"Ollama, only trained":          {OllamaSizes, map[string]string{"/api/ps": `{"models":[]}`, "/api/show": `{"model_info":{"llama.context_length":131072}}`}, map[string]Sizes{}},
		"TEI":                           {TEISizes, map[string]string{"/info": `{"model_id":"BAAI/bge","max_concurrent_requests":512,"max_input_length":512}`}, window(512)},
		"LM Studio":                     {UnknownSizes, map[string]string{"/v1/models": `{"data":[{"id":"m","object":"model","owned_by":"organization_owner"}]}`, "/api/v0/models": `{"data":[{"id":"m","state":"loaded","max_context_length":131072,"loaded_context_length":8192}]}`}, window(8192)},
		"LM Studio, not loaded":         {UnknownSizes, map[string]string{"/v1/models": `{"data":[{"id":"m","object":"model","owned_by":"organization_owner"}]}`, "/api/v0/models": `{"data":[{"id":"m","state":"not-loaded","max_context_length":131072}]}`}, map[string]Sizes{}},
		"llama.cpp behind OpenAI's API": {UnknownSizes, map[string]string{"/v1/models": `{"data":[{"id":"m","owned_by":"llamacpp","meta":{"n_ctx_train":131072}}]}`, "/props": `{"total_slots":1,"default_generation_settings":{"n_ctx":2048}}`}, window(2048)},
		"Ollama behind OpenAI's API":    {UnknownSizes, map[string]string{"/v1/models": `{"data":[{"id":"m","owned_by":"library"}]}`, "/api/ps": `{"models":[{"name":"m","context_length":2048}]}`}, window(2048)},
		"another gateway":               {UnknownSizes, map[string]string{"/v1/models": `{"data":[{"id":"m","owned_by":"patchbay","context_length":1000,"max_output_tokens":100}]}`}, map[string]Sizes{"m": {1000, 100}}},
		"OpenAI itself":                 {UnknownSizes, map[string]string{"/v1/models": `{"data":[{"id":"m","object":"model","owned_by":"openai"}]}`}, nil},
		"odd numbers":                   {UnknownSizes, map[string]string{"/v1/models": `{"data":[{"id":"m","max_model_len":-1,"context_length":9223372036854775807,"context_window":"x"}]}`}, nil},
		"no answer":                     {UnknownSizes, nil, nil},
	} {
		got := c.read(func(path, post string) []byte {
			if (post != "") != (path == "/api/show") || post != "" && post != `{"model":"m"}` {
				t.Errorf("%s: posted %q to %s", name, post, path)
			}
			return []byte(c.answers[path])
		}, []string{"m"})
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
