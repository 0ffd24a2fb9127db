package proxy_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/backend"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// plainZero is a chat that is answered the same each time.
const plainZero = `{"model":"m","temperature":0,"messages":[{"role":"user","content":"Hi"}]}`

// hedgedService is a gateway with two instances of a service type whose calls are hedged,
// which has learned how long a request takes.
func hedgedService(t *testing.T, service, adapter, strategy string, ask func(*gatewaytest.Gateway) gatewaytest.Reply) (*gatewaytest.Gateway, []*simulator.Backend) {
	t.Helper()
	backends := startBackends(t, 2)
	r := gatewaytest.Start(t, "services: {"+service+": {load-balancer: "+strategy+", adapter: "+adapter+", hedge: {enabled: true}, "+gatewaytest.NoBreakerNoChecks+", instances: ["+
		gatewaytest.Instance("m", backends[0].URL())+", "+gatewaytest.Instance("m", backends[1].URL())+"]}}\n")
	for range 60 {
		ask(r).Succeeds(t)
	}
	return r, backends
}

// A call that hangs is made again at another instance, for everything that has no side
// effects. The one that hangs is ended, which says nothing about its instance.
func TestCallsThatHangAreMadeAgain(t *testing.T) {
	t.Parallel()
	post := func(path, body string) func(r *gatewaytest.Gateway) gatewaytest.Reply {
		return func(r *gatewaytest.Gateway) gatewaytest.Reply { return r.Post(path, body) }
	}
	message := post("/v1/messages", `{"model":"m","temperature":0,"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`)
	response := post("/v1/responses", `{"model":"m","temperature":0,"store":false,"input":"Hi"}`)
	completion := post("/v1/completions", `{"model":"m","temperature":0,"prompt":"Hi"}`)
	for name, row := range map[string]struct {
		service schema.ServiceType
		adapter string
		ask     func(r *gatewaytest.Gateway) gatewaytest.Reply
	}{
		"messages":             {schema.Chat, "openai", message},
		"messages, passed on":  {schema.Chat, "anthropic", message},
		"responses":            {schema.Chat, "ollama", response},
		"responses, passed on": {schema.Chat, "openai", response},
		"completions":          {schema.Chat, "vllm", completion},
		"completions of text":  {schema.Chat, "ollama", completion},
		"embeddings": {schema.Embedding, "openai", func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.Post("/v1/embeddings", `{"model":"m","input":"the cat sat"}`)
		}},
		"rerank": {schema.Rerank, "openai", func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.Post("/v1/rerank", `{"model":"m","query":"cat","documents":["the cat","the dog"]}`)
		}},
		"transcription": {schema.STT, "openai", func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.PostForm("/v1/audio/transcriptions", gatewaytest.Field("model", "m"), gatewaytest.Recording())
		}},
		"chat": {schema.Chat, "openai", func(r *gatewaytest.Gateway) gatewaytest.Reply { return r.Chat(plainZero) }},
	} {
		for _, strategy := range []string{"round-robin", "least-time"} {
			t.Run(name+" "+strategy, func(t *testing.T) {
				t.Parallel()
				r, backends := hedgedService(t, row.service.String(), row.adapter, strategy, row.ask)
				pool := r.Current.Load().Service(row.service).Find("m")
				for range 1000 { // as if a quiet time had been, so that one is allowed
					pool.Watch.Called()
				}
				instances := pool.Instances
				wonBefore := gatewaytest.Sum(r.Scrape(), "model_router_hedges_total", `result="won"`)
				hung, won := 0, false
				for n := 0; n < 40 && !won; n++ { // each one hangs twice, so that it is picked whether they take turns or not
					backends[hung].Script()
					hung = n / 2 % 2
					_, _, cancelledBefore := gatewaytest.Outcomes(instances[hung])
					backends[hung].ScriptForever(simulator.Step{Hang: true})
					won = hangsAndIsMadeAgain(t, r, row.ask, instances[hung], instances[1-hung])
					gatewaytest.Eventually(t, "the call that hangs is ended", func() bool { return backends[hung].Stats().InFlight == 0 })
					if _, failure, cancelled := gatewaytest.Outcomes(instances[hung]); failure != 0 || won && cancelled == cancelledBefore || instances[hung].InFlight() != 0 {
						t.Errorf("%d failures, %d cancelled, %d in flight", failure, cancelled, instances[hung].InFlight())
					}
				}
				if !won {
					t.Fatal("no call was made again")
				}
				if got := gatewaytest.Sum(r.Scrape(), "model_router_hedges_total", `result="won"`) - wonBefore; got != 1 {
					t.Errorf("%v second calls have won", got)
				}
				if row.service == schema.Embedding && strategy == "least-time" && underWay(r) != 0 {
					t.Error("the fleet believes a call to be under way")
				}
			})
		}
	}
}

// hangsAndIsMadeAgain asks once while an instance hangs, and reports whether that was asked first:
// then the other one has answered.
func hangsAndIsMadeAgain(t *testing.T, r *gatewaytest.Gateway, ask func(*gatewaytest.Gateway) gatewaytest.Reply, hung, other *backend.Instance) bool {
	t.Helper()
	answer := ask(r).Succeeds(t)
	if got := answer.Header.Get("X-Router-Instance"); got != other.Handle {
		t.Errorf("%s answered", got)
	}
	var found []any
	gatewaytest.Eventually(t, "the call is recorded", func() bool {
		found = gatewaytest.At(t, r.GetObject("/api/monitoring/calls?q="+answer.Header.Get("X-Request-Id")), "calls").([]any)
		return len(found) == 1
	})
	call := found[0].(map[string]any)
	if call["hedge"] != "won" {
		return false
	}
	tries := call["tries"].([]any)
	if answer.Header.Get("X-Router-Attempts") != "2" || call["attempts"] != 2.0 || len(tries) != 2 || call["instance"] != other.ID {
		t.Errorf("%s attempts, the record is %v", answer.Header.Get("X-Router-Attempts"), call)
	}
	if first := tries[0].(map[string]any); first["errorCode"] != "given_up" || first["instance"] != hung.ID {
		t.Errorf("the first try is %v", first)
	}
	return true
}

// Explain says when a second instance would be asked, and for which requests none is.
func TestExplainShowsWhenASecondIsAsked(t *testing.T) {
	t.Parallel()
	r, _ := hedgedService(t, "chat", "openai", "round-robin", func(r *gatewaytest.Gateway) gatewaytest.Reply { return r.Chat(plainZero) })
	for name, row := range map[string]struct {
		door, body string
		hedged     bool
	}{
		"temperature 0":       {"chat", plainZero, true},
		"another temperature": {"chat", gatewaytest.With(`"temperature":0.5`), false},
		"no temperature":      {"chat", gatewaytest.PlainHi, false},
		"a stream":            {"chat", gatewaytest.With(`"temperature":0,"stream":true`), false},
		"tools":               {"chat", gatewaytest.With(`"temperature":0,"tools":[{"type":"function","function":{"name":"f"}}]`), false},
		"stored":              {"chat", gatewaytest.With(`"temperature":0,"store":true`), false},
		"completions":         {"completions", `{"model":"m","temperature":0,"prompt":"Hi"}`, true},
		"messages":            {"messages", `{"model":"m","temperature":0,"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`, true},
		"messages with tools": {"messages", `{"model":"m","temperature":0,"max_tokens":9,"messages":[{"role":"user","content":"Hi"}],"tools":[{"name":"f","input_schema":{"type":"object"}}]}`, false},
		"a message at 0.1":    {"messages", `{"model":"m","temperature":0.1,"max_tokens":9,"messages":[{"role":"user","content":"Hi"}]}`, false},
		"responses":           {"responses", `{"model":"m","temperature":0,"store":false,"input":"Hi"}`, true},
		"a stored response":   {"responses", `{"model":"m","temperature":0,"input":"Hi"}`, false},
		"a response to one":   {"responses", `{"model":"m","temperature":0,"store":false,"previous_response_id":"r","input":"Hi"}`, false},
		"a later response":    {"responses", `{"model":"m","temperature":0,"store":false,"background":true,"input":"Hi"}`, false},
	} {
		answer := r.API(http.MethodPost, "/api/route/explain?door="+row.door, row.body).Is(t, http.StatusOK)
		if got := strings.Contains(answer.Body, `"hedge":{"afterMs":`); got != row.hedged {
			t.Errorf("%s: %s", name, answer.Body)
		}
	}
}

// A second call is made only where the model is in memory: to wait for it takes longer than
// the first call does, and would push out another model.
func TestASecondCallLoadsNoModel(t *testing.T) {
	t.Parallel()
	const body = `{"model":"m","temperature":0,"max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`
	a, b := startEngine(t, simulator.Ollama, 0.001), startEngine(t, simulator.Ollama, 0.001)
	r := gatewaytest.Start(t, strings.Replace(sleepyYAML("ollama", "", onlyM, a, b), "residency:", "hedge: {enabled: true}, residency:", 1))
	for range 60 {
		r.Chat(body).Succeeds(t)
	}
	slow, other := a, b
	if b.Engine().State().Loads > 0 {
		slow, other = b, a
	}
	if other.Engine().State().Loads > 0 {
		t.Fatal("both have the model; this test shows nothing")
	}
	pool := r.Current.Load().Service(schema.Chat).Find("m")
	ask := func() any {
		for range 1000 { // as if a quiet time had been, so that one is allowed
			pool.Watch.Called()
		}
		r.Chat(body).Succeeds(t)
		return gatewaytest.At(t, r.GetObject("/api/monitoring/calls?limit=1"), "calls/0").(map[string]any)["hedge"]
	}
	slow.Engine().Slow(500)
	if got := ask(); got != "refused" || other.Engine().State().Loads != 0 {
		t.Errorf("without the model the second call is %v, and it was loaded %d times", got, other.Engine().State().Loads)
	}
	host := strings.TrimPrefix(other.URL(), "http://")
	for _, state := range r.Residency.States(time.Now()) {
		if strings.Contains(state.Host, host) {
			host = state.Host
		}
	}
	if err := r.Residency.Load(t.Context(), host, "m", pool.Service.Policy.Residency); err != nil {
		t.Fatal(err)
	}
	slow.Engine().Slow(100_000)
	gatewaytest.Eventually(t, "the second call has won", func() bool { return ask() == "won" })
	gatewaytest.Eventually(t, "nothing is in flight", func() bool {
		return pool.Instances[0].InFlight() == 0 && pool.Instances[1].InFlight() == 0
	})
}
