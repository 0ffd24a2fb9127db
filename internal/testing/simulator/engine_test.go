package simulator

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// slowEngine needs 10 ms for a token of a prompt, a second for a request and 100 ms for a
// token of an answer.
var slowEngine = engine.Spec{Block: 10, Cache: 1000, Token: 0.01, Request: 1, Decode: 0.1}

// words returns a text of so many tokens, which begins in the same way for the same name.
func words(name string, tokens int) string { return strings.Repeat(name+" ", tokens-1) + name }

// clocked is a backend with an engine on a fake clock.
type clocked struct {
	*Backend
	t    *testing.T
	http http.Client
}

// onClock runs a test with a backend that has an engine and the model m, on a fake clock.
func onClock(t *testing.T, kind Kind, spec engine.Spec, test func(c *clocked), more ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listener := newPipeListener()
		b, err := Start(Options{Listener: listener, Engine: &spec, Kind: kind, Models: append([]string{"m"}, more...)})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		transport := &http.Transport{DialContext: listener.dial}
		defer transport.CloseIdleConnections()
		test(&clocked{b, t, http.Client{Transport: transport}})
	})
}

// post sends a chat and returns when each line of the answer came and what it was.
func (c *clocked) post(path, prompt, more string) (times []time.Duration, lines []string, err error) {
	c.t.Helper()
	began := time.Now()
	body := fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],"ignore_eos":true%s}`, prompt, more)
	response, err := c.http.Post(c.URL()+path, "application/json", strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		c.t.Errorf("status %d", response.StatusCode)
	}
	scanner := bufio.NewScanner(response.Body)
	for scanner.Scan() {
		if line := strings.TrimPrefix(scanner.Text(), "data: "); line != "" {
			times, lines = append(times, time.Since(began)), append(lines, line)
		}
	}
	return times, lines, scanner.Err()
}

func (c *clocked) get(path string) string {
	c.t.Helper()
	response, err := c.http.Get(c.URL() + path)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(text)
}

const streamed = `,"stream":true,"stream_options":{"include_usage":true},"max_tokens":4`

func TestEngineTakesTheTimeOfItsPrefillAndTokens(t *testing.T) {
	ms := func(list ...int) (times []time.Duration) {
		for _, n := range list {
			times = append(times, time.Duration(n)*time.Millisecond)
		}
		return times
	}
	onClock(t, VLLM, slowEngine, func(c *clocked) {
		// The role comes at once, then four tokens; what follows the last token comes with it.
		times, lines, _ := c.post("/v1/chat/completions", words("a", 100), streamed)
		if diff := cmp.Diff(ms(0, 2000, 2100, 2200, 2300, 2300, 2300, 2300), times); diff != "" {
			t.Errorf("a stream: %s\n%s", diff, strings.Join(lines, "\n"))
		}
		if usage := lines[len(lines)-2]; !strings.Contains(usage, `"prompt_tokens":100,"completion_tokens":4,`) || !strings.Contains(usage, `"cached_tokens":0,`) {
			t.Errorf("usage is wrong: %s", usage)
		}
		// Of the next prompt 90 tokens are cached, of the one after that everything but one.
		times, lines, _ = c.post("/v1/chat/completions", words("a", 99)+" b", `,"max_tokens":3`)
		if diff := cmp.Diff(ms(1100+200), times); diff != "" || !strings.Contains(lines[0], `"cached_tokens":90,`) {
			t.Errorf("a plain answer: %s\n%s", diff, lines)
		}
		times, lines, _ = c.post("/v1/chat/completions", words("a", 100), `,"max_tokens":1`)
		if diff := cmp.Diff(ms(1010), times); diff != "" || !strings.Contains(lines[0], `"cached_tokens":99,`) {
			t.Errorf("a prompt that is cached: %s\n%s", diff, lines)
		}
		if _, lines, _ = c.post("/v1/chat/completions", words("c", 100), `,"max_tokens":1`); !strings.Contains(lines[0], `"cached_tokens":0,`) {
			t.Errorf("a prompt that begins with something else is cached: %s", lines)
		}
		if s := c.Engine().State(); s.Requests != 4 || s.Tokens != 400 || s.Cached != 189 || s.Outputs != 9 {
			t.Errorf("the engine has counted %+v", s.Totals)
		}
	})
	fast := slowEngine
	fast.Decode = 0.002
	onClock(t, VLLM, fast, func(c *clocked) {
		times, lines, _ := c.post("/v1/chat/completions", words("a", 100), `,"stream":true,"max_tokens":25`)
		if diff := cmp.Diff(ms(0, 2000, 2020, 2040, 2048, 2048, 2048), times); diff != "" {
			t.Errorf("tokens of a fast engine come together: %s\n%s", diff, strings.Join(lines, "\n"))
		}
	})
}

func TestEngineTellsWhatItDid(t *testing.T) {
	onClock(t, LlamaCpp, slowEngine, func(c *clocked) {
		_, lines, _ := c.post("/v1/chat/completions", words("a", 100), streamed)
		if got, want := lines[len(lines)-2], `"timings":{"cache_n":0,"prompt_n":100,"prompt_ms":2000,"predicted_n":4,"predicted_ms":400}`; !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	})
	loading := slowEngine
	loading.Room, loading.Load = 1, 3
	onClock(t, Ollama, loading, func(c *clocked) {
		times, lines, _ := c.post("/api/chat", words("a", 100), `,"options":{"num_predict":4}`)
		last := lines[len(lines)-1]
		for _, want := range []string{`"load_duration":3000000000,`, `"prompt_eval_count":100,`, `"prompt_eval_duration":2000000000,`, `"eval_duration":400000000`} {
			if !strings.Contains(last, want) {
				t.Errorf("%s is not in %s", want, last)
			}
		}
		if times[0] != 5*time.Second {
			t.Errorf("the first token took %s", times[0])
		}
	})
}

// TestEngineTellsItsQueue looks at an engine that reads one prompt, writes an answer and has
// two requests that wait, in the shape of each kind.
func TestEngineTellsItsQueue(t *testing.T) {
	busy := slowEngine
	busy.Slots = 2
	at := map[Kind]map[string][]string{
		VLLM: {"/metrics": {
			`vllm:num_requests_running{engine="0",model_name="m"} 2`, `vllm:num_requests_waiting{engine="0",model_name="m"} 2`,
			`vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.1`, `num_gpu_blocks="100"`, `block_size="10"`, "\nprocess_start_time_seconds 9466848",
		}},
		LlamaCpp: {
			"/metrics": {"llamacpp:requests_processing 2\n", "llamacpp:requests_deferred 2\n", "llamacpp:prompt_tokens_total 200\n"},
			"/slots":   {`"n_ctx":500,`, `"is_processing":true,"id_task":2,"next_token":[{"has_next_token":true,"n_decoded":0}]}`, `"n_decoded":1`},
			"/props":   {`"n_ctx":500`, `"total_slots":2`},
		},
		Ollama: {"/api/ps": {`"name":"m:latest"`}},
	}
	for kind, paths := range at {
		onClock(t, kind, busy, func(c *clocked) {
			done := make(chan error)
			for n := range 4 {
				go func() {
					_, _, err := c.post("/v1/chat/completions", words(fmt.Sprint(n), 100), `,"max_tokens":50`)
					done <- err
				}()
			}
			<-time.After(2500 * time.Millisecond) // the first is answered, the second is read
			for path, wants := range paths {
				told := c.get(path)
				for _, want := range wants {
					if !strings.Contains(told, want) {
						t.Errorf("kind %d, %s: %q is not in\n%s", kind, path, want, told)
					}
				}
				if path != "/metrics" && json.Unmarshal([]byte(told), new(any)) != nil {
					t.Errorf("kind %d, %s is no JSON:\n%s", kind, path, told)
				}
				c.Lie(&Lie{Number: "NaN", Model: "other"})
				if lie := c.get(path); lie == told || !strings.Contains(lie, "NaN") {
					t.Errorf("kind %d, %s: no lie is\n%s", kind, path, lie)
				}
				c.Lie(nil)
			}
			for range 4 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestEngineThatRestartsCutsOffAndForgets(t *testing.T) {
	onClock(t, VLLM, slowEngine, func(c *clocked) {
		type end struct {
			lines []string
			err   error
		}
		ends := make(chan end)
		ask := func(prompt string) {
			go func() {
				_, lines, err := c.post("/v1/chat/completions", prompt, `,"stream":true,"max_tokens":100`)
				ends <- end{lines, err}
			}()
		}
		ask(words("a", 100))
		<-time.After(2500 * time.Millisecond)
		ask(words("b", 100))
		<-time.After(time.Second)
		c.Engine().Restart()
		for range 2 {
			if e := <-ends; e.err == nil || strings.Contains(strings.Join(e.lines, ""), "[DONE]") {
				t.Errorf("an answer was complete: %v", e.err)
			}
		}
		if _, lines, _ := c.post("/v1/chat/completions", words("a", 100), `,"max_tokens":1`); !strings.Contains(lines[0], `"cached_tokens":0,`) {
			t.Errorf("after a restart something is cached: %s", lines)
		}
	})
}

func TestEngineForgetsRequestsOfClientsThatLeft(t *testing.T) {
	onClock(t, VLLM, slowEngine, func(c *clocked) {
		c.http.Timeout = 500 * time.Millisecond
		if _, _, err := c.post("/v1/chat/completions", words("a", 1000), `,"max_tokens":1`); err == nil {
			t.Error("the client has waited")
		}
		c.http.Timeout = 0
		synctest.Wait()
		if s := c.Engine().State(); s.Reading+s.Waiting != 0 {
			t.Errorf("%d requests are read and %d wait", s.Reading, s.Waiting)
		}
	})
}
