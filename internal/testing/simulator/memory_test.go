package simulator

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/patchbay-ai/patchbay/internal/testing/simulator/engine"
)

// oneAtATime is an engine with room for one model, which takes 5 s to load and 2 to wake up.
var oneAtATime = engine.Spec{Block: 10, Cache: 1000, Request: 1, Decode: 0.1, Room: 1, Load: 5, Wake: 2}

// sinceThen returns how long ago something began, without the nanosecond that sums of
// fractions of seconds can be off by.
func sinceThen(began time.Time) time.Duration { return time.Since(began).Round(time.Microsecond) }

// do sends a request and returns its status, its answer, and how long that took.
func (c *clocked) do(method, path, body string) (status int, text string, took time.Duration) {
	c.t.Helper()
	began := time.Now()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.URL()+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return 0, err.Error(), sinceThen(began)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error(), sinceThen(began)
	}
	return response.StatusCode, string(all), sinceThen(began)
}

// chat asks a model for one token, which takes a second if the model is there.
func (c *clocked) chat(model string) (status int, text string, took time.Duration) {
	c.t.Helper()
	return c.do("POST", "/v1/chat/completions", fmt.Sprintf(`{"model":%q,"max_tokens":1,"ignore_eos":true,"messages":[{"role":"user","content":"hi"}]}`, model))
}

// TestEnginesLoadOnRequest asks engines of each shape for two models of which one fits.
func TestEnginesLoadOnRequest(t *testing.T) {
	for kind, shape := range map[Kind]struct{ path, m, both, other string }{
		Ollama:      {"/api/ps", `"name":"m:latest"`, `"name":"n:latest"`, `"models":[]`},
		LlamaRouter: {"/models", `"id":"m","aliases":[],"tags":[],"object":"model","owned_by":"llamacpp","created":1767225600,"status":{"value":"loaded"`, `"status":{"value":"loading"`, `"id":"n","aliases":[],"tags":[],"object":"model","owned_by":"llamacpp","created":1767225600,"status":{"value":"unloaded"`},
		LlamaSwap:   {"/running", `"model":"m","state":"ready"`, `"model":"n","state":"starting"`, `"running":[]`},
	} {
		onClock(t, kind, oneAtATime, func(c *clocked) {
			if told := c.get(shape.path); !strings.Contains(told, shape.other) {
				t.Errorf("kind %d: before anything was asked: %s", kind, told)
			}
			var took []time.Duration
			for _, model := range []string{"m", "m", "n", "m"} {
				status, text, d := c.chat(model)
				if took = append(took, d); status != http.StatusOK {
					t.Errorf("kind %d: %d %s", kind, status, text)
				}
			}
			if diff := cmp.Diff([]time.Duration{6 * time.Second, time.Second, 6 * time.Second, 6 * time.Second}, took); diff != "" {
				t.Errorf("kind %d: %s", kind, diff)
			}
			if told := c.get(shape.path); !strings.Contains(told, shape.m) {
				t.Errorf("kind %d: with m in memory: %s", kind, told)
			}
			done := make(chan int)
			go func() {
				status, _, _ := c.chat("n")
				done <- status
			}()
			<-time.After(time.Second)
			if told := c.get(shape.path); !strings.Contains(told, shape.both) {
				t.Errorf("kind %d: while n is loaded: %s", kind, told)
			}
			<-done
			if s := c.Engine().State(); s.Loads != 4 || s.Evictions != 3 {
				t.Errorf("kind %d: %d loads and %d evictions", kind, s.Loads, s.Evictions)
			}
		}, "n")
	}
}

// TestModelInUseIsNotThrownOut lets a request for another model come while one is answered.
func TestModelInUseIsNotThrownOut(t *testing.T) {
	onClock(t, Ollama, oneAtATime, func(c *clocked) {
		done := make(chan error)
		go func() {
			_, _, err := c.post("/v1/chat/completions", "hi", `,"max_tokens":100`) // until 15.9 s
			done <- err
		}()
		<-time.After(8 * time.Second)
		if _, _, took := c.chat("n"); took != 13900*time.Millisecond {
			t.Errorf("the other model answered after %s", took)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}, "n")
}

func TestOllamaKeepsModelsAsLongAsItIsTold(t *testing.T) {
	keeping := oneAtATime
	keeping.Room, keeping.Keep = 2, 300
	onClock(t, Ollama, keeping, func(c *clocked) {
		ask := func(path, more string) string {
			_, text, _ := c.do("POST", path, `{"model":"m"`+more+`}`)
			return text
		}
		models := func() int { return len(c.Engine().State().Models) }
		if text := ask("/api/generate", ""); !strings.Contains(text, `"done_reason":"load"`) || models() != 1 {
			t.Errorf("%d models after %s", models(), text)
		}
		if <-time.After(299 * time.Second); models() != 1 {
			t.Error("the model has gone before its time")
		}
		if <-time.After(2 * time.Second); models() != 0 {
			t.Error("the model has not gone")
		}
		ask("/api/chat", `,"keep_alive":-1`)
		if <-time.After(time.Hour); models() != 1 {
			t.Error("the model has gone that should stay for ever")
		}
		if text := ask("/api/generate", `,"keep_alive":0`); !strings.Contains(text, `"done_reason":"unload"`) || models() != 0 {
			t.Errorf("%d models after %s", models(), text)
		}
		ask("/api/embed", `,"input":"a","keep_alive":"10s"`)
		if <-time.After(9 * time.Second); models() != 1 {
			t.Error("the model of an embedding is not loaded")
		}
		if <-time.After(2 * time.Second); models() != 0 {
			t.Error("the model stays longer than it was said")
		}
	})
}

func TestVLLMSleepsUntilItIsWoken(t *testing.T) {
	awake := oneAtATime
	awake.Room = 0
	onClock(t, VLLM, awake, func(c *clocked) {
		for level, wakes := range map[int]time.Duration{1: 2 * time.Second, 2: 5 * time.Second} {
			c.do("POST", fmt.Sprintf("/sleep?level=%d", level), "")
			if told := c.get("/is_sleeping"); told != `{"is_sleeping":true}` {
				t.Error(told)
			}
			if told := c.get("/metrics"); !strings.Contains(told, `sleep_state="awake"} 0`) {
				t.Error(told)
			}
			done := make(chan time.Duration)
			go func() {
				_, _, took := c.chat("m")
				done <- took
			}()
			<-time.After(10 * time.Second)
			if _, _, took := c.do("POST", "/wake_up", ""); took != wakes {
				t.Errorf("waking up from level %d took %s", level, took)
			}
			if took := <-done; took != 10*time.Second+wakes+time.Second {
				t.Errorf("a request that found it asleep took %s", took)
			}
			if told := c.get("/is_sleeping"); told != `{"is_sleeping":false}` {
				t.Error(told)
			}
		}
		if s := c.Engine().State(); s.Wakes != 2 {
			t.Errorf("it was woken %d times", s.Wakes)
		}
	})
}

// TestModelsAreLoadedAndUnloadedByRequest uses what llama.cpp's router and llama-swap have
// for that.
func TestModelsAreLoadedAndUnloadedByRequest(t *testing.T) {
	onClock(t, LlamaRouter, oneAtATime, func(c *clocked) {
		for n, step := range []struct {
			path, model string
			status      int
			text        string
			models      int
		}{
			{"/models/load", "m", 200, `{"success":true}`, 1},
			{"/models/load", "m", 400, "already running", 1},
			{"/models/load", "x", 404, "not_found_error", 1},
			{"/models/unload", "m", 200, `{"success":true}`, 0},
			{"/models/unload", "m", 400, "is not running", 0},
			{"/models/load", "m", 500, "model limit reached", 0},
			{"/models/load", "m", 200, `{"success":true}`, 1},
		} {
			status, text, took := c.do("POST", step.path, fmt.Sprintf(`{"model":%q}`, step.model))
			if status != step.status || !strings.Contains(text, step.text) || took != 0 || len(c.Engine().State().Models) != step.models {
				t.Errorf("%d: %d %s after %s, %v", n, status, text, took, c.Engine().State().Models)
			}
		}
	})
	onClock(t, LlamaSwap, oneAtATime, func(c *clocked) {
		for _, path := range []string{"POST /api/models/unload/m", "POST /api/models/unload", "GET /unload"} {
			if status, _, took := c.do("GET", "/upstream/m/health", ""); status != http.StatusOK || took != 5*time.Second {
				t.Errorf("status %d after %s", status, took)
			}
			method, path, _ := strings.Cut(path, " ")
			if status, text, _ := c.do(method, path, ""); status != http.StatusOK || len(c.Engine().State().Models) != 0 {
				t.Errorf("%s: %d %s", path, status, text)
			}
		}
		if status, _, _ := c.do("POST", "/api/models/unload/x", ""); status != http.StatusNotFound {
			t.Errorf("unloading what is not known: %d", status)
		}
	})
}

// TestLoadsThatGoWrong has a wake that hangs, fails, lies and kills the engine.
func TestLoadsThatGoWrong(t *testing.T) {
	onClock(t, Ollama, oneAtATime, func(c *clocked) {
		with := func(f engine.Fault) (int, time.Duration, int) {
			c.Engine().SetFault(f)
			status, _, took := c.do("POST", "/api/generate", `{"model":"m"}`)
			return status, took, len(c.Engine().State().Models)
		}
		if status, took, models := with(engine.Fails); status != 500 || took != 5*time.Second || models != 0 {
			t.Errorf("a load that fails: %d after %s", status, took)
		}
		if status, took, models := with(engine.Lies); status != 200 || took != 0 || models != 0 {
			t.Errorf("a load that is a lie: %d after %s", status, took)
		}
		if status, took, models := with(engine.Dies); status != 0 || took != 2500*time.Millisecond || models != 0 {
			t.Errorf("a load that kills: %d after %s", status, took)
		}
		c.http.Timeout = time.Hour
		if status, took, _ := with(engine.Hangs); status != 0 || took != time.Hour {
			t.Errorf("a load that hangs: %d after %s", status, took)
		}
		synctest.Wait()
		if models := c.Engine().State().Models; len(models) != 0 {
			t.Errorf("a load that was given up: %v", models)
		}
		if status, took, models := with(engine.Works); status != 200 || took != 5*time.Second || models != 1 {
			t.Errorf("a load that works again: %d after %s", status, took)
		}
	})
	onClock(t, LlamaSwap, oneAtATime, func(c *clocked) {
		c.http.Timeout = time.Second
		c.chat("m")
		synctest.Wait()
		if <-time.After(4 * time.Second); len(c.Engine().State().Loading) != 0 || len(c.Engine().State().Models) != 1 {
			t.Errorf("llama-swap gives up what nobody waits for: %+v", c.Engine().State())
		}
	})
}
