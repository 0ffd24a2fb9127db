package proxy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/config"
	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// startEngine starts an engine with room for one of the models m and n.
func startEngine(t *testing.T, kind simulator.Kind, load float64) *simulator.Backend {
	t.Helper()
	b, err := simulator.Start(simulator.Options{
		Models: []string{"m", "n"}, Kind: kind,
		Engine: &engine.Spec{Block: 16, Cache: 100_000, Request: 0.001, Decode: 0.0001, Room: 1, Load: load, Wake: load},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// sleepyYAML is a configuration in which backends serve models that sleep.
func sleepyYAML(adapter, residency string, models []string, backends ...*simulator.Backend) string {
	var list []string
	for _, model := range models {
		for _, b := range backends {
			list = append(list, gatewaytest.Instance(model, b.URL(), "adapter: "+adapter))
		}
	}
	return gatewaytest.PolicyYAML("residency: {enabled: true"+residency+"}, "+gatewaytest.NoBreaker, list...)
}

func say(model string) string {
	return fmt.Sprintf(`{"model":%q,"max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`, model)
}

var onlyM = []string{"m"}

// Two hosts with room for one model each, and 200 requests for two models in random order:
// each model is loaded once. Without residency a round is about 100 loads.
func TestTwoModelsOnTwoHostsAreEachLoadedOnce(t *testing.T) {
	t.Parallel()
	const loads = 0.5 // seconds, longer than a busy machine delays an answer: loading is never the shorter wait
	for _, strategy := range []string{"round-robin", "random", "least-connections", "ip-hash", "least-time"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			a, b := startEngine(t, simulator.Ollama, loads), startEngine(t, simulator.Ollama, loads)
			yaml := sleepyYAML("ollama", "", []string{"m", "n"}, a, b)
			r := gatewaytest.Start(t, strings.Replace(yaml, "residency:", "load-balancer: "+strategy+", residency:", 1))
			random := rand.New(rand.NewPCG(3, 4))
			for range 50 {
				var together []<-chan gatewaytest.Reply
				for range 4 {
					together = append(together, r.ChatLater(gatewaytest.Deadline(t), say([]string{"m", "n"}[random.IntN(2)])))
				}
				for _, later := range together {
					(<-later).Succeeds(t)
				}
			}
			if got := a.Engine().State().Loads + b.Engine().State().Loads; got > 2 {
				t.Errorf("%d loads", got)
			}
		})
	}
}

// Every shape of engine is woken up, by one wake for all who wait.
func TestModelsThatSleepAreServed(t *testing.T) {
	t.Parallel()
	for adapter, kind := range map[string]simulator.Kind{
		"ollama": simulator.Ollama, "vllm": simulator.VLLM, "llamacpp": simulator.LlamaRouter, "llamaswap": simulator.LlamaSwap,
	} {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			b := startEngine(t, kind, 0.5)
			if kind == simulator.VLLM {
				b.Engine().Sleep(1)
			}
			r := gatewaytest.Start(t, sleepyYAML(adapter, "", onlyM, b))
			var together []<-chan gatewaytest.Reply
			for range 8 {
				together = append(together, r.ChatLater(gatewaytest.Deadline(t), say("m")))
			}
			held := 0
			for _, later := range together {
				reply := <-later
				reply.Succeeds(t)
				if reply.Header.Get("X-Router-Wait-Ms") != "" {
					held++
				}
			}
			states := r.Residency.States(time.Now())
			if len(states) != 1 || states[0].Counts.Loads != 1 || states[0].State != "loaded" || held == 0 {
				t.Errorf("%+v, %d replies say that they waited", states, held)
			}
			if reply := r.Chat(say("m")); reply.Header.Get("X-Router-Wait-Ms") != "" {
				t.Error("a request has waited for a model that is in memory")
			}
			if err := r.Residency.Sleep(t.Context(), states[0].Host, "m"); err != nil {
				t.Errorf("it does not fall asleep: %v", err)
			}
			if s := b.Engine().State(); len(s.Models) > 0 && !s.IsAsleep {
				t.Errorf("the engine still has %v", s.Models)
			}
			r.Chat(say("m")).Succeeds(t)
		})
	}
}

// A wake that does not work ends in an error that says so, and costs nothing.
func TestAWakeThatDoesNotWork(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]engine.Fault{"hangs": engine.Hangs, "fails": engine.Fails, "dies": engine.Dies} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startEngine(t, simulator.Ollama, 0.1)
			b.Engine().SetFault(fault)
			r := gatewaytest.Start(t, sleepyYAML("ollama", ", wake-timeout: 500ms", onlyM, b))
			reply := r.Chat(say("m"))
			if reply.Status != http.StatusServiceUnavailable || !strings.Contains(reply.Body, "loaded") || reply.Header.Get("Retry-After") == "" {
				t.Errorf("%d %s", reply.Status, reply.Body)
			}
			b.Engine().SetFault(engine.Works)
			// A load that works may take longer than that on a busy machine.
			r.ChangeChat(func(s *config.Service) { s.Residency.WakeTimeout = schema.Duration(time.Minute) })
			r.Chat(say("m")).Succeeds(t)
			if n := r.ChatPool().Queue.Len(); n != 0 {
				t.Errorf("%d requests are held", n)
			}
		})
	}
}

// An engine that says that it has loaded a model, and has not, is asked all the same.
func TestAnEngineThatLiesAboutItsMemoryIsAsked(t *testing.T) {
	t.Parallel()
	b := startEngine(t, simulator.Ollama, 0.1)
	b.Engine().SetFault(engine.Lies)
	r := gatewaytest.Start(t, sleepyYAML("ollama", "", onlyM, b))
	r.Chat(say("m")).Succeeds(t)
}

// Another instance serves a request whose model cannot be loaded where it was to be.
func TestAWakeThatFailsLeadsToAnotherInstance(t *testing.T) {
	t.Parallel()
	a, b := startEngine(t, simulator.Ollama, 0.1), startEngine(t, simulator.Ollama, 0.1)
	a.Engine().SetFault(engine.Fails)
	r := gatewaytest.Start(t, sleepyYAML("ollama", "", onlyM, a, b))
	reply := r.Chat(say("m"))
	reply.Succeeds(t)
	if reply.Header.Get("X-Router-Attempts") != "2" {
		t.Errorf("%s attempts", reply.Header.Get("X-Router-Attempts"))
	}
}

// As many requests are held as may wait in the queue. Those who leave make room, and the
// last one ends the wake.
func TestHeldRequestsCountInTheQueue(t *testing.T) {
	t.Parallel()
	b := startEngine(t, simulator.Ollama, 0.1)
	b.Engine().SetFault(engine.Hangs)
	yaml := strings.Replace(sleepyYAML("ollama", "", onlyM, b), "residency:", "queue: {size: 2}, residency:", 1)
	r := gatewaytest.Start(t, yaml)
	ctx, cancel := context.WithCancel(gatewaytest.Deadline(t))
	defer cancel()
	first, second := r.ChatLater(ctx, say("m")), r.ChatLater(ctx, say("m"))
	gatewaytest.Eventually(t, "two are held", func() bool { return r.ChatPool().Queue.Len() == 2 })
	if reply := r.Chat(say("m")); reply.Status != http.StatusTooManyRequests || !strings.Contains(reply.Body, schema.CodeNoSlot) {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
	cancel()
	<-first
	<-second
	gatewaytest.Eventually(t, "nobody is held, and nothing is loaded", func() bool {
		states := r.Residency.States(time.Now())
		return r.ChatPool().Queue.Len() == 0 && states[0].State == "absent" && states[0].Waiting == 0
	})
	if n := r.Instances("m")[0].InFlight(); n != 0 {
		t.Errorf("%d calls are in flight", n)
	}
}

// An engine that goes on loading when nobody waits any more is told to stop that.
func TestTheLastOneWhoLeavesEndsTheLoad(t *testing.T) {
	t.Parallel()
	for adapter, kind := range map[string]simulator.Kind{"ollama": simulator.Ollama, "llamacpp": simulator.LlamaRouter, "llamaswap": simulator.LlamaSwap} {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			b := startEngine(t, kind, 0.1)
			b.Engine().SetFault(engine.Hangs)
			r := gatewaytest.Start(t, sleepyYAML(adapter, "", onlyM, b))
			ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
			defer leave()
			later := r.ChatLater(ctx, say("m"))
			gatewaytest.Eventually(t, "the model is being loaded", func() bool { return len(b.Engine().State().Loading) == 1 })
			leave()
			<-later
			gatewaytest.Eventually(t, "nothing is loaded any more", func() bool { return len(b.Engine().State().Loading) == 0 })
			b.Engine().SetFault(engine.Works)
			r.Chat(say("m")).Succeeds(t)
		})
	}
}

// A request that is held goes by the configuration that is in force when its model is there.
func TestHeldRequestsFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	a, b := startEngine(t, simulator.Ollama, 0.1), startEngine(t, simulator.Ollama, 0.1)
	a.Engine().SetFault(engine.Hangs)
	r := gatewaytest.Start(t, sleepyYAML("ollama", "", onlyM, a))
	later := r.ChatLater(gatewaytest.Deadline(t), say("m"))
	gatewaytest.Eventually(t, "it is held", func() bool { return r.ChatPool().Queue.Len() == 1 })
	r.ChangeChat(func(s *config.Service) { s.Instances[0].BaseURL = b.URL() })
	reply := <-later
	reply.Succeeds(t)
	if n := b.Stats().Arrived; n == 0 {
		t.Error("the request did not go to the instance that took the place")
	}
}

// What is off is not asked: an engine is neither woken nor watched.
func TestModelsAreNotKeptUnlessThatIsOn(t *testing.T) {
	t.Parallel()
	b := startEngine(t, simulator.Ollama, 0.05)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks, gatewaytest.Instance("m", b.URL(), "adapter: ollama")))
	r.Chat(say("m")).Succeeds(t)
	if states := r.Residency.States(time.Now()); len(states) != 0 {
		t.Errorf("%+v", states)
	}
	if i := r.Instances("m")[0]; i.Resident() != nil || i.Engine() != nil {
		t.Error("the instance has a place in the fleet")
	}
}

// Requests that end while they wait for the model are not counted: no call was made. One whose model
// cannot be loaded has an attempt in its record, which says why.
func TestRequestsThatEndWhileTheyAreHeldAreNotCounted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		wakeTimeout string
		end         func(r *gatewaytest.Gateway, leave context.CancelFunc)
		attempts    float64
		fallback    bool // another model answers, and is counted
	}{
		"client leaves": {"1m", func(_ *gatewaytest.Gateway, leave context.CancelFunc) { leave() }, 0, false},
		"operator stops it": {"1m", func(r *gatewaytest.Gateway, _ context.CancelFunc) {
			id := gatewaytest.At(r.T, r.GetObject("/api/monitoring/running"), "running/0/requestId").(string)
			r.Do(http.MethodPost, "/api/monitoring/running/"+id+"/stop", "{}").Succeeds(r.T)
		}, 0, false},
		"its instance is disabled": {"1m", func(r *gatewaytest.Gateway, _ context.CancelFunc) {
			r.API(http.MethodPut, gatewaytest.UpdateInstancePath+"chat", fmt.Sprintf(`{"instanceId":%q,"instance":{"enabled":false}}`, r.Instances("m")[0].ID)).
				Is(r.T, http.StatusOK)
		}, 0, false},
		"it takes too long":                  {"1s", func(*gatewaytest.Gateway, context.CancelFunc) {}, 1, false},
		"it takes too long, and another one": {"1s", func(*gatewaytest.Gateway, context.CancelFunc) {}, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, spare := startEngine(t, simulator.VLLM, 60), gatewaytest.StartBackend(t)
			b.Engine().Sleep(1)
			policy := "residency: {enabled: true, wake-timeout: " + test.wakeTimeout + "}, " + gatewaytest.NoBreaker
			list := []string{gatewaytest.Instance("m", b.URL(), "adapter: vllm")}
			var want int64
			if test.fallback {
				policy, list, want = policy+", fallbacks: {m: [n]}", append(list, gatewaytest.Instance("n", spare.URL())), 1
			}
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML(policy, list...)+"quota: {enabled: true}\n")
			ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
			defer leave()
			reply := r.ChatLater(ctx, say("m"))
			gatewaytest.Eventually(t, "the request is held", func() bool {
				states := r.Residency.States(time.Now())
				return len(states) == 1 && states[0].Waiting == 1 && b.Stats().Arrived == 1 // which wakes it up
			})
			test.end(r, leave)
			<-reply
			var call any
			gatewaytest.Eventually(t, "the call is recorded", func() bool {
				call = r.GetObject("/api/monitoring/calls")
				return len(gatewaytest.At(t, call, "calls").([]any)) == 1
			})
			if got := gatewaytest.At(t, call, "calls/0/attempts"); got != test.attempts {
				t.Errorf("got %v attempts, want %v", got, test.attempts)
			}
			requests, _ := gatewaytest.Counted(t, func() gatewaytest.Reply { return r.Do(http.MethodGet, gatewaytest.LongAgo, "") })
			if requests != want || b.Stats().Arrived != 1 {
				t.Errorf("got %d requests in the ledger after %d calls of the engine, want %d after one to wake up", requests, b.Stats().Arrived, want)
			}
		})
	}
}
