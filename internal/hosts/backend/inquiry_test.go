package backend

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/dialect/engines"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/hosts/fleet"
	"github.com/patchbay-ai/patchbay/internal/hosts/transport"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// speaker is an engine of which tests change what it says. Paths that it does not know are
// not found.
type speaker map[string]string

func (e speaker) answer(r *http.Request) string {
	body, known := e[r.URL.Path]
	switch {
	case r.URL.Path == "/health", r.URL.Path == "/v1/models", r.URL.Path == "/api/version":
		return sayOK
	case !known:
		return "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
	}
	return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + fmt.Sprint(len(body)) + "\r\n\r\n" + body
}

// tells makes a vLLM say how much it has to do, and when it was started.
func (e speaker) tells(waiting, start int) {
	e["/metrics"] = fmt.Sprintf(`process_start_time_seconds %d
vllm:num_requests_waiting{engine="0",model_name="m"} %d
vllm:num_requests_running{engine="0",model_name="m"} 3
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1
`, start, waiting)
}

// joined adds an instance that has a place in the fleet.
func (f *watched) joined(all *fleet.Fleet, kind, name, baseURL string, change func(*Settings)) *Instance {
	f.t.Helper()
	i := makeInstance(f.t, kind, name, baseURL, nil, change)
	i.Join(all)
	f.set(append(f.source(), i)...)
	return i
}

// busy occupies an instance until the function that it returns is called.
func busy(t *testing.T, i *Instance) (end func()) {
	t.Helper()
	permit, ok := i.Acquire(time.Now())
	if !ok {
		t.Fatal("not acquired")
	}
	return func() { i.Release(permit, breaker.Success, time.Now()) }
}

// countOf returns how often a path was asked for.
func (n *network) countOf(addr, path string) int {
	count := 0
	for _, p := range n.seen(addr) {
		if p.path == path {
			count++
		}
	}
	return count
}

func newEngines() *fleet.Fleet { return fleet.New(fleet.Options{}, time.Now()) }

// pictureOf returns what the fleet knows about a model.
func pictureOf(t *testing.T, all *fleet.Fleet, model string) fleet.Picture {
	t.Helper()
	for _, p := range all.Pictures(time.Now()) {
		if p.Model == model {
			return p
		}
	}
	t.Fatalf("no picture of %s", model)
	return fleet.Picture{}
}

func TestEnginesAreAskedWithTheirChecksAndOftenWhileInUse(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		e := speaker{}
		e.tells(7, 1000)
		n.answer("h:80", e.answer)
		n.answer("other:80", e.answer)
		all := newEngines()
		i := f.joined(all, "vllm", "m", "http://h/v1", nil)
		f.add("m", "http://other") // is balanced by another strategy
		pass(10 * time.Minute)
		checks, idle := n.countOf("h:80", "/health"), n.countOf("h:80", "/metrics")
		if idle != checks || idle > 25 {
			t.Errorf("an idle speaker was asked %d times with %d checks", idle, checks)
		}
		end := busy(t, i)
		pass(time.Minute)
		if often := n.countOf("h:80", "/metrics") - idle; often < 20 || often > 40 {
			t.Errorf("an engine in use was asked %d times in a minute", often)
		}
		end()
		pass(10 * time.Second)
		before := n.countOf("h:80", "/metrics")
		pass(10 * time.Minute)
		if often := n.countOf("h:80", "/metrics") - before; often > 25 {
			t.Errorf("an engine that was in use was asked %d times in ten minutes", often)
		}
		if n.countOf("other:80", "/metrics") != 0 {
			t.Error("an engine was asked for which nobody wants to know")
		}
	})
}

func TestWhatEnginesTellIsKnownToTheFleet(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		e := speaker{}
		e.tells(7, 1000)
		n.answer("vllm:80", e.answer)
		n.answer("ollama:80", speaker{"/api/ps": `{"models":[{"name":"loaded:latest"}]}`}.answer)
		n.answer("llama:80", speaker{"/props": `{"total_slots":2,"default_generation_settings":{"n_ctx":100},"is_sleeping":true}`}.answer)
		n.answer("router:80", speaker{
			"/props":  `{"role":"router","max_instances":1}`,
			"/models": `{"data":[{"id":"c","status":{"value":"loaded"}},{"id":"d","status":{"value":"unloaded"}}]}`,
		}.answer)
		all := newEngines()
		keyed := func(s *Settings) { s.APIKey, s.UpstreamModel = Literal("secret"), "m" }
		f.joined(all, "vllm", "named", "http://vllm", keyed)
		f.joined(all, "vllm", "adapter", "http://vllm", nil)
		f.joined(all, "ollama", "loaded", "http://ollama", nil)
		f.joined(all, "ollama", "absent", "http://ollama", nil)
		f.joined(all, "llamacpp", "asleep", "http://llama", nil)
		for _, name := range []string{"c", "d"} {
			f.joined(all, "llamacpp", name, "http://router", nil)
		}
		pass(time.Second)
		want := fleet.Told{Waiting: 7, Running: 3, Used: 0.5, Capacity: 1600}
		for _, model := range []string{"m", "adapter"} {
			if got := pictureOf(t, all, model); got.Told != want || got.Capacity != 6400 {
				t.Errorf("%s: %+v", model, got)
			}
		}
		for model, state := range map[string]string{"loaded": "loaded", "absent": "absent", "asleep": "sleeping", "c": "loaded", "d": "absent"} {
			if got := pictureOf(t, all, model); got.State != state {
				t.Errorf("%s: %+v, want %s", model, got, state)
			}
		}
		// A model that joins after the first check has one of its own, and a question with it.
		if n.countOf("vllm:80", "/metrics") > n.countOf("vllm:80", "/health") || n.countOf("ollama:80", "/api/ps") > n.countOf("ollama:80", "/api/version") {
			t.Error("models of one speaker do not share a question")
		}
		for _, p := range n.seen("vllm:80") {
			if p.header.Get("Authorization") != "Bearer secret" {
				t.Errorf("%s was asked with %v", p.path, p.header)
			}
		}
	})
}

// TestIdleLlamaCppMayFallAsleep asks an idle server only for what does not keep it awake.
func TestIdleLlamaCppMayFallAsleep(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		n.answer("h:80", speaker{
			"/props":   `{"total_slots":1,"default_generation_settings":{"n_ctx":100}}`,
			"/metrics": "llamacpp:requests_deferred 4\n",
			"/slots":   `[{"id":0,"is_processing":true,"next_token":[{"n_decoded":0}]}]`,
		}.answer)
		all := newEngines()
		i := f.joined(all, "llamacpp", "m", "http://h", nil)
		pass(5 * time.Minute)
		if n.countOf("h:80", "/metrics")+n.countOf("h:80", "/slots") > 0 || n.countOf("h:80", "/props") == 0 {
			t.Errorf("%+v", n.seen("h:80"))
		}
		defer busy(t, i)()
		pass(3 * time.Second)
		if got := pictureOf(t, all, "m").Told; got.Waiting != 5 {
			t.Errorf("%+v of a server that works", got)
		}
	})
}

func TestEngineThatTellsNothingIsAskedSeldom(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		e := speaker{}
		n.answer("h:80", e.answer)
		all := newEngines()
		i := f.joined(all, "openai", "m", "http://h", nil)
		end := busy(t, i)
		defer end()
		pass(5 * time.Hour)
		if often := n.countOf("h:80", "/metrics"); often < 8 || often > 16 {
			t.Errorf("it was asked %d times in five hours", often)
		}
		if f.status(i) != StatusHealthy {
			t.Errorf("it is %v", f.status(i))
		}
		n.down("h:80")
		pass(time.Minute)
		e.tells(7, 1000) // now it was started with metrics
		n.answer("h:80", e.answer)
		pass(time.Minute)
		if got := pictureOf(t, all, "m").Told; got.Waiting != 7 {
			t.Errorf("%+v after it came back", got)
		}
	})
}

// TestQuestionsDoNoHarmToHealth lets an engine answer checks well and questions badly.
func TestQuestionsDoNoHarmToHealth(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer     func() string
		most, less int // questions in ten minutes of use
	}{
		"it hangs":      {func() string { return sayNothing }, 65, 45},
		"it fails":      {func() string { return sayBroken }, 65, 45},
		"it is cut off": {func() string { return "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nvllm:num_requ" }, 8, 2},
		"it is ten times as slow": {func() string {
			time.Sleep(20 * time.Second) //nolint:forbidigo // the time of a synctest bubble
			return sayOK
		}, 65, 45},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *watched, n *network) {
				n.answer("h:80", func(r *http.Request) string {
					if r.URL.Path == "/metrics" {
						return c.answer()
					}
					return sayOK
				})
				all := newEngines()
				i := f.joined(all, "vllm", "m", "http://h", nil)
				end := busy(t, i)
				pass(10 * time.Minute)
				end()
				if checks := n.countOf("h:80", "/health"); checks < 18 || checks > 23 {
					t.Errorf("%d checks in ten minutes", checks)
				}
				if asked := n.countOf("h:80", "/metrics"); asked < c.less || asked > c.most {
					t.Errorf("asked %d times in ten minutes", asked)
				}
				if f.status(i) != StatusHealthy || strings.Contains(f.logged(), "UNHEALTHY") {
					t.Errorf("%v: %s", f.status(i), f.logged())
				}
				n.set("h:80", sayOK)
				pass(30 * time.Second) // for what still hangs
			})
		})
	}
}

// TestLiesOfEnginesAreNotBelieved lets an engine tell what cannot be true, and what is true
// of another model.
func TestLiesOfEnginesAreNotBelieved(t *testing.T) {
	t.Parallel()
	for _, lie := range []string{"-1", "NaN", "1e18", "+Inf", "-Inf"} {
		inBubble(t, func(t *testing.T, f *watched, n *network) {
			e := speaker{"/metrics": strings.ReplaceAll("vllm:num_requests_waiting L\nvllm:num_requests_running L\nvllm:kv_cache_usage_perc L\nvllm:prompt_tokens_total L\n", "L", lie) +
				fmt.Sprintf("vllm:cache_config_info{block_size=%q,num_gpu_blocks=%q} 1\n", lie, lie)}
			n.answer("h:80", e.answer)
			all := newEngines()
			f.joined(all, "vllm", "m", "http://h", nil)
			before := pictureOf(t, all, "m")
			pass(time.Minute)
			before.IsTold = true // but nothing that could be believed
			if got := pictureOf(t, all, "m"); got != before {
				t.Errorf("%s: %+v, want %+v", lie, got, before)
			}
		})
	}
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		e := speaker{}
		e.tells(500, 1000)
		n.answer("h:80", e.answer)
		all := newEngines()
		f.joined(all, "vllm", "mine", "http://h", nil)
		pass(time.Minute)
		if got := pictureOf(t, all, "mine"); got.Told.Waiting != -1 || got.Told.Running != -1 || got.Queue != 0 {
			t.Errorf("%+v by the numbers of another model", got)
		}
	})
}

// remember lets an instance have a prompt in its cache.
func remember(all *fleet.Fleet, i *Instance) {
	p := all.Borrow("")
	p.Part("user")
	p.Text([]byte(strings.Repeat("a long text ", 1000)))
	call := all.Choose([]*fleet.Instance{i.Engine()}, &fleet.Ask{Prompt: p, Tokens: 3000}, time.Now())
	call.First(time.Now())
	call.End(fleet.Answer{PromptTokens: -1, CachedTokens: -1}, time.Now())
	all.Return(p)
}

func TestEngineThatRestartsIsEmpty(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		happens func(e speaker, n *network)
		isEmpty bool
	}{
		"nothing":                   {func(speaker, *network) {}, false},
		"another process":           {func(e speaker, _ *network) { e.tells(7, 2000) }, true},
		"a clock that is corrected": {func(e speaker, _ *network) { e.tells(7, 1001) }, false},
		"refused connections":       {func(_ speaker, n *network) { n.down("h:80"); pass(40 * time.Second) }, true},
		"a model that is loaded":    {func(_ speaker, n *network) { n.set("h:80", sayLoading); pass(40 * time.Second) }, true},
		"an error for a while":      {func(_ speaker, n *network) { n.set("h:80", sayBroken); pass(40 * time.Second) }, false},
		"silence for a while":       {func(_ speaker, n *network) { n.set("h:80", sayNothing); pass(40 * time.Second) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *watched, n *network) {
				e := speaker{}
				e.tells(7, 1000)
				n.answer("h:80", e.answer)
				all := newEngines()
				i := f.joined(all, "vllm", "m", "http://h", nil)
				pass(time.Second)
				remember(all, i)
				c.happens(e, n)
				n.answer("h:80", e.answer)
				pass(time.Minute)
				if got := pictureOf(t, all, "m"); got.Cached > 0 == c.isEmpty || got.Told.Waiting != 7 {
					t.Errorf("%+v afterwards", got)
				}
				if wasLogged := strings.Contains(f.logged(), "started anew"); wasLogged != (name == "another process") {
					t.Errorf("log: %s", f.logged())
				}
			})
		})
	}
}

// TestProcessesBehindOneAddressAreNoRestarts lets two replicas answer in turn.
func TestProcessesBehindOneAddressAreNoRestarts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		replicas := []speaker{{}, {}}
		var next atomic.Int64
		for k, e := range replicas {
			e.tells(k, 1000*(k+1))
		}
		n.answer("h:80", func(r *http.Request) string {
			if r.URL.Path != "/metrics" {
				return sayOK
			}
			return replicas[next.Add(1)%2].answer(r)
		})
		all := newEngines()
		i := f.joined(all, "vllm", "m", "http://h", nil)
		defer busy(t, i)()
		pass(time.Minute)
		remember(all, i)
		pass(10 * time.Minute)
		if got := pictureOf(t, all, "m"); got.Cached == 0 {
			t.Errorf("%+v: every other answer empties the cache", got)
		}
	})
}

// TestManyEnginesAreAskedLessOften bounds what the questions cost.
func TestManyEnginesAreAskedLessOften(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *watched, n *network) {
		const hosts = 150
		f.watch(func(s *HealthSettings) { s.Interval = schema.Duration(10 * time.Minute) })
		all := newEngines()
		var list []*Instance
		for k := range hosts {
			e := speaker{}
			e.tells(1, 1000)
			n.answer(fmt.Sprintf("h%d:80", k), e.answer)
			i := makeInstance(t, "vllm", "m", fmt.Sprintf("http://h%d", k), nil, nil)
			i.Join(all)
			busy(t, i)
			list = append(list, i)
		}
		f.set(list...)
		pass(10 * time.Second)
		count := func() (counts []int) {
			for k := range hosts {
				counts = append(counts, n.countOf(fmt.Sprintf("h%d:80", k), "/metrics"))
			}
			return counts
		}
		before := count()
		pass(time.Minute)
		sum, least := 0, math.MaxInt
		for k, now := range count() {
			sum, least = sum+now-before[k], min(least, now-before[k])
		}
		if perSecond := float64(sum) / 60; perSecond > 1.2*inquiriesPerSecond || least < 5 {
			t.Errorf("%.1f questions a second, an engine was asked %d times in a minute", perSecond, least)
		}
		if n.peak > maxInquiries+maxProbes {
			t.Errorf("%d connections at a time", n.peak)
		}
	})
}

// TestSimulatedEnginesAreUnderstood asks engines of the simulator over HTTP, which have the
// ways of real ones, and lets them lie.
func TestSimulatedEnginesAreUnderstood(t *testing.T) {
	t.Parallel()
	for kind, of := range map[string]simulator.Kind{"vllm": simulator.VLLM, "llamacpp": simulator.LlamaCpp, "ollama": simulator.Ollama} {
		b := startBackend(t, simulator.Options{Kind: of, Models: []string{"m"}, Engine: &engine.Spec{Block: 16, Cache: 3200, Token: 0.001, Decode: 0.001, Width: 1, Slots: 2}})
		i := makeInstance(t, kind, "m", b.URL(), nil, nil)
		client := transport.New(transport.Options{})
		t.Cleanup(client.Close)
		p := prober{client, client.Connect}
		listen := func() (all engines.Report) {
			all = engines.NewReport()
			for _, q := range questionsTo(i, false) {
				report, outcome := p.ask(t.Context(), i.Origin, q, i.Target, subjects{models: []string{"m"}})
				if outcome == understood {
					all.Add(&report)
				} else if q.path != "/models" {
					t.Errorf("%s at %s: %v", kind, q.path, outcome)
				}
			}
			return all
		}
		if got := listen(); kind == "ollama" && !got.TellsModels || kind != "ollama" && (got.Waiting != 0 || got.Running != 0 || got.Capacity != 3200) {
			t.Errorf("%s: %+v", kind, got)
		}
		for _, number := range []string{"-1", "NaN"} {
			b.Lie(&simulator.Lie{Number: number})
			if kind == "vllm" {
				if got := listen(); got.Waiting >= 0 || got.Running >= 0 || got.Used >= 0 {
					t.Errorf("%s: %s is read as %+v", kind, number, got)
				}
			}
		}
		b.Lie(&simulator.Lie{Model: "other"})
		if got := listen(); kind == "vllm" && got.Waiting != -1 || kind == "ollama" && len(got.Awake) != 0 {
			t.Errorf("%s tells of another model: %+v", kind, got)
		}
	}
}
