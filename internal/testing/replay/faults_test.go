package replay_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/testing/fleettest"
	"github.com/patchbay-ai/patchbay/internal/testing/replay"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// start starts engines of a kind at a time scale.
func start(t *testing.T, of fleettest.Engines, at float64) replay.Engines {
	t.Helper()
	engines, err := replay.StartEngines(of, simulator.VLLM, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engines.Close)
	return engines
}

// pool is a configuration in which engines serve the model m by least time. Each has the
// settings of its number, if there are any.
func pool(engines replay.Engines, policy string, settings map[int]string) string {
	var list []string
	for n, url := range engines.URLs() {
		more := []string{"adapter: vllm"}
		if settings[n] != "" {
			more = append(more, settings[n])
		}
		list = append(list, gatewaytest.Instance("m", url, more...))
	}
	return gatewaytest.PolicyYAML("load-balancer: least-time, "+policy, list...)
}

// chat is a request whose prompt begins with a text of a kilobyte, and asks for two tokens.
func chat(prefix, question string) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":2,"ignore_eos":true,"messages":[{"role":"system","content":%q},{"role":"user","content":%q}]}`,
		strings.Repeat(prefix+" ", 2000/(len(prefix)+1)), question)
}

// home sends requests with a prefix until an engine has it, and returns which.
func home(t *testing.T, r *gatewaytest.Gateway, engines replay.Engines, prefix string) int {
	t.Helper()
	before := requests(engines)
	r.Chat(chat(prefix, "first")).Succeeds(t)
	for n, after := range requests(engines) {
		if after > before[n] {
			return n
		}
	}
	t.Fatal("no engine has got the request")
	return 0
}

// requests returns how many requests each engine has read.
func requests(engines replay.Engines) (counts []int) {
	for _, b := range engines {
		counts = append(counts, b.Engine().State().Requests)
	}
	return counts
}

// TestNothingIsPickedThatOthersWouldNotPick has a prompt cached at one instance, which then
// cannot be picked for one reason or another.
func TestNothingIsPickedThatOthersWouldNotPick(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		policy  string
		setting string // of the instance that has the prompt
		fault   *simulator.Step
	}{
		"disabled":              {gatewaytest.NoBreakerNoChecks, "enabled: false", nil},
		"of a lower tier":       {gatewaytest.NoBreakerNoChecks, "tier: 1", nil},
		"open breaker":          {gatewaytest.NoChecks + ", circuit-breaker: {failure-threshold: 1, recovery-timeout: 1h}", "", &simulator.Step{Status: 500}},
		"does not pass a check": {gatewaytest.NoBreaker + ", health-check: {interval: 1s, unhealthy-threshold: 1}", "", &simulator.Step{Status: 500}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engines := start(t, few, 0.001)
			r := gatewaytest.Start(t, pool(engines, row.policy, nil))
			cached := home(t, r, engines, "shared")
			switch {
			case row.fault != nil:
				engines[cached].ScriptForever(*row.fault)
				engines[cached].SetProbe(*row.fault)
				r.Chat(chat("shared", "is noticed")).Succeeds(t)
				gatewaytest.Eventually(t, "the instance is left", func() bool {
					return r.Instances("m")[cached].Obstacle(time.Now()) != backend.NoObstacle
				})
			default:
				r.ReloadWith(pool(engines, row.policy, map[int]string{cached: row.setting}))
			}
			before := engines[cached].Stats().Arrived
			for n := range 10 {
				r.Chat(chat("shared", fmt.Sprint("question ", n))).Succeeds(t)
			}
			if got := engines[cached].Stats().Arrived - before; got != 0 {
				t.Errorf("it got %d of 10 requests", got)
			}
		})
	}
}

// TestFullInstanceIsPassedOver has a prompt cached at an instance all of whose places are
// taken: nobody waits for it while others are free.
func TestFullInstanceIsPassedOver(t *testing.T) {
	t.Parallel()
	engines := start(t, few, 0.001)
	places := map[int]string{0: "max-concurrency: 1", 1: "max-concurrency: 1", 2: "max-concurrency: 1"}
	r := gatewaytest.Start(t, pool(engines, gatewaytest.NoBreakerNoChecks, places))
	cached := home(t, r, engines, "shared")
	engines[cached].Script(simulator.Step{Hang: true})
	ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
	held := r.ChatLater(ctx, chat("shared", "hangs"))
	if err := engines[cached].WaitRequests(gatewaytest.Deadline(t), 2); err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		r.Chat(chat("shared", fmt.Sprint("question ", n))).Succeeds(t)
	}
	if got := engines[cached].Stats().Arrived; got != 2 {
		t.Errorf("it got %d requests more than it has places", got-2)
	}
	leave()
	<-held
}

// TestDeadInstanceCostsOnlyItsCache lets an engine die in the middle of conversations and
// come back with nothing in its cache.
func TestDeadInstanceCostsOnlyItsCache(t *testing.T) {
	t.Parallel()
	f := behind(t, few, "least_time")
	talk, bound := talks(12, 9)
	part := len(talk) / 3
	f.send(talk[:part])
	alive, before := f.Totals(), requests(f.Engines)
	dead := slices.Index(before, slices.Max(before))
	f.Engines[dead].SetDown(true)
	f.Engines[dead].Engine().Restart()
	f.send(talk[part : 2*part])
	if requests(f.Engines)[dead] != before[dead] {
		t.Error("an engine that is down has read a request")
	}
	f.Engines[dead].SetDown(false)
	got := f.send(talk[2*part:])
	// The others read what it had once more, and no prompt twice after that.
	lost := float64(alive.Tokens-alive.Cached) / float64(got.Tokens)
	if got.hit() < 0.95*(bound-lost) {
		t.Errorf("%.1f %% of the tokens came from caches, of at most %.1f %% and at least %.1f %%", 100*got.hit(), 100*bound, 100*(bound-lost))
	}
}

// TestEmptyInstanceIsNoticed empties the cache of an engine that had a prompt, which the
// gateway can only learn from answers.
func TestEmptyInstanceIsNoticed(t *testing.T) {
	t.Parallel()
	engines := start(t, few, scale)
	r := gatewaytest.Start(t, pool(engines, gatewaytest.NoBreakerNoChecks, nil))
	at := home(t, r, engines, "shared")
	engines[at].Engine().Restart()
	for n := range 10 {
		r.Chat(chat("shared", fmt.Sprint("question ", n))).Succeeds(t)
	}
	if s := engines.Totals(); s.Cached < s.Tokens/2 {
		t.Errorf("of %d tokens %d came from caches", s.Tokens, s.Cached)
	}
}

// TestInstanceThatSlowsDownGetsLess lets an engine become ten times slower.
func TestInstanceThatSlowsDownGetsLess(t *testing.T) {
	t.Parallel()
	engines := start(t, few, 0.5) // a prefill takes some 100 ms, or a second: more than a busy machine adds
	r := gatewaytest.Start(t, pool(engines, gatewaytest.NoBreakerNoChecks, nil))
	question := 0
	var mu sync.Mutex
	ask := func(count int) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range count / 4 {
					mu.Lock()
					question++
					prompt := fmt.Sprint("alone", question)
					mu.Unlock()
					r.Chat(chat(prompt, "and?")).Succeeds(t)
				}
			})
		}
		all.Wait()
	}
	ask(12)
	engines[0].Engine().Slow(10)
	ask(12) // show it
	before := requests(engines)
	ask(40)
	after := requests(engines)
	slow, others := after[0]-before[0], min(after[1]-before[1], after[2]-before[2])
	t.Logf("the slow engine got %d of 40 requests, another one %d", slow, others)
	if slow >= others {
		t.Errorf("the slow engine got %d of 40 requests, another one only %d", slow, others)
	}
}

// TestFloodDoesNotWashOutConversations sends five prompts that share nothing after each turn
// of conversations.
func TestFloodDoesNotWashOutConversations(t *testing.T) {
	t.Parallel()
	talk, bound := talks(12, 6)
	tokens := 0
	var all []*fleettest.Request
	for _, r := range talk {
		tokens += r.Tokens
		all = append(all, r)
		for range 5 {
			all = append(all, &fleettest.Request{Tokens: 400, Outputs: 1, Model: "m"})
		}
	}
	got := float64(behind(t, few, "least_time").send(all).Cached) / float64(tokens)
	if got < 0.95*bound {
		t.Errorf("%.1f %% of the conversations' tokens came from caches, of at most %.1f %%", 100*got, 100*bound)
	}
}

// TestLiesOfEnginesCostNothing lets all engines tell what cannot be.
func TestLiesOfEnginesCostNothing(t *testing.T) {
	t.Parallel()
	for _, lie := range []simulator.Lie{{Number: "NaN"}, {Number: "-5"}, {Number: "1e18"}, {Model: "other"}} {
		t.Run(fmt.Sprint(lie), func(t *testing.T) {
			t.Parallel()
			engines := start(t, few, scale)
			for _, b := range engines {
				b.Lie(&lie)
			}
			r := gatewaytest.Start(t, pool(engines, "health-check: {interval: 1s}", nil))
			for _, b := range engines {
				if err := b.WaitProbes(gatewaytest.Deadline(t), 2); err != nil {
					t.Fatal(err)
				}
			}
			talk, bound := talks(12, 4)
			got := fleetOf{engines, t, r.URL, "least_time", few}.send(talk)
			if got.hit() < 0.95*bound {
				t.Errorf("%.1f %% of the tokens came from caches, of at most %.1f %%", 100*got.hit(), 100*bound)
			}
		})
	}
}
