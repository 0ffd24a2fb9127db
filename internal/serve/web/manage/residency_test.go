package manage_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// resident is what the tests look at of a model that is kept.
type resident struct {
	Model     string `json:"model"`
	State     string `json:"state"`
	Failure   string `json:"failure"`
	Pinned    bool   `json:"pinned"`
	Loads     int64  `json:"loads"`
	Failures  int64  `json:"failures"`
	Refusals  int64  `json:"refusals"`
	Evictions int64  `json:"evictions"`
	LastUsed  string `json:"lastUsed"`
	Bytes     int64  `json:"bytes"`
	Group     string `json:"group"`
	Instances []struct {
		InstanceID string `json:"instanceId"`
		Pinned     bool   `json:"pinned"`
	} `json:"instances"`
}

// startResidents starts an Ollama with room for one model of two, and a gateway that keeps
// them.
func startResidents(t *testing.T) (*gatewaytest.Gateway, *simulator.Backend) {
	t.Helper()
	b, err := simulator.Start(simulator.Options{
		Kind: simulator.Ollama, Models: []string{"m", "n"},
		Engine: &engine.Spec{Block: 16, Cache: 1600, Room: 1, Load: 0.01, Size: 5_000_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return gatewaytest.Start(t, gatewaytest.PolicyYAML("residency: {enabled: true, room: 1}, health-check: {interval: 1s}",
		gatewaytest.Instance("m", b.URL(), "adapter: ollama"), gatewaytest.Instance("n", b.URL(), "adapter: ollama"))), b
}

func residents(t *testing.T, r *gatewaytest.Gateway) map[string]resident {
	t.Helper()
	found := map[string]resident{}
	for _, one := range gatewaytest.DataOf[[]resident](t, r.API(http.MethodGet, "/api/models/residency", "").Is(t, 200)) {
		found[one.Model] = one
	}
	return found
}

// TestModelsAreLoadedPutToSleepAndPinnedByHand does with two models what an operator can.
func TestModelsAreLoadedPutToSleepAndPinnedByHand(t *testing.T) {
	t.Parallel()
	r, b := startResidents(t)
	move := func(what, model string) gatewaytest.ManagementReply {
		return r.API(http.MethodPost, "/api/config/instance/"+what+"/chat", fmt.Sprintf(`{"instanceId":"%s@%s"}`, model, b.URL()))
	}
	if all := residents(t, r); len(all) != 2 || len(all["m"].Instances) != 1 || all["m"].Instances[0].InstanceID != "m@"+b.URL() {
		t.Fatalf("%+v", all)
	}
	move("load", "m").Is(t, 200, "The model is in memory.", `"state":"loaded"`)
	if s := b.Engine().State(); len(s.Models) != 1 || s.Models[0] != "m" {
		t.Errorf("the server has %v", s.Models)
	}
	move("load", "n").Is(t, 200, `"state":"loaded"`)
	if all := residents(t, r); all["m"].State != "absent" || all["m"].Evictions != 1 || all["m"].Loads != 1 || all["n"].State != "loaded" {
		t.Errorf("after the second was loaded: %+v", all)
	}
	move("sleep", "n").Is(t, 200, "The model is not in memory.")
	if s := b.Engine().State(); len(s.Models) != 0 {
		t.Errorf("the server has %v", s.Models)
	}
	if reply := r.Chat(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`); reply.Status != 200 {
		t.Fatalf("%d %s", reply.Status, reply.Body)
	}
	version := r.Control.Version()
	r.API(http.MethodPut, "/api/config/instance/update/chat", fmt.Sprintf(`{"instanceId":"m@%s","instance":{"pinned":true}}`, b.URL())).Is(t, 200)
	if all := residents(t, r); r.Control.Version() != version+1 || !all["m"].Pinned || !all["m"].Instances[0].Pinned || all["m"].LastUsed == "" {
		t.Errorf("version %d: %+v", r.Control.Version(), all["m"])
	}
	move("sleep", "m").Is(t, 400, "pinned")
	move("load", "n").Is(t, 400, "pinned")
	if n := residents(t, r)["n"]; n.Refusals != 1 || n.Failures != 0 {
		t.Errorf("a load for which there is no room: %+v", n)
	}
	gatewaytest.Eventually(t, "the server has told how much memory the model takes", func() bool { return residents(t, r)["m"].Bytes == 5_000_000 })
	if scrape := r.Scrape(); scrape[fmt.Sprintf(`model_router_model_loads_total{host=%q,model="m"}`, b.URL())] != 2 {
		for name, value := range scrape {
			if strings.HasPrefix(name, "model_router_model_") {
				t.Errorf("%s %g", name, value)
			}
		}
	}
}

// TestWhatCannotBeLoadedSaysWhy asks for models that are not there, not kept or broken.
func TestWhatCannotBeLoadedSaysWhy(t *testing.T) {
	t.Parallel()
	r, b := startResidents(t)
	load := func(body string) gatewaytest.ManagementReply {
		return r.API(http.MethodPost, "/api/config/instance/load/chat", body)
	}
	load(`{}`).Is(t, 400, "instanceId")
	load(`{"instanceId":"x@http://nowhere"}`).Is(t, 404)
	r.API(http.MethodPost, "/api/config/instance/sleep/nothing", `{"instanceId":"m"}`).Is(t, 400)
	b.Engine().SetFault(engine.Fails)
	load(fmt.Sprintf(`{"instanceId":"m@%s"}`, b.URL())).Is(t, 502, "failed to load")
	if m := residents(t, r)["m"]; m.State == "loaded" || m.Failures != 1 || m.Failure == "" {
		t.Errorf("%+v", m)
	}
	r.API(http.MethodPost, "/api/config/instance/load/chat?dryRun=true", fmt.Sprintf(`{"instanceId":"m@%s"}`, b.URL())).Is(t, 200, "Dry run")
	without := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())))
	without.API(http.MethodPost, "/api/config/instance/load/chat", fmt.Sprintf(`{"instanceId":"m@%s"}`, b.URL())).Is(t, 400, "residency.enabled")
	if all := residents(t, without); len(all) != 0 {
		t.Errorf("%+v", all)
	}
}

// TestGroupsOfModelsAreTold lists a model of a group and one of none.
func TestGroupsOfModelsAreTold(t *testing.T) {
	t.Parallel()
	start := func() string {
		b, err := simulator.Start(simulator.Options{Kind: simulator.VLLM, Engine: &engine.Spec{Block: 16, Cache: 1600}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b.URL()
	}
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("residency: {enabled: true}",
		gatewaytest.Instance("m", start(), "adapter: vllm, residency: {group: gpu0}"), gatewaytest.Instance("n", start(), "adapter: vllm")))
	if all := residents(t, r); len(all) != 2 || all["m"].Group != "gpu0" || all["n"].Group != "" {
		t.Errorf("%+v", all)
	}
}
