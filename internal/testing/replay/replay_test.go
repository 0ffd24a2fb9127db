package replay_test

import (
	"math"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
	"github.com/patchbay-ai/patchbay/internal/testing/replay"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// few are three engines whose prefills make most of the work.
var few = fleettest.Engines{Number: 3, Spec: engine.Spec{Block: 128, Cache: 102_400, Token: 0.0005, Request: 0.05, Decode: 0.001, Width: 1}}

// scale makes tests short. What is asserted does not depend on times.
const scale = 0.002

// talks returns conversations for these engines, and the share of their tokens that could
// come from caches. Each request waits for the answer to the one before, of whatever
// conversation: so no engine ever has a queue, and where a request goes does not depend on
// how busy the machine is.
func talks(conversations, turns int) (requests []*fleettest.Request, bound float64) {
	all := fleettest.Talks(conversations, turns, few.Block, 0)
	bound = fleettest.Bound(all, few.Block, 0)
	for len(all) > 0 {
		requests = append(requests, all...)
		var next []*fleettest.Request
		for _, r := range all {
			if r.Next != nil {
				next = append(next, r.Next)
			}
			r.Outputs = 2
		}
		all = next
	}
	return inTurn(requests), bound
}

// inTurn makes each request wait for the one before.
func inTurn(requests []*fleettest.Request) []*fleettest.Request {
	for n, r := range requests {
		r.At, r.Next, r.Pause = 0, nil, 0
		if n > 0 {
			requests[n-1].Next = r
		}
	}
	return requests
}

// answered is what became of a workload, and what the engines counted.
type answered struct {
	fleettest.Figures
	engine.Totals
}

func (a answered) hit() float64 { return float64(a.Cached) / float64(a.Tokens) }

// fleetOf are engines behind a gateway.
type fleetOf struct {
	replay.Engines
	t        *testing.T
	url      string
	strategy string
	spec     fleettest.Engines
}

// behind starts engines and a gateway with a strategy.
func behind(t *testing.T, of fleettest.Engines, strategy string) fleetOf {
	t.Helper()
	engines := start(t, of, scale)
	g := gatewaytest.Start(t, replay.Service(strategy, "vllm", engines.URLs()))
	return fleetOf{engines, t, g.URL, strategy, of}
}

// send sends requests through the gateway, one after the other.
func (f fleetOf) send(requests []*fleettest.Request) answered {
	f.t.Helper()
	run := replay.Run{URL: f.url, Requests: inTurn(requests)[:1], Block: f.spec.Block, Scale: scale}
	figures, err := run.Do(f.t.Context())
	if err != nil {
		f.t.Errorf("%s: %d requests failed, the first with: %v", f.strategy, figures.Failed, err)
	}
	a := answered{figures, f.Totals()}
	f.t.Logf("%s: %d requests, hits %.1f %%, prefill %.1f s", f.strategy, a.Totals.Requests, 100*a.hit(), a.Prefill/scale)
	return a
}

// TestEnginesSeeTheBlocksOfTheWorkload sends a workload to one engine, whose cache then has
// exactly what the blocks of the requests have in common.
func TestEnginesSeeTheBlocksOfTheWorkload(t *testing.T) {
	t.Parallel()
	requests, bound := talks(10, 4)
	one := few
	one.Number = 1
	got := behind(t, one, "round_robin").send(requests)
	if got.Totals.Requests != 40 || got.Figures.Requests != 40 {
		t.Errorf("%d requests were sent, %d answered, want 40", got.Totals.Requests, got.Figures.Requests)
	}
	if math.Abs(got.hit()-bound) > 1e-9 {
		t.Errorf("%.3f %% of the tokens came from the cache, want %.3f %%", 100*got.hit(), 100*bound)
	}
}

func TestFailuresAreCounted(t *testing.T) {
	t.Parallel()
	requests, _ := talks(2, 2)
	for _, url := range []string{gatewaytest.Start(t, "").URL, simulator.DownURL} { // one knows no model, one is down
		run := replay.Run{URL: url, Requests: requests[:1], Block: few.Block, Scale: scale}
		if figures, err := run.Do(t.Context()); err == nil || figures.Failed != 4 || figures.Requests != 0 {
			t.Errorf("%d requests failed and %d were answered: %v", figures.Failed, figures.Requests, err)
		}
	}
}

// TestPrefillsAreSaved compares what engines have to do when conversations come through a
// gateway, by their own count.
// TestARunEndsWithinItsTime sends one request to an engine that never gets to its first token.
func TestARunEndsWithinItsTime(t *testing.T) {
	const within = 500 // of which a busy machine needs some to send the request
	slow := few
	slow.Vary([]float64{1e-6})
	requests, _ := talks(1, 2)
	run := replay.Run{URL: start(t, slow, scale).URLs()[0], Requests: requests[:1], Block: few.Block, Scale: scale, Within: within}
	figures, err := run.Do(t.Context())
	if err != nil {
		t.Error(err)
	}
	if figures.Requests != 1 || figures.Failed != 1 || figures.Mean < within/2 {
		t.Errorf("%+v: a request without a first token counts with the time that it waited", figures)
	}
	if !math.IsNaN(figures.Learned) {
		t.Errorf("%g s after five minutes that nobody waited for", figures.Learned)
	}
}

func TestPrefillsAreSaved(t *testing.T) {
	t.Parallel()
	requests, bound := talks(25, 6)
	t.Logf("at most %.1f %% of the tokens could come from caches", 100*bound)
	rr := behind(t, few, "round_robin").send(requests)
	lc := behind(t, few, "least_connections").send(requests)
	lt := behind(t, few, "least_time").send(requests)
	if lt.hit() < 0.95*bound {
		t.Errorf("%.1f %% of the tokens came from caches, of at most %.1f %%", 100*lt.hit(), 100*bound)
	}
	if least := min(rr.Prefill, lc.Prefill); lt.Prefill > 0.7*least {
		t.Errorf("engines worked for %.1f s, with another strategy %.1f s", lt.Prefill/scale, least/scale)
	}
}
