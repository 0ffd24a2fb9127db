package gateway_test

import (
	"os"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// The first example of both READMEs serves all models of an Ollama, those for embeddings too.
func TestTheFirstExampleServesAllModelsOfOllama(t *testing.T) {
	t.Parallel()
	b, err := simulator.Start(simulator.Options{Models: []string{"m", "bge-m3"}, Kind: simulator.Ollama})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	for _, page := range []string{"README.md", "README.zh-CN.md"} {
		content, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		_, example, _ := strings.Cut(string(content), "```yaml\n")
		example, _, _ = strings.Cut(example, "```")
		if !strings.Contains(example, "models: discover") {
			t.Fatalf("%s: got\n%s\nwant the example that discovers", page, example)
		}
		r := gatewaytest.Start(t, strings.ReplaceAll(example, "http://127.0.0.1:11434", b.URL()))
		r.Chat(gatewaytest.PlainHi).Succeeds(t)
		r.Post("/v1/embeddings", `{"model":"bge-m3","input":"hi"}`).Succeeds(t)
	}
}
