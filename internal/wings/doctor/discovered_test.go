package doctor_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// An instance whose models are discovered is judged like any other, whatever its adapter
// and whether or not its backend is there.
func TestInstancesThatDiscoverTheirModelsAreJudged(t *testing.T) {
	t.Parallel()
	good, err := simulator.Start(simulator.Options{Models: []string{"m", "big"}})
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	for _, adapter := range []string{"openai", "vllm", "ollama"} {
		for _, models := range []string{"discover", "[m*, 'b*']"} {
			service := func(url string) string {
				return free + "services: {chat: {adapter: " + adapter + ", instances: [{models: " + models + ", base-url: '" + url + "'}]}}\n"
			}
			has(t, examine(t, service(good.URL()), nil), "ok backend "+good.URL()+":", "has 2 models")
			has(t, examine(t, service(simulator.DownURL), nil), "fail backend "+simulator.DownURL+":", "refused")
		}
	}
}

func TestABackendThatListsNoneOfTheModelsIsWarnedOf(t *testing.T) {
	t.Parallel()
	empty := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"data":[]}`)) }))
	defer empty.Close()
	lines := examine(t, free+"services: {chat: {instances: [{models: [qwen*, llama*], base-url: '"+empty.URL+"'}]}}\n", nil)
	has(t, lines, "warn backend "+empty.URL+":", "lists no model that qwen*, llama* stands for")
}

// Azure lists what could be deployed, so that only whether it answers is judged.
func TestBackendsWithDeploymentsAreCalled(t *testing.T) {
	t.Parallel()
	there := httptest.NewServer(http.NotFoundHandler())
	defer there.Close()
	const service = "services: {chat: {adapter: azure, instances: [{name: gpt, upstream-model: gpt-eu, api-key: k, base-url: '"
	has(t, examine(t, free+service+there.URL+"'}]}}\n", nil), "ok backend "+there.URL+":", "no list of models")
	has(t, examine(t, free+service+simulator.DownURL+"'}]}}\n", nil), "fail backend "+simulator.DownURL+":", "refused")
}

// An engine whose model has LoRA adapters in the file is asked whether it takes them, and loads none.
func TestEnginesOfAdaptersAreAskedWhetherTheyTakeThem(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("../loras"); err != nil {
		t.Skip("this tree has no LoRA adapters (make without)")
	}
	for _, adapters := range []*simulator.Adapters{{Missing: []string{"/patchbay-doctor/there/is/no/such/adapter"}}, {}, {IsOff: true}, nil} {
		b, err := simulator.Start(simulator.Options{
			Models: []string{"m"}, Kind: simulator.VLLM, Engine: &engine.Spec{Block: 16, Cache: 1600}, Adapters: adapters,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		for _, base := range []string{"", "/v1"} {
			lines := examine(t, free+"services: {chat: {adapter: vllm, instances: [{name: m, base-url: '"+b.URL()+base+
				"'}]}}\nloras: {adapters: {l: {base: m, path: /l}}}\n", nil)
			level, want := "ok", "takes LoRA adapters while it runs"
			if adapters == nil || adapters.IsOff {
				level, want = "warn", "takes no LoRA adapters while it runs"
			}
			has(t, lines, fmt.Sprintf("%s backend %s:", level, b.URL()+base), want)
		}
		if loaded := b.AdapterState().Loaded; len(loaded) > 0 {
			t.Errorf("it was loaded: %v", loaded)
		}
	}
}
