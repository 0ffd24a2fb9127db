package v1_test

import (
	"net/http"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

func TestAzureDeployments(t *testing.T) {
	t.Parallel()
	b, err := simulator.Start(simulator.Options{Record: true, Key: "k", Models: []string{"eu"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	azure := func(name, url string, more ...string) string {
		return gatewaytest.Instance(name, url, append(more, "adapter: azure", "api-key: k")...)
	}
	r := gatewaytest.Start(t, "services: {"+
		gatewaytest.ServiceEntry("chat", azure("m", b.URL(), "upstream-model: eu"), azure("v1", b.URL()+"/openai/v1", "upstream-model: eu"),
			azure("preview", b.URL()+"/openai", "upstream-model: eu", "api-version: 2025-04-01-preview"), azure("missing", b.URL()))+",\n"+
		gatewaytest.ServiceEntry("stt", azure("m", b.URL(), "upstream-model: eu"))+"}\n")
	for model, want := range map[string]string{
		"m":       "/openai/deployments/eu/chat/completions?api-version=2024-10-21",
		"v1":      "/openai/v1/chat/completions",
		"preview": "/openai/deployments/eu/chat/completions?api-version=2025-04-01-preview",
	} {
		got := decode[completion](t, r.Chat(`{"model":"`+model+`","messages":[{"role":"user","content":"hi"}]}`))
		seen := b.Requests()
		last := seen[len(seen)-1]
		if got.Model != model || last.Path != want || last.Header.Get("Api-Key") != "k" || last.Header.Get("Authorization") != "" {
			t.Errorf("%s: %s with %v gave %+v", model, last.Path, last.Header, got)
		}
	}
	if reply := r.Chat(`{"model":"missing","messages":[{"role":"user","content":"hi"}]}`); reply.Status != http.StatusNotFound {
		t.Errorf("a deployment that is missing: %d %s", reply.Status, reply.Body)
	}
	r.PostForm("/v1/audio/transcriptions", gatewaytest.Part{Name: "model", Value: "m"}, gatewaytest.Part{Name: "file", Filename: "a.wav", Value: "RIFF"}).Succeeds(t)
	seen := b.Requests()
	if got := seen[len(seen)-1].Path; got != "/openai/deployments/eu/audio/transcriptions?api-version=2024-10-21" {
		t.Errorf("a transcription went to %s", got)
	}
}
