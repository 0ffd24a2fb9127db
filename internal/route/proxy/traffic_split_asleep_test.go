package proxy_test

import (
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// startEmbedders starts a gateway with two engines that embed, both asleep and unable to answer
// until they are woken up, which takes a while.
func startEmbedders(t *testing.T, wake float64, more string) (*gatewaytest.Gateway, []*simulator.Backend) {
	t.Helper()
	backends := []*simulator.Backend{startEngine(t, simulator.VLLM, wake), startEngine(t, simulator.VLLM, wake)}
	r := gatewaytest.Start(t, splitYAML("embedding", "vllm", ", residency: {enabled: true}"+more, backends...))
	putToSleep(t, r, 0, 1)
	return r, backends
}

// putToSleep puts models of embedding to sleep, after it has made sure that they are in memory.
func putToSleep(t *testing.T, r *gatewaytest.Gateway, which ...int) {
	t.Helper()
	for _, n := range which {
		host := embedders(r)[n].Resident().Place().Host().Name()
		if err := r.Residency.Load(t.Context(), host, "m", residency.Settings{}); err != nil {
			t.Fatal(err)
		}
		if err := r.Residency.Sleep(t.Context(), host, "m"); err != nil {
			t.Fatal(err)
		}
	}
}

// A request that several instances could share wakes nobody up while one is awake, as a request
// that is not shared does.
func TestASplitRequestWakesNobodyWhileOneIsAwake(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"round-robin", "least-time"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			r, backends := startEmbedders(t, 0.3, ", load-balancer: "+strategy)
			body := `{"model":"m","input":` + texts(64) + `}`
			first := r.Post("/v1/embeddings", body).Succeeds(t)
			if first.Header.Get("X-Router-Wait-Ms") == "" {
				t.Error("the reply to the first request does not say that it waited")
			}
			for range 3 {
				if reply := r.Post("/v1/embeddings", body).Succeeds(t); reply.Header.Get("X-Router-Wait-Ms") != "" {
					t.Error("a request waited although an instance was awake")
				}
			}
			if a, b := backends[0].Engine().State(), backends[1].Engine().State(); a.IsAsleep == b.IsAsleep {
				t.Errorf("asleep are %t and %t", a.IsAsleep, b.IsAsleep)
			}
			// Where both are awake both get a piece.
			for n := range backends {
				if err := r.Residency.Load(t.Context(), embedders(r)[n].Resident().Place().Host().Name(), "m", residency.Settings{}); err != nil {
					t.Fatal(err)
				}
			}
			if got := r.Post("/v1/embeddings", body).Succeeds(t).Header.Get("X-Router-Attempts"); got != "2" {
				t.Errorf("%s calls where both are awake", got)
			}
		})
	}
}

// A request whose pieces wait for their models says how long it waited, and that time is not
// one in which backends worked.
func TestASplitRequestTellsHowLongItsPiecesWaited(t *testing.T) {
	t.Parallel()
	r, _ := startEmbedders(t, 1.5, "")
	var loading sync.WaitGroup
	defer loading.Wait()
	for n := range 2 {
		model := embedders(r)[n].Resident()
		loading.Go(func() {
			if err := r.Residency.Load(t.Context(), model.Place().Host().Name(), "m", residency.Settings{}); err != nil {
				t.Error(err)
			}
		})
		gatewaytest.Eventually(t, "the model is being loaded", func() bool { return model.Residence(time.Now()).State == "loading" })
	}
	reply := r.Post("/v1/embeddings", `{"model":"m","input":`+texts(64)+`}`).Succeeds(t)
	if reply.Header.Get("X-Router-Attempts") != "2" || reply.Header.Get("X-Router-Wait-Ms") == "" {
		t.Errorf("%s calls, a wait of %q ms", reply.Header.Get("X-Router-Attempts"), reply.Header.Get("X-Router-Wait-Ms"))
	}
	call := r.GetObject("/api/monitoring/calls?limit=1")
	held := gatewaytest.At(t, call, "calls/0/timeline/heldMs").(float64)
	queued := gatewaytest.At(t, call, "calls/0/timeline/queuedMs").(float64)
	upstream := gatewaytest.At(t, call, "calls/0/timeline/upstreamMs").(float64)
	end := gatewaytest.At(t, call, "calls/0/timeline/endMs").(float64)
	if held <= 0 || queued < held || held+upstream > end {
		t.Errorf("held for %v ms, queued for %v ms, upstream %v ms, all in %v ms", held, queued, upstream, end)
	}
}
