package v1_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// passedDoor is a door whose requests pass to backends that have it too.
type passedDoor struct {
	name, path, service string
	body                string // empty: a form
	want                string // part of the reply
	tokens              bool   // usage is told
}

var passedDoors = []passedDoor{
	{"completions", "/v1/completions", "chat", `{"model":"m","prompt":"Once upon a time","user":"u"}`, `"object":"text_completion"`, true},
	{"moderations", "/v1/moderations", "chat", `{"model":"m","input":"HARM","user":"u"}`, `"flagged":true`, false},
	{"translations", "/v1/audio/translations", "stt", "", `"text":`, false},
}

func (d *passedDoor) send(r *gatewaytest.Gateway, path string) gatewaytest.Reply {
	if d.body != "" {
		return r.Post(path, d.body)
	}
	return r.PostForm(path, gatewaytest.Field("model", "m"), gatewaytest.Field("user", "u"), gatewaytest.Part{Name: "file", Filename: "a.wav", Value: "RIFF1234"})
}

// TestPassedDoorsKeepWhatEndpointsPromise tries failover, limits, ledger, metrics and
// records through each door.
func TestPassedDoorsKeepWhatEndpointsPromise(t *testing.T) {
	t.Parallel()
	for _, d := range passedDoors {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			bad, good := startBackend(t), startBackend(t)
			r := gatewaytest.Start(t, gatewaytest.QuotaOn+"services: {"+d.service+": {rate-limit: {capacity: 100, refill-rate: 1}, health-check: {enabled: false}, instances: [\n  "+
				gatewaytest.Instance("m", bad.URL(), "upstream-model: big", "weight: 1000000")+",\n  "+gatewaytest.Instance("m", good.URL(), "upstream-model: big")+"]}}\n")
			bad.ScriptForever(simulator.Step{Status: http.StatusInternalServerError})
			reply := d.send(r, d.path).Succeeds(t)
			if !strings.Contains(reply.Body, d.want) || strings.Contains(reply.Body, `"big"`) {
				t.Errorf("reply %s", reply.Body)
			}
			if attempts := reply.Header.Get("X-Router-Attempts"); attempts != "2" {
				t.Errorf("after %s attempts", attempts)
			}
			if seen := gatewaytest.OnlyRequest(t, good); seen.Path != d.path || !strings.Contains(string(seen.Body), "big") {
				t.Errorf("sent to %s: %s", seen.Path, seen.Body)
			}
			if limit := reply.Header.Get("X-Ratelimit-Limit-Requests"); limit != "100" {
				t.Errorf("the limit is told as %q", limit)
			}
			d.send(r, strings.TrimPrefix(d.path, "/v1")).Succeeds(t)
			gatewaytest.Eventually(t, "the requests are counted", func() bool {
				return gatewaytest.Sum(r.Scrape(), "model_router_door_requests_total", `service="`+d.service+`"`, `door="`+d.name+`"`, `status="success"`) == 2
			})
			gatewaytest.Eventually(t, "the ledger has the requests", func() bool {
				requests, tokens := gatewaytest.Counted(t, func() gatewaytest.Reply { return r.Do(http.MethodGet, gatewaytest.LongAgo, "") })
				return requests == 2 && (tokens > 0) == d.tokens
			})
			call := r.GetObject("/api/monitoring/calls?status=success&limit=1")
			if gatewaytest.At(t, call, "calls/0/door") != d.name || gatewaytest.At(t, call, "calls/0/service") != d.service {
				t.Errorf("record %v", call)
			}
		})
	}
}

func startBackend(t *testing.T) *simulator.Backend {
	t.Helper()
	b, err := simulator.Start(simulator.Options{Record: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestCompletionsAreStreamed(t *testing.T) {
	t.Parallel()
	for _, adapter := range []string{"openai", "ollama", "azure"} {
		t.Run(adapter, func(t *testing.T) {
			t.Parallel()
			b := startBackend(t)
			r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "adapter: "+adapter)))
			type text struct {
				ID      string `json:"id"`
				Object  string `json:"object"`
				Model   string `json:"model"`
				Choices []struct {
					Text         string `json:"text"`
					FinishReason string `json:"finish_reason"`
				} `json:"choices"`
				Usage struct {
					TotalTokens int `json:"total_tokens"`
				} `json:"usage"`
			}
			const body = `"model":"m","prompt":"Once upon a time"`
			whole := decode[text](t, r.Post("/v1/completions", `{`+body+`}`))
			for _, step := range []simulator.Step{{}, {Plain: true}} {
				b.Script(step)
				events := gatewaytest.EventsOf(t, r.Post("/v1/completions", `{`+body+`,"stream":true,"stream_options":{"include_usage":true}}`).Succeeds(t).Body)
				if events[len(events)-1] != "[DONE]" {
					t.Fatalf("events %q", events)
				}
				var said, id, finish string
				var last text
				for _, event := range events[:len(events)-1] {
					last = text{}
					if err := json.Unmarshal([]byte(event), &last); err != nil {
						t.Fatal(err)
					}
					if last.Object != "text_completion" || last.Model != "m" || id != "" && last.ID != id {
						t.Errorf("chunk %s", event)
					}
					id = last.ID
					for _, c := range last.Choices {
						said += c.Text
						if c.FinishReason != "" {
							finish = c.FinishReason
						}
					}
				}
				if said != whole.Choices[0].Text || finish != "stop" || len(last.Choices) != 0 || last.Usage.TotalTokens != whole.Usage.TotalTokens {
					t.Errorf("streamed %q, plain %q; finish %q, usage %+v of %+v", said, whole.Choices[0].Text, finish, last.Usage, whole.Usage)
				}
			}
			ctx, leave := context.WithCancel(t.Context())
			b.Script(simulator.Step{Stop: simulator.StopStall, After: 2})
			stream := r.Open(ctx, http.MethodPost, "/v1/completions", `{`+body+`,"stream":true}`)
			if _, err := stream.Body.Read(make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			leave()
			_ = stream.Body.Close()
			if err := b.WaitCancelled(gatewaytest.Deadline(t), 1); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCompletionsOfBackendsThatOnlyChat(t *testing.T) {
	t.Parallel()
	b := startBackend(t)
	for _, adapter := range []string{"anthropic", "gemini"} {
		r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL(), "adapter: "+adapter)))
		for _, d := range passedDoors[:2] {
			if reply := d.send(r, d.path); reply.Status != http.StatusBadRequest || !strings.Contains(reply.Body, d.name) {
				t.Errorf("%s, %s: %d %s", adapter, d.name, reply.Status, reply.Body)
			}
		}
	}
	if seen := b.Requests(); len(seen) > 0 {
		t.Errorf("%d requests were sent", len(seen))
	}
}

func TestCompletionsAreChecked(t *testing.T) {
	t.Parallel()
	b := startBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL())))
	for body, param := range map[string]string{
		`{"model":"m"}`:                                  "prompt",
		`{"model":"m","prompt":[]}`:                      "prompt",
		`{"model":"m","prompt":["a",1]}`:                 "prompt",
		`{"model":"m","prompt":{}}`:                      "prompt",
		`{"model":"m","prompt":"a","suffix":1}`:          "suffix",
		`{"model":"m","prompt":"a","echo":"yes"}`:        "echo",
		`{"model":"m","prompt":"a","logprobs":true}`:     "logprobs",
		`{"model":"m","prompt":"a","n":1.5}`:             "n",
		`{"model":"m","prompt":"a","best_of":"2"}`:       "best_of",
		`{"model":"m","prompt":"a","temperature":3}`:     "temperature",
		`{"model":"m","prompt":"a","stream_options":[]}`: "stream_options",
		`{"prompt":"a"}`:                                 "model",
	} {
		if reply := r.Post("/v1/completions", body); reply.Status != http.StatusBadRequest || !strings.Contains(reply.Body, `"param":"`+param+`"`) {
			t.Errorf("%s: %d %s", body, reply.Status, reply.Body)
		}
	}
	for body, param := range map[string]string{`{"model":"m"}`: "input", `{"model":"m","input":[]}`: "input", `{"model":"m","input":[1]}`: "input"} {
		if reply := r.Post("/v1/moderations", body); reply.Status != http.StatusBadRequest || !strings.Contains(reply.Body, `"param":"`+param+`"`) {
			t.Errorf("%s: %d %s", body, reply.Status, reply.Body)
		}
	}
	if seen := b.Requests(); len(seen) > 0 {
		t.Errorf("%d requests were sent", len(seen))
	}
}
