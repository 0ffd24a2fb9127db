package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/residency"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// startAdapted starts a vLLM that takes LoRA adapters, two in a batch.
func startAdapted(t *testing.T, edit func(*simulator.Options)) *simulator.Backend {
	t.Helper()
	options := simulator.Options{
		Models: []string{"m"}, Kind: simulator.VLLM,
		Engine:   &engine.Spec{Block: 16, Cache: 100_000, Request: 0.001, Decode: 0.0001},
		Adapters: &simulator.Adapters{Most: 2, Load: 20 * time.Millisecond, Missing: []string{"/l/missing"}, Broken: []string{"/l/broken"}},
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

// adaptedYAML has the base model m at some engines, and these adapters of it.
func adaptedYAML(policy, loras string, backends ...*simulator.Backend) string {
	var list []string
	for _, b := range backends {
		list = append(list, gatewaytest.Instance("m", b.URL(), "adapter: vllm"))
	}
	return gatewaytest.PolicyYAML("health-check: {interval: 1s}"+policy, list...) + "loras: {" + loras + "}\n"
}

// adapters writes adapters of m, whose paths are below /l.
func adapters(names ...string) string {
	var list []string
	for _, name := range names {
		list = append(list, fmt.Sprintf("%s: {base: m, path: /l/%[1]s}", name))
	}
	return "adapters: {" + strings.Join(list, ", ") + "}"
}

func hi(model string) string { return strings.Replace(gatewaytest.PlainHi, `"m"`, `"`+model+`"`, 1) }

// places returns where each adapter is loaded: the positions of the engines.
func places(backends ...*simulator.Backend) map[string][]int {
	found := map[string][]int{}
	for n, b := range backends {
		for name := range b.AdapterState().Loaded {
			found[name] = append(found[name], n)
		}
	}
	return found
}

func bothStrategies(t *testing.T, test func(t *testing.T, policy string)) {
	for _, strategy := range []string{"round-robin", "least-time"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			test(t, ", load-balancer: "+strategy)
		})
	}
}

// Two engines with room for two adapters each serve four: each is loaded once and answered by the
// engine that has it.
func TestLoRAAdaptersAreModels(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	bothStrategies(t, func(t *testing.T, policy string) {
		a, b := startAdapted(t, nil), startAdapted(t, nil)
		names := []string{"l1", "l2", "l3", "l4"}
		r := gatewaytest.Start(t, adaptedYAML(policy, "room: 2, "+adapters(names...), a, b))
		for range 3 {
			for _, name := range names {
				reply := r.Chat(hi(name)).Succeeds(t)
				if !strings.Contains(reply.Body, `"model":"`+name+`"`) {
					t.Errorf("%s: %s", name, reply.Body)
				}
				r.Chat(hi("m")).Succeeds(t)
			}
		}
		where := places(a, b)
		for _, name := range names {
			if len(where[name]) != 1 {
				t.Errorf("%s is at %v", name, where[name])
			}
		}
		if one, other := a.AdapterState(), b.AdapterState(); one.Loads != 2 || other.Loads != 2 || one.Unloads+other.Unloads != 0 {
			t.Errorf("%+v %+v", one, other)
		}
		list := r.Do(http.MethodGet, "/v1/models", "").Succeeds(t).Body
		for _, name := range append(names, "m") {
			if !strings.Contains(list, `"id":"`+name+`"`) {
				t.Errorf("the list of models lacks %s: %s", name, list)
			}
		}
	})
}

// An engine that is full gives up the adapter that is needed last, and none that has calls.
func TestAFullEngineGivesUpTheIdlestAdapter(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, func(o *simulator.Options) { o.Engine.Decode = 0.02 })
	r := gatewaytest.Start(t, adaptedYAML("", "room: 2, "+adapters("l1", "l2", "l3"), b))
	r.Chat(hi("l1")).Succeeds(t)
	r.Chat(hi("l2")).Succeeds(t)
	ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
	defer leave()
	long := `{"model":"l1","stream":true,"max_tokens":5000,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 2000) + `"}]}`
	later := r.ChatLater(ctx, long)
	l1 := r.Instances("l1")[0]
	gatewaytest.Eventually(t, "l1 is in use", func() bool { return l1.InFlight() == 1 && l1.Resident().Place().Residence(time.Now()).IsInUse })
	id := fmt.Sprintf(`{"instanceId":"l1@%s"}`, b.URL())
	r.API(http.MethodPost, "/api/config/instance/sleep/chat", id).Is(t, 400, "in use")
	r.Chat(hi("l3")).Succeeds(t)
	if s := b.AdapterState(); len(s.Loaded) != 2 || s.Loaded["l1"] == "" || s.Loaded["l3"] == "" || s.Peaks != 2 {
		t.Errorf("%+v", s)
	}
	leave()
	<-later
	gatewaytest.Eventually(t, "l1 is idle", func() bool { return !l1.Resident().Place().Residence(time.Now()).IsInUse })
	r.API(http.MethodPost, "/api/config/instance/sleep/chat", id).Is(t, 200)
	r.API(http.MethodPost, "/api/config/instance/load/chat", strings.Replace(id, "l1@", "l2@", 1)).Is(t, 200, `"state":"loaded"`)
	if s := b.AdapterState(); len(s.Loaded) != 2 || s.Loaded["l2"] == "" {
		t.Errorf("%+v", s)
	}
}

// Requests that come at once load their adapter once, at one engine. Meanwhile the base model
// answers.
func TestFirstRequestsForAnAdapterLoadItOnce(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	bothStrategies(t, func(t *testing.T, policy string) {
		slow := func(o *simulator.Options) { o.Adapters.Load = 300 * time.Millisecond }
		a, b := startAdapted(t, slow), startAdapted(t, slow)
		r := gatewaytest.Start(t, adaptedYAML(policy, adapters("l1"), a, b))
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { r.Chat(hi("l1")).Succeeds(t) })
		}
		r.Chat(hi("m")).Succeeds(t)
		all.Wait()
		if loads := a.AdapterState().Loads + b.AdapterState().Loads; loads != 1 {
			t.Errorf("loaded %d times", loads)
		}
	})
}

// Clients that go away while their adapter is loaded leave neither a slot nor a place among those that
// wait taken.
func TestClientsThatLeaveDuringALoadLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, func(o *simulator.Options) { o.Adapters.Load = time.Second })
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("health-check: {interval: 1s}, queue: {size: 2}",
		gatewaytest.Instance("m", b.URL(), "adapter: vllm, max-concurrency: 2"))+"loras: {"+adapters("l1")+"}\n")
	l1 := r.Instances("l1")[0]
	for range 3 {
		ctx, leave := context.WithCancel(gatewaytest.Deadline(t))
		one, other := r.ChatLater(ctx, hi("l1")), r.ChatLater(ctx, hi("l1"))
		gatewaytest.Eventually(t, "both wait for the adapter", func() bool { return l1.InFlight() == 2 })
		leave()
		<-one
		<-other
		gatewaytest.Eventually(t, "the slots are free", func() bool { return l1.InFlight() == 0 })
	}
	r.Chat(hi("l1")).Succeeds(t)
	gatewaytest.Eventually(t, "the adapter is idle", func() bool { return !l1.Resident().Place().Residence(time.Now()).IsInUse })
	if s := b.AdapterState(); len(s.Loaded) != 1 {
		t.Errorf("%+v", s)
	}
}

// A request after the restart of its engine loads the adapter again, whether or not the gateway has
// heard of it.
func TestAdaptersAreLoadedAgainAfterARestart(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, nil)
	r := gatewaytest.Start(t, adaptedYAML("", adapters("l1"), b))
	for range 3 {
		r.Chat(hi("l1")).Succeeds(t)
		b.Engine().Restart()
	}
	if s := b.AdapterState(); len(s.Loaded) != 0 || s.Loads != 3 {
		t.Errorf("%+v", s)
	}
	gatewaytest.Eventually(t, "the gateway has heard of it", func() bool { return whereIs(r, "l1") != "loaded" })
}

// An engine that has the adapter and answers 404 for another reason, such as an unknown response, does
// not lose it in the gateway's eyes.
func TestAnAdapterThatTheEngineListsIsNotLostByA404(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, nil)
	r := gatewaytest.Start(t, adaptedYAML("", adapters("l1"), b))
	r.Chat(hi("l1")).Succeeds(t)
	b.ScriptForever(simulator.Step{Status: 404, Body: `{"error":{"message":"Response with id 'x' not found.","type":"invalid_request_error","param":"response_id","code":404}}`})
	for range 3 {
		if reply := r.Chat(hi("l1")); reply.Status != http.StatusNotFound {
			t.Errorf("%d %s", reply.Status, reply.Body)
		}
	}
	if got := r.Scrape()[fmt.Sprintf(`model_router_model_loads_total{host=%q,model="l1"}`, b.URL())]; got != 1 || whereIs(r, "l1") != "loaded" {
		t.Errorf("%g loads, and it is %s", got, whereIs(r, "l1"))
	}
}

// whereIs returns where a model is.
func whereIs(r *gatewaytest.Gateway, model string) string {
	states := r.Residency.States(time.Now())
	at := slices.IndexFunc(states, func(s residency.State) bool { return s.Model == model })
	if at < 0 {
		return ""
	}
	return states[at].State
}

// An adapter that cannot be loaded is told to operators in the engine's words, and to callers
// without; the base model goes on, and so do its breaker and its health.
func TestAnAdapterThatCannotBeLoadedLeavesTheBaseAlone(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	for name, c := range map[string]struct {
		lora  string
		edit  func(*simulator.Options)
		words string
	}{
		"missing":     {"missing", nil, "No adapter found for /l/missing"},
		"broken":      {"broken", nil, "greater than max_lora_rank"},
		"LoRA off":    {"l1", func(o *simulator.Options) { o.Adapters.IsOff = true }, "LoRA is not enabled"},
		"updates off": {"l1", func(o *simulator.Options) { o.Adapters = nil }, "VLLM_ALLOW_RUNTIME_LORA_UPDATING"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := startAdapted(t, c.edit)
			r := gatewaytest.Start(t, adaptedYAML(", circuit-breaker: {failure-threshold: 2}", adapters(c.lora), b))
			for range 6 {
				if reply := r.Chat(hi(c.lora)); reply.Status != http.StatusServiceUnavailable || strings.Contains(reply.Body, "/l/") {
					t.Errorf("%d %s", reply.Status, reply.Body)
				}
				r.Chat(hi("m")).Succeeds(t)
			}
			if m := r.Instances("m")[0]; !m.Well() {
				t.Errorf("the base: %+v", m.Breaker.Snapshot())
			}
			told := r.API(http.MethodPost, "/api/config/instance/load/chat", fmt.Sprintf(`{"instanceId":"%s@%s"}`, c.lora, b.URL()))
			if told.Status < http.StatusBadRequest || !strings.Contains(told.Body, c.words) {
				t.Errorf("operators are told %d %s", told.Status, told.Body)
			}
		})
	}
}

// An adapter that the engine has already is used as it is, and one of its name from another path
// is replaced.
func TestAdaptersThatTheEngineHasAreUsed(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	for path, loads := range map[string]int{"/l/l1": 1, "/old/l1": 2} {
		b := startAdapted(t, nil)
		load(t, b, "l1", path)
		r := gatewaytest.Start(t, adaptedYAML("", adapters("l1"), b))
		for range 2 {
			r.Chat(hi("l1")).Succeeds(t)
		}
		if s := b.AdapterState(); s.Loads != loads || s.Loaded["l1"] != "/l/l1" {
			t.Errorf("%s: %+v", path, s)
		}
	}
}

// load loads an adapter behind the gateway's back.
func load(t *testing.T, b *simulator.Backend, name, path string) {
	t.Helper()
	request, err := http.NewRequestWithContext(gatewaytest.Deadline(t), http.MethodPost, b.URL()+"/v1/load_lora_adapter",
		strings.NewReader(fmt.Sprintf(`{"lora_name":%q,"lora_path":%q}`, name, path)))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request) //nolint:forbidigo // a test's client
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("status %d", response.StatusCode)
	}
}

// An adapter that leaves the file is no model any more, and stays in its engine. A path that changes
// is loaded in place of the old one.
func TestAdaptersFollowTheFile(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, nil)
	r := gatewaytest.Start(t, adaptedYAML("", adapters("l1", "l2"), b))
	r.Chat(hi("l1")).Succeeds(t)
	r.Chat(hi("l2")).Succeeds(t)
	r.ReloadWith(adaptedYAML("", "adapters: {l1: {base: m, path: /l/new}}", b))
	if reply := r.Chat(hi("l2")); reply.Status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
	if s := b.AdapterState(); s.Loaded["l2"] != "/l/l2" {
		t.Errorf("%+v", s)
	}
	gatewaytest.Eventually(t, "the new path is loaded", func() bool {
		r.Chat(hi("l1")).Succeeds(t)
		return b.AdapterState().Loaded["l1"] == "/l/new"
	})
}

// The number of adapters that an engine tells holds where the file says none.
func TestEnginesTellTheirRoomForAdapters(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, nil)
	r := gatewaytest.Start(t, adaptedYAML("", adapters("l1", "l2", "l3"), b))
	byHand := 0
	gatewaytest.Eventually(t, "the engine has told its room", func() bool {
		for _, name := range []string{"l1", "l2", "l3"} {
			r.Chat(hi(name)).Succeeds(t)
		}
		if len(b.AdapterState().Loaded) == 3 {
			byHand++
			r.API(http.MethodPost, "/api/config/instance/sleep/chat", fmt.Sprintf(`{"instanceId":"l3@%s"}`, b.URL())).Is(t, 200)
		}
		return b.AdapterState().Unloads > byHand
	})
}

// Keys that are limited to models need the name of the adapter: that of its base is another model.
func TestAdaptersAreModelsOfKeys(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, nil)
	for allowed, forbidden := range map[string][]string{"l1": {"m", "l2"}, "m": {"l1", "l2"}} {
		r := gatewaytest.Start(t, withKey(adaptedYAML("", adapters("l1", "l2"), b), "models: ["+allowed+"]"))
		r.Chat(hi(allowed), bearer("secret")...).Succeeds(t)
		for _, model := range forbidden {
			if reply := r.Chat(hi(model), bearer("secret")...); reply.Status != http.StatusForbidden {
				t.Errorf("%s with a key for %s: %d %s", model, allowed, reply.Status, reply.Body)
			}
		}
	}
}

// An adapter has a price of its own, whatever its base costs, also where an alias leads to it.
func TestAdaptersCostWhatTheirNameCosts(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, nil)
	list := "quota: {enabled: true}\nprices: {models: [{model: l1, input: 3000000, output: 3000000}, {model: m, input: 1000000, output: 1000000}]}\n"
	for asked, price := range map[string]int64{"m": 1, "l1": 3, "nick": 3} {
		r := gatewaytest.Start(t, adaptedYAML(", aliases: {nick: l1}", adapters("l1"), b)+list)
		r.Chat(hi(asked)).Succeeds(t)
		if got := counted(t, r); got.TokenCount == 0 || got.Cost != price*got.TokenCount*1_000_000 {
			t.Errorf("%s: %+v", asked, got)
		}
	}
}

// An engine that refuses an adapter is asked a few times, and then not for each request: the
// breaker of the adapter is open.
func TestAnEngineThatTakesNoAdaptersIsNotAskedForEachRequest(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, func(o *simulator.Options) { o.Adapters.IsOff = true })
	r := gatewaytest.Start(t, adaptedYAML("", adapters("l1"), b))
	for range 40 {
		if reply := r.Chat(hi("l1")); reply.Status != http.StatusServiceUnavailable {
			t.Errorf("%d %s", reply.Status, reply.Body)
		}
	}
	if tries := b.AdapterState().Tries; tries == 0 || tries > 10 {
		t.Errorf("the engine was told %d times to load it", tries)
	}
	r.API(http.MethodGet, "/api/models/residency", "").Is(t, 200, "LoRA is not enabled")
	if m := r.Instances("m")[0]; !m.Well() || m.Breaker.Snapshot().FailureCount > 0 {
		t.Errorf("the base: %+v", m.Breaker.Snapshot())
	}
}

// A base that is discovered has its adapters too, also where its engine lists them. Adapters that
// the file does not name are models that were found.
func TestADiscoveredBaseHasAdapters(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, nil)
	load(t, b, "l1", "/l/l1")
	load(t, b, "x", "/l/x")
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("health-check: {interval: 1s}", "{models: discover, base-url: '"+b.URL()+"', adapter: vllm}")+
		"loras: {"+adapters("l1", "l2")+"}\n")
	for _, model := range []string{"m", "l1", "l2", "x"} {
		r.Chat(hi(model)).Succeeds(t)
		if all := r.Instances(model); len(all) != 1 || (all[0].Resident() != nil) != strings.HasPrefix(model, "l") {
			t.Errorf("%s has %d instances", model, len(all))
		}
	}
	if s := b.AdapterState(); s.Loads != 3 || s.Unloads != 0 {
		t.Errorf("%+v", s)
	}
}

// An operator can test every instance in force: written, discovered, or made from an adapter, which
// is loaded for the test.
func TestInstancesOfAllOriginsAreTested(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, nil)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("health-check: {interval: 1s}", "{models: discover, base-url: '"+b.URL()+"', adapter: vllm}",
		gatewaytest.Instance("same", b.URL(), "adapter: vllm, upstream-model: m"))+"loras: {"+adapters("l1")+"}\n")
	gatewaytest.Eventually(t, "the model is discovered", func() bool { return len(r.Instances("m")) == 1 })
	for _, model := range []string{"same", "m", "l1"} {
		r.API(http.MethodPost, "/api/config/instance/test/chat", `{"instanceId":"`+model+`@`+b.URL()+`"}`).Is(t, 200, `"ok":true`)
	}
	r.API(http.MethodPost, "/api/config/instance/test/chat", `{"instanceId":"other@`+b.URL()+`"}`).Is(t, 404, "instanceId")
	if loads := b.AdapterState().Loads; loads != 1 {
		t.Errorf("got %d loads of adapters, want 1", loads)
	}
}

// Explain says how long an adapter takes to load where no engine has it, metrics count its loads, and
// the engine of adapters is not put to sleep.
func TestAdaptersAreSeenByOperators(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, nil)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("health-check: {interval: 1s}, load-balancer: least-time, residency: {enabled: true, sleep-after: 1s}",
		gatewaytest.Instance("m", b.URL(), "adapter: vllm"), gatewaytest.Instance("same", b.URL(), "adapter: vllm, upstream-model: m"))+
		"loras: {"+adapters("l1")+"}\n")
	gatewaytest.Eventually(t, "the engine has told that the adapter is absent", func() bool { return whereIs(r, "l1") == "absent" })
	r.API(http.MethodPost, "/api/route/explain?door=chat", hi("l1")).Is(t, 200, "absent", `"loadMs":1000`)
	r.Chat(hi("l1")).Succeeds(t)
	scrape := r.Scrape()
	if at := fmt.Sprintf(`{host=%q,model="l1"}`, b.URL()); scrape["model_router_model_loads_total"+at] != 1 || scrape["model_router_model_resident"+at] != 1 {
		t.Errorf("%g loads, resident %g", scrape["model_router_model_loads_total"+at], scrape["model_router_model_resident"+at])
	}
	for _, name := range []string{"m", "same"} {
		if whereIs(r, name) != "" {
			t.Errorf("the model of the engine is kept as %s", name)
		}
	}
}

// A model that another backend lists under the name of an adapter is served there, and a base stays a
// model where somebody names an adapter after it.
func TestFoundModelsWithTheNamesOfAdaptersAreServed(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	a := startAdapted(t, nil)
	other, err := simulator.Start(simulator.Options{Models: []string{"l1", "n"}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML("health-check: {interval: 1s}",
		"{models: discover, base-url: '"+other.URL()+"', adapter: openai}",
		"{models: discover, base-url: '"+a.URL()+"', adapter: vllm}",
	)+"loras: {adapters: {l1: {base: m, path: /l/l1}, m: {base: m, path: /l/m}}}\n")
	for model, want := range map[string][]bool{"m": {false}, "n": {false}, "l1": {false, true}} {
		var kept []bool
		for _, i := range r.Instances(model) {
			kept = append(kept, i.Resident() != nil)
		}
		if !slices.Equal(kept, want) {
			t.Errorf("%s: instances that are adapters: %v", model, kept)
		}
		r.Chat(hi(model)).Succeeds(t)
	}
}

// A discovered backend leaves adapters to their base that is written before it or behind it.
func TestAdaptersOfAWrittenBaseGoBeforeFoundModels(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "loras")
	b := startAdapted(t, nil)
	load(t, b, "l1", "/l/l1")
	instances := []string{"{models: discover, base-url: '" + b.URL() + "', adapter: vllm}", gatewaytest.Instance("m", b.URL(), "adapter: vllm")}
	for range instances {
		r := gatewaytest.Start(t, gatewaytest.PolicyYAML("health-check: {interval: 1s}", instances...)+"loras: {"+adapters("l1")+"}\n")
		r.Chat(hi("l1")).Succeeds(t)
		if all := r.Instances("l1"); len(all) != 1 || all[0].Resident() == nil {
			t.Errorf("l1 has %d instances, or is no adapter", len(all))
		}
		slices.Reverse(instances)
	}
}
