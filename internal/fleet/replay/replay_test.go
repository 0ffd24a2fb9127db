package replay_test

import (
	"math"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/fleet/fleettest"
	"github.com/patchbay-ai/patchbay/internal/fleet/replay"
	"github.com/patchbay-ai/patchbay/internal/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/simulator"
	"github.com/patchbay-ai/patchbay/internal/simulator/engine"
)

// few are three engines whose prefills make most of the work.
var few = fleettest.Engines{Number: 3, Spec: engine.Spec{Block: 128, Cache: 100_000, Token: 0.0005, Request: 0.05, Decode: 0.001, Width: 1}}

// scale makes a test take seconds.
const scale = 0.02

// talks returns conversations for these engines, and the share of their tokens that could
// come from caches.
func talks(conversations, turns int) (requests []*fleettest.Request, bound float64) {
	requests = fleettest.Talks(conversations, turns, few.Block, 20)
	return requests, fleettest.Bound(requests, few.Block, 0)
}

// answered is what became of a workload, and what the engines counted.
type answered struct {
	fleettest.Figures
	engine.Totals
}

func (a answered) hit() float64 { return float64(a.Cached) / float64(a.Tokens) }

// send starts engines and a gateway, and sends the requests through it.
func send(t *testing.T, of fleettest.Engines, strategy string, requests []*fleettest.Request) answered {
	t.Helper()
	engines, err := replay.StartEngines(of, simulator.VLLM, scale)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engines.Close)
	g := gatewaytest.Start(t, replay.Service(strategy, "vllm", engines.URLs()))
	run := replay.Run{URL: g.URL, Requests: requests, Block: few.Block, Scale: scale}
	figures, err := run.Do(t.Context())
	if err != nil {
		t.Errorf("%s: %d requests failed, the first with: %v", strategy, figures.Failed, err)
	}
	a := answered{figures, engines.Totals()}
	t.Logf("%-18s %d requests, hits %.1f %%, prefill %.1f s, mean %.3f s", strategy, a.Totals.Requests, 100*a.hit(), a.Prefill/scale, a.Mean)
	return a
}

// TestEnginesSeeTheBlocksOfTheWorkload sends a workload to one engine, whose cache then has
// exactly what the blocks of the requests have in common.
func TestEnginesSeeTheBlocksOfTheWorkload(t *testing.T) {
	requests, bound := talks(10, 4)
	one := few
	one.Number = 1
	got := send(t, one, "round_robin", requests)
	if got.Totals.Requests != 40 || got.Figures.Requests != 40 {
		t.Errorf("%d requests were sent, %d answered, want 40", got.Totals.Requests, got.Figures.Requests)
	}
	if math.Abs(got.hit()-bound) > 1e-9 {
		t.Errorf("%.3f %% of the tokens came from the cache, want %.3f %%", 100*got.hit(), 100*bound)
	}
}

func TestFailuresAreCounted(t *testing.T) {
	requests, _ := talks(2, 2)
	for _, url := range []string{gatewaytest.Start(t, "").URL, simulator.DownURL} { // one knows no model, one is down
		run := replay.Run{URL: url, Requests: requests, Block: few.Block, Scale: 0.001}
		if figures, err := run.Do(t.Context()); err == nil || figures.Failed != 4 || figures.Requests != 0 {
			t.Errorf("%d requests failed and %d were answered: %v", figures.Failed, figures.Requests, err)
		}
	}
}
