package replay_test

import (
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/testing/replay"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// TestEveryKindOfEngineIsUnderstood has engines that tell about themselves in different
// shapes. The gateway learns what each of them tells, and uses all of them equally well.
func TestEveryKindOfEngineIsUnderstood(t *testing.T) {
	t.Parallel()
	tellsSize := func(p fleet.Picture) bool { return p.IsTold && p.Told.Capacity == float64(few.Cache) }
	for adapter, row := range map[string]struct {
		kind  simulator.Kind
		knows func(fleet.Picture) bool
	}{
		"vllm":     {simulator.VLLM, tellsSize},
		"llamacpp": {simulator.LlamaCpp, tellsSize},
		"ollama":   {simulator.Ollama, func(p fleet.Picture) bool { return p.State == "loaded" || p.State == "absent" }},
	} {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			engines, err := replay.StartEngines(few, row.kind, scale)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(engines.Close)
			var list []string
			for _, url := range engines.URLs() {
				list = append(list, gatewaytest.Instance("m", url, "adapter: "+adapter))
			}
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML("load-balancer: least-time, health-check: {interval: 1s}", list...))
			talk, bound := talks(10, 5)
			got := fleetOf{engines, t, r.URL, "least_time", few}.send(talk)
			if got.hit() < 0.9*bound {
				t.Errorf("%.1f %% of the tokens came from caches, of at most %.1f %%", 100*got.hit(), 100*bound)
			}
			gatewaytest.Eventually(t, "the gateway knows what engines tell", func() bool {
				for _, p := range r.Fleet.Pictures(time.Now()) {
					if !row.knows(p) {
						return false
					}
				}
				return true
			})
		})
	}
}
