package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/breaker"
	"github.com/patchbay-ai/patchbay/internal/schema"
	"github.com/patchbay-ai/patchbay/internal/simulator"
)

// A backend that has one answer whatever the request says is well; the caller is
// told what came.
func TestFewerChoicesThanAskedForAreNoFailure(t *testing.T) {
	one, two := startBackend(t), startBackend(t)
	step := simulator.Step{Body: oddReply}
	one.ScriptForever(step)
	two.ScriptForever(step)
	r := startGateway(t, unwatchedYAML("chat", instance("m", one.URL()), instance("m", two.URL())))
	const calls = 12
	for range calls {
		answer := r.chat(`{"model":"m","n":3,"messages":[{"role":"user","content":"hi"}]}`)
		fault := answer.failsWith(t, 502, "api_error", "upstream_error", "")
		if fault.Message != "The backend gave 1 choice where 3 were asked for." || answer.header.Get("X-Router-Attempts") != "1" {
			t.Errorf("%q after %s attempts", fault.Message, answer.header.Get("X-Router-Attempts"))
		}
	}
	for _, i := range r.instances("m") {
		closedAfter(t, i, calls/2)
	}
}

func TestAWrongNumberOfVectorsIsTold(t *testing.T) {
	r, b := startService(t)
	b.ScriptForever(simulator.Step{Body: `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,2]}],"model":"m"}`})
	fault := r.post("/v1/embeddings", `{"model":"m","input":["a","b"]}`).failsWith(t, 502, "api_error", "upstream_error", "")
	if fault.Message != "The backend gave 1 vector where 2 were asked for." {
		t.Error(fault.Message)
	}
	i := r.serving(schema.Embedding)[0]
	eventually(t, "nothing is in flight", func() bool { return i.InFlight() == 0 })
	if i.Ended(breaker.Failure) == 0 {
		t.Error("nobody can tell whose the vector is, and the instance is not charged with it")
	}
}

// Clients such as LangChain send token ids unless they are told not to. Whoever
// refuses them, the caller learns what to set.
func TestTokenIDsThatAreRefusedNameTheRemedy(t *testing.T) {
	const remedy = "check_embedding_ctx_length=False"
	b := startBackend(t)
	b.ScriptForever(simulator.Step{Status: 422, Body: simulator.ErrorText("input must be text")})
	for adapter, status := range map[string]int{"ollama": 400, "gemini": 400, "openai": 422} {
		r := startGateway(t, unwatchedYAML("embedding", instance("m", b.URL(), "adapter: "+adapter)))
		for _, input := range []string{"[1,2]", "[[1,2],[3]]"} {
			answer := r.do(http.MethodPost, "/v1/embeddings", `{"model":"m","input":`+input+`}`)
			if fault := faultOf(t, answer.body); answer.status != status || !strings.Contains(fault.Message, remedy) {
				t.Errorf("%s, %s: status %d, %s", adapter, input, answer.status, fault.Message)
			}
		}
		if fault := faultOf(t, r.do(http.MethodPost, "/v1/embeddings", `{"model":"m","input":"text"}`).body); strings.Contains(fault.Message, remedy) {
			t.Errorf("%s: a text is told %s", adapter, fault.Message)
		}
	}
}

// A caller that asked for the events of a transcript reads nothing else; a backend
// that has none gets its answer told as such.
func TestAWholeTranscriptIsToldAsEvents(t *testing.T) {
	const head = `data: {"type":"transcript.text.delta","delta":"a \"b\""}` + "\n\n" + `data: {"type":"transcript.text.done",`
	for name, c := range map[string]struct {
		step   simulator.Step
		format string
		want   string
		tokens float64
	}{
		"JSON": {
			simulator.Step{Body: "{\n  \"text\": \"a \\\"b\\\"\",\n  \"usage\": {\"type\":\"tokens\",\"input_tokens\":14,\"output_tokens\":3,\"total_tokens\":17}\n}"}, "json",
			head + `"text":"a \"b\"","usage":{"type":"tokens","input_tokens":14,"output_tokens":3,"total_tokens":17}}`, 17,
		},
		"with segments": {
			simulator.Step{Body: `{"text":"a \"b\"","segments":[{"id":0,"start":0.50}]}`}, "verbose_json",
			head + `"text":"a \"b\"","segments":[{"id":0,"start":0.50}]}`, 0,
		},
		"text":                                   {simulator.Step{Body: `a "b"`, Header: typed("text/plain")}, "text", head + `"text":"a \"b\""}`, 0},
		"text for JSON, as whisper.cpp gives it": {simulator.Step{Body: `a "b"`, Header: typed("text/html")}, "", head + `"text":"a \"b\""}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := startService(t, c.step)
			parts := []part{field("model", "m"), recording(), field("stream", "true")}
			if c.format != "" {
				parts = append(parts, field("response_format", c.format))
			}
			answer := r.postForm("/v1/audio/transcriptions", parts...).succeeds(t)
			if want := c.want + "\n\ndata: [DONE]\n\n"; answer.body != want || !strings.HasPrefix(answer.header.Get("Content-Type"), "text/event-stream") {
				t.Errorf("%s\n%s\nwant\n%s", answer.header.Get("Content-Type"), answer.body, want)
			}
			eventually(t, "the tokens are counted", func() bool { return sum(r.scrape(), "model_router_tokens_total") == c.tokens })
		})
	}
	t.Run("an error", func(t *testing.T) {
		r, _ := startService(t, simulator.Step{Status: 400, Body: simulator.ErrorText("no audio")})
		r.postForm("/v1/audio/transcriptions", field("model", "m"), recording(), field("stream", "true")).
			failsWith(t, 400, invalidRequest, "upstream_error", "")
	})
}
