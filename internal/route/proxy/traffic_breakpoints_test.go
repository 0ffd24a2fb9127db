package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

func TestPromptsAreMarkedForTheCacheOfAnthropicsAPI(t *testing.T) {
	t.Parallel()
	messages := `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]`
	for name, c := range map[string]struct {
		adapter, settings, path string
		marks                   int
	}{
		"off":               {"anthropic", "none", "/v1/chat/completions", 0},
		"translated":        {"anthropic", "auto", "/v1/chat/completions", 2},
		"passed on":         {"anthropic", "auto", "/v1/messages", 2},
		"an API without it": {"openai", "auto", "/v1/chat/completions", 0},
	} {
		b := gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "adapter: "+c.adapter, "cache-breakpoints: "+c.settings)))
		r.Do(http.MethodPost, c.path, `{"model":"m","max_tokens":9,`+messages+`}`).Succeeds(t)
		if got := strings.Count(string(b.Requests()[0].Body), `"cache_control"`); got != c.marks {
			t.Errorf("%s: got %d marks in %s, want %d", name, got, b.Requests()[0].Body, c.marks)
		}
	}
}

// A prompt may be written to a cache whole, so budgets reserve its price there.
func TestReservationsUseThePriceOfWritingToACache(t *testing.T) {
	t.Parallel()
	for write, status := range map[string]int{"1": 200, "1000": 429} {
		b := gatewaytest.StartBackend(t)
		r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()))+
			fmt.Sprintf("prices: {models: [{model: m, input: 1, cache-write: %s}]}\n", write)+
			fmt.Sprintf("security: {enabled: true, keys: [{id: k, key-sha256: %s, budgets: {day: {cost: 0.001}}}]}\n", gatewaytest.HashOf("k")))
		reply := r.Do(http.MethodPost, "/v1/chat/completions", `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"`+strings.Repeat("ab ", 20)+`"}]}`, "Authorization", "Bearer k")
		if reply.Status != status {
			t.Errorf("cache-write %s: got %d %s, want %d", write, reply.Status, reply.Body, status)
		}
	}
}
