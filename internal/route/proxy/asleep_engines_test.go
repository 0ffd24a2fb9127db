package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
	"github.com/patchbay-ai/patchbay/internal/testing/waittest"
)

// startVLLM starts a vLLM that wakes up within some seconds.
func startVLLM(t *testing.T, wakes float64, edit func(*simulator.Options)) *simulator.Backend {
	t.Helper()
	options := simulator.Options{
		Models: []string{"m"}, Kind: simulator.VLLM,
		Engine: &engine.Spec{Block: 16, Cache: 100_000, Request: 0.001, Decode: 0.0001, Wake: wakes},
	}
	if edit != nil {
		edit(&options)
	}
	b, err := simulator.Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// awaitStates waits until the models at the hosts are in these states.
func awaitStates(t *testing.T, r *gatewaytest.Gateway, want map[string]string) {
	t.Helper()
	waittest.Eventually(t, "the models are where they are", func() bool {
		found := 0
		for _, s := range r.Residency.States(time.Now()) {
			if want[s.Host+" "+s.Model] == s.State {
				found++
			}
		}
		return found == len(want)
	})
}

// An engine without a sleep mode does not sleep, from the first request on.
func TestAVLLMWithoutASleepModeIsAwake(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"round-robin", "least-time"} {
		b := startVLLM(t, 1, func(o *simulator.Options) { o.Sleepless = true })
		yaml := strings.Replace(sleepyYAML("vllm", ", sleep-after: 1s", onlyM, b), "residency:", "load-balancer: "+strategy+", residency:", 1)
		r := gatewaytest.Start(t, yaml)
		for range 5 {
			r.Chat(say("m")).Succeeds(t)
		}
		if s := r.Residency.States(time.Now()); s[0].State != "loaded" || s[0].Counts.Failures != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// What engines tell first after a start of the gateway is believed: a model that is in memory
// somewhere is not loaded elsewhere.
func TestTheFirstAnswersOfEnginesAreBelieved(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"round-robin", "least-time"} {
		t.Run("ollama "+strategy, func(t *testing.T) {
			t.Parallel()
			a, b := startEngine(t, simulator.Ollama, 0.2), startEngine(t, simulator.Ollama, 0.2)
			<-b.Engine().Add(&engine.Job{Model: "m", LoadOnly: true})
			yaml := strings.Replace(sleepyYAML("ollama", "", onlyM, a, b), "residency:", "load-balancer: "+strategy+", residency:", 1)
			r := gatewaytest.Start(t, yaml)
			awaitStates(t, r, map[string]string{a.URL() + " m": "absent", b.URL() + " m": "loaded"})
			for range 6 {
				r.Chat(say("m")).Succeeds(t)
			}
			if loads := a.Engine().State().Loads; loads != 0 {
				t.Errorf("loaded %d times on the other host", loads)
			}
		})
		t.Run("vllm "+strategy, func(t *testing.T) {
			t.Parallel()
			a, b := startVLLM(t, 0.2, nil), startVLLM(t, 0.2, nil)
			a.Engine().Sleep(1)
			yaml := strings.Replace(sleepyYAML("vllm", "", onlyM, a, b), "residency:", "load-balancer: "+strategy+", residency:", 1)
			r := gatewaytest.Start(t, yaml)
			awaitStates(t, r, map[string]string{a.URL() + " m": "sleeping", b.URL() + " m": "loaded"})
			for range 6 {
				r.Chat(say("m")).Succeeds(t)
			}
			if wakes := a.Engine().State().Wakes; wakes != 0 {
				t.Errorf("the sleeper was woken up %d times", wakes)
			}
		})
	}
}

// A server whose model could not be woken up is unhealthy, whatever its own health check says,
// until its model is awake.
func TestAServerWhoseWakeFailedIsUnhealthyUntilItIsAwake(t *testing.T) {
	t.Parallel()
	b := startVLLM(t, 0.05, nil)
	b.Engine().Sleep(1)
	b.Engine().SetFault(engine.Fails)
	r := gatewaytest.Start(t, sleepyYAML("vllm", "", onlyM, b))
	i := r.Instances("m")[0]
	waittest.Eventually(t, "the instance is healthy", func() bool { return i.Health.Snapshot().Status == backend.StatusHealthy })
	if reply := r.Chat(say("m")); reply.Status != http.StatusServiceUnavailable {
		t.Fatalf("%d %s", reply.Status, reply.Body)
	}
	checked := i.Health.Snapshot().LastCheck
	waittest.Eventually(t, "it was checked again", func() bool { return i.Health.Snapshot().LastCheck.After(checked) })
	if s := i.Health.Snapshot(); s.Status != backend.StatusUnhealthy || s.Cause != "wake_failed" || !i.Health.Out() {
		t.Errorf("%+v, out %t", s, i.Health.Out())
	}
	if why := i.Health.Reason().String(); !strings.Contains(why, "could not be woken up") {
		t.Errorf("the reason is %q", why)
	}
	b.Engine().SetFault(engine.Works)
	b.Engine().Restart()
	waittest.Eventually(t, "the instance is healthy again", func() bool { return i.Health.Snapshot().Status == backend.StatusHealthy })
	r.Chat(say("m")).Succeeds(t)
}

// A vLLM that somebody else has put to sleep holds requests. It is woken up for them.
func TestARequestAtAnEngineThatSomebodyElsePutToSleepIsAnswered(t *testing.T) {
	t.Parallel()
	b := startVLLM(t, 0.05, nil)
	r := gatewaytest.Start(t, sleepyYAML("vllm", "", onlyM, b))
	r.Chat(say("m")).Succeeds(t)
	b.Engine().Sleep(1)
	r.Chat(say("m")).Succeeds(t)
	if n := b.Engine().State().Wakes; n != 1 {
		t.Errorf("woken up %d times", n)
	}
}

// Servers of one group share a GPU, whatever their addresses and service types: one sleeps
// before another wakes up.
func TestServersOfAGroupOverServiceTypesAreAwakeInTurns(t *testing.T) {
	t.Parallel()
	a, b := startVLLM(t, 0.05, nil), startVLLM(t, 0.05, nil)
	b.Engine().Sleep(1)
	service := func(name, url, group string) string {
		return fmt.Sprintf("  %s: {adapter: vllm, residency: {enabled: true}, instances: [{name: m, base-url: %q, residency: {group: %q}}]}\n", name, url, group)
	}
	r := gatewaytest.Start(t, "services:\n"+service("chat", a.URL(), "gpu0")+service("embedding", b.URL(), "gpu0"))
	awake := func() [2]bool { return [2]bool{!a.Engine().State().IsAsleep, !b.Engine().State().IsAsleep} }
	for n := range 6 {
		path, body, want := "/v1/chat/completions", say("m"), [2]bool{true, false}
		if n%2 == 1 {
			path, body, want = "/v1/embeddings", `{"model":"m","input":"hi"}`, [2]bool{false, true}
		}
		r.Do(http.MethodPost, path, body).Succeeds(t)
		if awake() != want {
			t.Errorf("request %d: %v are awake", n, awake())
		}
	}
	r.ReloadWith("services:\n" + service("chat", a.URL(), "gpu0") + service("embedding", b.URL(), "gpu1"))
	r.Chat(say("m")).Succeeds(t)
	r.Do(http.MethodPost, "/v1/embeddings", `{"model":"m","input":"hi"}`).Succeeds(t)
	if awake() != [2]bool{true, true} {
		t.Errorf("on two GPUs: %v are awake", awake())
	}
}
