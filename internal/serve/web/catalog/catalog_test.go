package catalog_test

import (
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestModelsInTheShapeOfOllamasAPI(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.EveryService(b))
	tags := gatewaytest.DecodeObject(t, r.Do("GET", "/ollama/api/tags", "").Succeeds(t).Body)
	if list, _ := tags["models"].([]any); len(list) != 1 || gatewaytest.At(t, tags, "models/0/name") != "m" {
		t.Errorf("%v", tags)
	}
	if ps := gatewaytest.DecodeObject(t, r.Do("GET", "/ollama/api/ps", "").Succeeds(t).Body); gatewaytest.At(t, ps, "models/0/model") != "m" {
		t.Errorf("%v", ps)
	}
	show := gatewaytest.DecodeObject(t, r.Do("POST", "/ollama/api/show", `{"model":"m:latest"}`).Succeeds(t).Body)
	if gatewaytest.At(t, show, "capabilities/0") != "completion" || gatewaytest.At(t, show, "capabilities/2") != "embedding" {
		t.Errorf("%v", show)
	}
	if version := gatewaytest.DecodeObject(t, r.Do("GET", "/ollama/api/version", "").Succeeds(t).Body); version["version"] == "" {
		t.Errorf("%v", version)
	}
}

// TestEveryListReportsTheLargestWindowThatACallerMayUse has a model with instances of several windows, an
// alias of it, a pattern, a fallback with a larger window, and a model without a window.
func TestEveryListReportsTheLargestWindowThatACallerMayUse(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	at := func(path string) string { return b.URL() + path }
	r := gatewaytest.Start(t, `
services:
  chat:
    health-check: {enabled: false}
    aliases: {fast: small, "claude-*": "s*"}
    fallbacks: {small: [large]}
    instances:
      - {name: small, base-url: "`+at("/a")+`", context-window: 16384, max-output-tokens: 4096}
      - {name: small, base-url: "`+at("/b")+`", context-window: 32768}
      - {name: small, base-url: "`+at("/c")+`", context-window: 65536, enabled: false}
      - {name: large, base-url: "`+at("/d")+`", context-window: 200000}
      - {name: listed, base-url: "`+at("/e")+`"}
      - {name: none, base-url: "`+at("/f")+`"}
prices: {models: [{model: listed, input: 1, max-input-tokens: 1000, max-output-tokens: 100}]}
security:
  enabled: true
  tokens: [{name: v, role: VIEWER, token-sha256: "`+gatewaytest.HashOf("viewer")+`"}]
  keys: [{id: k, key-sha256: "`+gatewaytest.HashOf("one")+`", instances: ["*/a"]}, {id: all, key-sha256: "`+gatewaytest.HashOf("all")+`"}]
`)
	all := []string{"Authorization", "Bearer all"}
	key := []string{"Authorization", "Bearer one"}
	viewer := []string{"Authorization", "Bearer viewer"}
	anthropic := []string{"Anthropic-Version", "2023-06-01", "X-Api-Key", "all"}
	google := []string{"X-Goog-Api-Key", "all"}
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		want               map[string]any // nil: the member is absent
	}{
		"the list":               {"GET", "/v1/models", "", all, map[string]any{"data/2/context_length": 1000.0, "data/2/max_output_tokens": 100.0}},
		"a model":                {"GET", "/v1/models/small", "", all, map[string]any{"context_length": 32768.0, "context_window": 32768.0, "max_model_len": 32768.0, "max_output_tokens": 4096.0}},
		"an alias":               {"GET", "/v1/models/fast", "", all, map[string]any{"id": "fast", "context_length": 32768.0}},
		"a pattern":              {"GET", "/v1/models/claude-mall", "", all, map[string]any{"id": "claude-mall", "context_length": 32768.0}},
		"a key for one":          {"GET", "/v1/models/small", "", key, map[string]any{"context_length": 16384.0}},
		"unknown":                {"GET", "/v1/models/none", "", all, map[string]any{"context_length": nil, "context_window": nil, "max_model_len": nil, "max_output_tokens": nil}},
		"management":             {"GET", "/api/models", "", viewer, map[string]any{"data/data/4/context_window": 32768.0, "data/data/4/max_model_len": 32768.0}},
		"Anthropic's list":       {"GET", "/v1/models", "", anthropic, map[string]any{"data/4/id": "small", "data/4/max_input_tokens": 32768.0, "data/4/max_tokens": 4096.0}},
		"Anthropic's model":      {"GET", "/v1/models/claude-mall", "", anthropic, map[string]any{"max_input_tokens": 32768.0}},
		"Gemini's list":          {"GET", "/v1beta/models", "", google, map[string]any{"models/4/inputTokenLimit": 32768.0, "models/4/outputTokenLimit": 4096.0}},
		"Gemini's model":         {"GET", "/v1beta/models/claude-mall", "", google, map[string]any{"inputTokenLimit": 32768.0}},
		"Ollama's model":         {"POST", "/ollama/api/show", `{"model":"claude-mall"}`, all, map[string]any{"model_info/general.architecture": "patchbay", "model_info/patchbay.context_length": 32768.0}},
		"Ollama's, unknown":      {"POST", "/ollama/api/show", `{"model":"none"}`, all, map[string]any{"model_info/patchbay.context_length": nil}},
		"what Ollama has loaded": {"GET", "/ollama/api/ps", "", all, map[string]any{"models/4/context_length": 32768.0}},
	} {
		body := r.Do(c.method, c.path, c.body, c.header...).Succeeds(t).Body
		got := gatewaytest.DecodeObject(t, body)
		for path, want := range c.want {
			if want == nil {
				if strings.Contains(body, `"`+path[strings.LastIndexByte(path, '/')+1:]+`"`) {
					t.Errorf("%s: got %s in %s, want none", name, path, body)
				}
			} else if have := gatewaytest.At(t, got, path); have != want {
				t.Errorf("%s: %s: got %v, want %v", name, path, have, want)
			}
		}
	}
}
