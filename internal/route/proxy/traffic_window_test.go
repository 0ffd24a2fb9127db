package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// windowed starts a backend with a context window of so many tokens, 0 for none.
func windowed(t *testing.T, window int) *simulator.Backend {
	t.Helper()
	b, err := simulator.Start(simulator.Options{Record: true, Window: window})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// of is an instance of a model with a written window.
func of(model string, b *simulator.Backend, window int, more ...string) string {
	return gatewaytest.Instance(model, b.URL(), append(more, fmt.Sprint("context-window: ", window))...)
}

// saying is a chat with a text of so many bytes; the simulator counts four bytes as a token.
func saying(bytes int) string {
	return `{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("ab cdefg", bytes/8) + `"}]}`
}

func calls(backends ...*simulator.Backend) (all []int) {
	for _, b := range backends {
		all = append(all, len(b.Requests()))
	}
	return all
}

func TestPromptsGoToInstancesThatHoldThem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		small, large int // the written windows
		real         int // of the small one
		body         string
		fallback     bool
		want         []int // calls of the small one, the large one
	}{
		"a short prompt":           {1000, 100_000, 1000, saying(800), false, []int{1, 0}},
		"likely too long":          {1000, 100_000, 1000, saying(8000), false, []int{0, 1}},
		"certainly too long":       {1000, 100_000, 1000, saying(80_000), false, []int{0, 1}},
		"an unknown window":        {0, 100_000, 1000, saying(8000), false, []int{1, 1}},
		"the backend knows better": {5000, 100_000, 1000, saying(8000), false, []int{1, 1}},
		"a fallback":               {5000, 100_000, 1000, saying(8000), true, []int{1, 1}},
		"a fallback, at once":      {1000, 100_000, 1000, saying(80_000), true, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			small, large := windowed(t, c.real), windowed(t, 0)
			model, policy := "m", ""
			if c.fallback {
				model, policy = "n", "fallbacks: {m: [n]}, fallback-on: [context], "
			}
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML(policy+gatewaytest.NoBreakerNoChecks+", load-balancer: round-robin",
				of("m", small, c.small), of(model, large, c.large)))
			r.Chat(c.body).Succeeds(t)
			if got := calls(small, large); fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("got %v calls, want %v", got, c.want)
			}
			if _, failures, _ := gatewaytest.Outcomes(r.Instances("m")[0]); failures != 0 {
				t.Errorf("got %d failures of an instance that is well, want 0", failures)
			}
		})
	}
}

func TestPromptsThatNothingHoldsAreRefusedBeforeACall(t *testing.T) {
	t.Parallel()
	small, down := windowed(t, 1000), windowed(t, 0)
	long := saying(80_000)
	for name, c := range map[string]struct {
		more   string // settings of the service
		second string // another instance
		model  string // of it, if its breaker is open
		status int
		code   string
	}{
		"one instance":                 {"", "", "", 400, "context_length_exceeded"},
		"a larger one is disabled":     {"", of("m", down, 100_000, "enabled: false"), "", 400, "context_length_exceeded"},
		"a larger one is down":         {"", of("m", down, 100_000), "m", 503, "circuit_breaker_open"},
		"a fallback for other reasons": {"fallbacks: {m: [n]}, fallback-on: [unavailable], ", of("n", down, 100_000), "", 400, "context_length_exceeded"},
		"a fallback that is small":     {"fallbacks: {m: [n]}, ", of("n", down, 2000), "", 400, "context_length_exceeded"},
		"a fallback that is down":      {"fallbacks: {m: [n]}, ", of("n", down, 100_000), "n", 503, "service_unavailable"},
	} {
		instances := []string{of("m", small, 1000)}
		if c.second != "" {
			instances = append(instances, c.second)
		}
		r := gatewaytest.Start(t, gatewaytest.PolicyYAML(c.more+gatewaytest.NoChecks, instances...))
		if c.status == 503 {
			r.API(http.MethodPost, "/api/config/instance/circuit-breaker/chat", fmt.Sprintf(`{"instanceId":"%s@%s","state":"OPEN"}`, c.model, down.URL())).Is(t, 200)
		}
		reply := r.Chat(long)
		if reply.Status != c.status || !strings.Contains(reply.Body, `"code":"`+c.code+`"`) || !strings.Contains(reply.Body, `"reason":"context_window"`) {
			t.Errorf("%s: got %d %s, want %d %s", name, reply.Status, reply.Body, c.status, c.code)
		}
	}
	if got := calls(small, down); got[0]+got[1] != 0 {
		t.Errorf("got %v calls, want none", got)
	}
}

func TestTruncationIsLeftToTheBackend(t *testing.T) {
	t.Parallel()
	b := windowed(t, 0)
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks, of("m", b, 1000)))
	r.Chat(strings.Replace(saying(80_000), `{`, `{"truncate_prompt_tokens":900,`, 1)).Succeeds(t)
}

// TestTooLongIsSaidInTheWordsOfEachAPI sends long prompts, to a gateway that knows the window and to one
// that learns it from the error of the backend.
func TestTooLongIsSaidInTheWordsOfEachAPI(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("ab cdefg", 10_000)
	message := `[{"role":"user","content":"` + text + `"}]`
	for name, c := range map[string]struct{ path, body, want string }{
		"chat":      {"/v1/chat/completions", `{"model":"m","messages":` + message + `}`, `"code":"context_length_exceeded"` + "|This model's maximum context length is 1000 tokens. "},
		"responses": {"/v1/responses", `{"model":"m","input":` + message + `}`, `"code":"context_length_exceeded"` + "|This model's maximum context length is 1000 tokens. "},
		"messages":  {"/v1/messages", `{"model":"m","max_tokens":9,"messages":` + message + `}`, `"type":"invalid_request_error"|"prompt is too long: 20|> 1000 maximum"`},
		"gemini":    {"/v1beta/models/m:generateContent", `{"contents":[{"role":"user","parts":[{"text":"` + text + `"}]}]}`, `"code":400|"INVALID_ARGUMENT"|"The input token count (20|exceeds the maximum number of tokens allowed (1000)`},
		"ollama":    {"/ollama/api/chat", `{"model":"m","messages":` + message + `}`, `"error":"the input length exceeds the context length: 20`},
		"a stream":  {"/v1/messages", `{"model":"m","stream":true,"max_tokens":9,"messages":` + message + `}`, `"prompt is too long: 20|> 1000 maximum"`},
	} {
		for _, kind := range []simulator.Kind{simulator.VLLM, simulator.LlamaCpp} {
			for _, known := range []int{0, 1000} {
				b, err := simulator.Start(simulator.Options{Window: 1000, Kind: kind})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(b.Close)
				r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks, of("m", b, known)))
				reply := r.Do(http.MethodPost, c.path, c.body)
				for want := range strings.SplitSeq(c.want, "|") {
					if reply.Status != 400 || !strings.Contains(reply.Body, want) {
						t.Errorf("%s, window %d: got %d %s, want %s", name, known, reply.Status, reply.Body, want)
					}
				}
			}
		}
	}
}

func TestAnEngineCountsPromptsThatAreAboutAsLongAsItsWindow(t *testing.T) {
	t.Parallel()
	small, large := windowed(t, 2100), windowed(t, 0) // it counts each character as a token
	adapter := "adapter: vllm"
	r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks,
		of("m", small, 2100, adapter), of("m", large, 100_000, adapter)))
	// A busy machine may not count in time, and then the estimate decides.
	gatewaytest.Eventually(t, "the engine has counted", func() bool {
		r.Chat(saying(8000)).Succeeds(t)
		return len(large.Requests()) > 0
	})
	before := len(small.Requests())
	for range 3 {
		r.Chat(saying(8000)).Succeeds(t)
	}
	if got := len(small.Requests()); got != before || len(large.Requests()) != 4 {
		t.Errorf("got %d requests for the small instance and %d calls of the large one, want none and 3: the count is remembered",
			got-before, len(large.Requests())-1)
	}
	alone := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks, of("m", small, 2100, adapter)))
	alone.Chat(saying(8000)).Succeeds(t)
	if got := len(small.Requests()); got != before+1 {
		t.Errorf("got %d requests, want the call alone: nothing else could take it", got-before)
	}
}

// TestExplainAndRecordsNameTheWindow asks for the reason of instances that are passed over because of their
// window, and compares it with what becomes of the request.
func TestExplainAndRecordsNameTheWindow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		window int // of the smaller instance, 0 for unknown
		bytes  int
		want   string // the code of the reason
	}{
		"certainly too long": {1000, 80_000, "instance.window"},
		"likely too long":    {1000, 8000, "instance.narrow"},
		"an unknown window":  {0, 8000, "instance.narrow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			small, large, narrow := windowed(t, 0), windowed(t, 0), windowed(t, 0)
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks,
				of("m", small, c.window), of("m", large, 100_000), of("m", narrow, 1000)))
			explained := r.API(http.MethodPost, "/api/route/explain?door=chat", saying(c.bytes)).Is(t, 200)
			type candidate struct {
				Said []struct {
					Code string `json:"code"`
				} `json:"said"`
			}
			got := gatewaytest.DataOf[struct {
				Candidates []candidate `json:"candidates"`
			}](t, explained).Candidates
			if len(got) != 3 || len(got[0].Said) != 1 || got[0].Said[0].Code != c.want || len(got[1].Said) != 0 || len(got[2].Said) != 1 {
				t.Errorf("got %+v, want %s, nothing, and a reason", got, c.want)
			}
			r.Chat(saying(c.bytes)).Succeeds(t)
			if got := calls(small, large, narrow); fmt.Sprint(got) != "[0 1 0]" {
				t.Errorf("got %v calls, want the larger instance alone", got)
			}
			if records := r.Do(http.MethodGet, "/api/monitoring/calls", "").Succeeds(t).Body; !strings.Contains(records, `"ready":1,"passedOver":{"context_window":2}`) {
				t.Errorf("got %s, want two instances with the reason context_window", records)
			}
		})
	}
}
