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
