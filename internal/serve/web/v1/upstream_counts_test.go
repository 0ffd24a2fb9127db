package v1_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/breaker"
	"github.com/patchbay-ai/patchbay/internal/request/schema"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

// A backend that has one answer whatever the request says is well; the caller is
// told what came.
func TestFewerChoicesThanAskedForAreNoFailure(t *testing.T) {
	t.Parallel()
	one, two := gatewaytest.StartBackend(t), gatewaytest.StartBackend(t)
	step := simulator.Step{Body: gatewaytest.RawBody}
	one.ScriptForever(step)
	two.ScriptForever(step)
	r := gatewaytest.Start(t, unwatchedYAML("chat", gatewaytest.Instance("m", one.URL()), gatewaytest.Instance("m", two.URL())))
	const calls = 12
	for range calls {
		answer := r.Chat(`{"model":"m","n":3,"messages":[{"role":"user","content":"hi"}]}`)
		fault := answer.FailsWith(t, 502, "api_error", "upstream_error", "")
		if fault.Message != "The backend gave 1 choice where 3 were asked for." || answer.Header.Get("X-Router-Attempts") != "1" {
			t.Errorf("%q after %s attempts", fault.Message, answer.Header.Get("X-Router-Attempts"))
		}
	}
	for _, i := range r.Instances("m") {
		closedAfter(t, i, calls/2)
	}
}

func TestAWrongNumberOfVectorsIsTold(t *testing.T) {
	t.Parallel()
	r, b := gatewaytest.StartService(t)
	b.ScriptForever(simulator.Step{Body: `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1,2]}],"model":"m"}`})
	fault := r.Post("/v1/embeddings", `{"model":"m","input":["a","b"]}`).FailsWith(t, 502, "api_error", "upstream_error", "")
	if fault.Message != "The backend gave 1 vector where 2 were asked for." {
		t.Error(fault.Message)
	}
	i := serving(r, schema.Embedding)[0]
	gatewaytest.Eventually(t, "nothing is in flight", func() bool { return i.InFlight() == 0 })
	if i.Ended(breaker.Failure) == 0 {
		t.Error("nobody can tell whose the vector is, and the instance is not charged with it")
	}
}

// Clients such as LangChain send token ids unless they are told not to. Whoever
// refuses them, the caller learns what to set.
func TestTokenIDsThatAreRefusedNameTheRemedy(t *testing.T) {
	t.Parallel()
	const remedy = "check_embedding_ctx_length=False"
	b := gatewaytest.StartBackend(t)
	b.ScriptForever(simulator.Step{Status: 422, Body: simulator.ErrorText("input must be text")})
	for adapter, status := range map[string]int{"ollama": 400, "gemini": 400, "openai": 422} {
		r := gatewaytest.Start(t, unwatchedYAML("embedding", gatewaytest.Instance("m", b.URL(), "adapter: "+adapter)))
		for _, input := range []string{"[1,2]", "[[1,2],[3]]"} {
			answer := r.Do(http.MethodPost, "/v1/embeddings", `{"model":"m","input":`+input+`}`)
			if fault := gatewaytest.ErrorOf(t, answer.Body); answer.Status != status || !strings.Contains(fault.Message, remedy) {
				t.Errorf("%s, %s: status %d, %s", adapter, input, answer.Status, fault.Message)
			}
		}
		if fault := gatewaytest.ErrorOf(t, r.Do(http.MethodPost, "/v1/embeddings", `{"model":"m","input":"text"}`).Body); strings.Contains(fault.Message, remedy) {
			t.Errorf("%s: a text is told %s", adapter, fault.Message)
		}
	}
}

// A caller that asked for the events of a transcript reads nothing else; a backend
// that has none gets its answer told as such.
func TestAWholeTranscriptIsToldAsEvents(t *testing.T) {
	t.Parallel()
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
		"text":                                   {simulator.Step{Body: `a "b"`, Header: gatewaytest.ContentType("text/plain")}, "text", head + `"text":"a \"b\""}`, 0},
		"text for JSON, as whisper.cpp gives it": {simulator.Step{Body: `a "b"`, Header: gatewaytest.ContentType("text/html")}, "", head + `"text":"a \"b\""}`, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := gatewaytest.StartService(t, c.step)
			parts := []gatewaytest.Part{gatewaytest.Field("model", "m"), gatewaytest.Recording(), gatewaytest.Field("stream", "true")}
			if c.format != "" {
				parts = append(parts, gatewaytest.Field("response_format", c.format))
			}
			answer := r.PostForm("/v1/audio/transcriptions", parts...).Succeeds(t)
			if want := c.want + "\n\ndata: [DONE]\n\n"; answer.Body != want || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
				t.Errorf("%s\n%s\nwant\n%s", answer.Header.Get("Content-Type"), answer.Body, want)
			}
			gatewaytest.Eventually(t, "the tokens are counted", func() bool { return gatewaytest.Sum(r.Scrape(), "model_router_tokens_total") == c.tokens })
		})
	}
	t.Run("an error", func(t *testing.T) {
		r, _ := gatewaytest.StartService(t, simulator.Step{Status: 400, Body: simulator.ErrorText("no audio")})
		r.PostForm("/v1/audio/transcriptions", gatewaytest.Field("model", "m"), gatewaytest.Recording(), gatewaytest.Field("stream", "true")).
			FailsWith(t, 400, gatewaytest.InvalidRequest, "upstream_error", "")
	})
}

// A caller that asked for the events of an image reads nothing else: openai-python takes
// a whole answer for a stream without events.
func TestWholeImagesAreToldAsEvents(t *testing.T) {
	t.Parallel()
	const (
		images = "{\n \"created\": 7, \"size\": \"1x1\", \"quality\": null,\n \"data\": [{\"b64_json\": \"AA==\", \"more\": {\"a\": {}}},\n {\"url\":\"http://x/2.png\"}],\n" +
			" \"usage\": {\n\"input_tokens\":50,\"output_tokens\":50,\"total_tokens\":100}}"
		members = `"created_at":7,"size":"1x1",`
		first   = members + `"b64_json":"AA==","more":{"a":{}}}`
		second  = members + `"url":"http://x/2.png","usage":{"input_tokens":50,"output_tokens":50,"total_tokens":100}}`
	)
	for kind, ask := range map[string]func(r *gatewaytest.Gateway) gatewaytest.Reply{
		"image_generation": func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.Do(http.MethodPost, "/v1/images/generations", `{"model":"m","prompt":"p","n":2,"stream":true}`)
		},
		"image_edit": func(r *gatewaytest.Gateway) gatewaytest.Reply {
			return r.PostForm("/v1/images/edits", gatewaytest.Field("model", "m"), gatewaytest.Field("prompt", "p"), gatewaytest.Field("stream", "true"),
				gatewaytest.Photo(t, "image"))
		},
	} {
		r, b := gatewaytest.StartService(t, simulator.Step{Body: images})
		answer := ask(r).Succeeds(t)
		want := `data: {"type":"` + kind + `.completed",` + first + "\n\n" + `data: {"type":"` + kind + `.completed",` + second + "\n\ndata: [DONE]\n\n"
		if answer.Body != want || !strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
			t.Errorf("%s: %s\n%s\nwant\n%s", kind, answer.Header.Get("Content-Type"), answer.Body, want)
		}
		gatewaytest.Eventually(t, "the tokens are counted", func() bool { return gatewaytest.Sum(r.Scrape(), "model_router_tokens_total") == 100 })
		b.Script(simulator.Step{Body: `{"created":7,"data":[]}`})
		ask(r).FailsWith(t, http.StatusBadGateway, "api_error", "upstream_error", "")
	}
}
