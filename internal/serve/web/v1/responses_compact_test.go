package v1_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/testing/simulator"
)

const compactPath = "/v1/responses/compact"

// A conversation is made short by the model itself where the backend cannot, on every kind:
// what the user said stays, and a summary stands for the rest. The output is the input of the
// next request.
func TestConversationsAreMadeShort(t *testing.T) {
	t.Parallel()
	b := gatewaytest.StartBackend(t)
	kinds := []string{"openai", "vllm", "llamacpp", "ollama", "anthropic", "gemini"}
	var instances []string
	for _, kind := range kinds {
		instances = append(instances, gatewaytest.Instance(kind, b.URL(), "adapter: "+kind))
	}
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(append(instances, gatewaytest.Instance("native", b.URL(), "responses: true"))...))
	for _, model := range append(kinds, "native") {
		t.Run(model, func(t *testing.T) {
			b.Script(simulator.Step{Text: "The launch is on Tuesday; \"support\" is told first."})
			short := gatewaytest.DecodeObject(t, r.Post(compactPath, `{"model":"`+model+`","instructions":"be brief","input":[
				{"type":"message","role":"user","content":"We launch on Tuesday."},
				{"type":"message","role":"assistant","content":"Understood."},
				{"type":"function_call","call_id":"c1","name":"tell","arguments":"{\"who\":\"support\"}"},
				{"type":"function_call_output","call_id":"c1","output":"told"},
				{"role":"user","content":[{"type":"input_text","text":"Good."},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}]}`).Succeeds(t).Body)
			output := short["output"].([]any)
			if short["object"] != "response.compaction" || len(output) != 1 || gatewaytest.At(t, short, "output/0/type") != "compaction" || gatewaytest.At(t, short, "usage/total_tokens").(float64) == 0 {
				t.Fatalf("%v", short)
			}
			asked := b.Requests()[len(b.Requests())-1]
			for _, part := range []string{"We launch on Tuesday.", "Understood.", "tell", "support", "told", "summary"} {
				if !strings.Contains(string(asked.Body), part) {
					t.Errorf("the backend was not told %q: %s", part, asked.Body)
				}
			}
			items, err := json.Marshal(append(output, map[string]any{"role": "user", "content": "When is it?"}))
			if err != nil {
				t.Fatal(err)
			}
			r.Post(responsesPath, `{"model":"`+model+`","input":`+string(items)+`}`).Succeeds(t)
			next := b.Requests()[len(b.Requests())-1]
			if body := string(next.Body); !strings.Contains(body, "is told first") || !strings.Contains(body, "We launch on Tuesday.") || !strings.Contains(body, "AAAA") || strings.Contains(body, "Understood") || !strings.Contains(body, "When is it?") || strings.Contains(next.Path, "/v1/responses") {
				t.Errorf("%s got %s", next.Path, body)
			}
		})
	}
}

// A conversation that is kept is made short by its id, and what is not a conversation is
// refused.
func TestWhatIsMadeShort(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	r, b := gatewaytest.StartOne(t)
	first := decodeResponse(t, r.Post(responsesPath, `{"model":"m","input":"the word is cobalt"}`).Succeeds(t).Body)
	short := gatewaytest.DecodeObject(t, r.Post(compactPath, `{"model":"m","previous_response_id":"`+first.ID+`"}`).Succeeds(t).Body)
	if body := string(b.Requests()[len(b.Requests())-1].Body); !strings.Contains(body, "cobalt") || len(short["output"].([]any)) != 1 {
		t.Errorf("%s, %v", body, short)
	}
	r.Post(compactPath, `{"input":"x"}`).FailsWith(t, http.StatusBadRequest, "invalid_request_error", "missing_parameter", "model")
	r.Post(compactPath, `{"model":"m"}`).FailsWith(t, http.StatusBadRequest, "invalid_request_error", "missing_parameter", "input")
	r.Post(compactPath, `{"model":"m","previous_response_id":"resp_none"}`).FailsWith(t, http.StatusBadRequest, "invalid_request_error", "previous_response_not_found", "previous_response_id")
	r.Post(responsesPath, `{"model":"m","input":[{"type":"compaction","encrypted_content":"gAAAA"},{"role":"user","content":"x"}]}`).
		FailsWith(t, http.StatusBadRequest, "invalid_request_error", "invalid_value", "input[0].encrypted_content")
	b.Script(simulator.Step{Body: `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}]}`})
	if reply := r.Post(compactPath, `{"model":"m","input":"x"}`); reply.Status != http.StatusBadGateway {
		t.Errorf("an empty summary: %d %s", reply.Status, reply.Body)
	}
}

// Tokens are counted by the backend where it can, and else estimated, images included. No
// limit and no ledger counts that.
func TestInputTokens(t *testing.T) {
	t.Parallel()
	gatewaytest.Needs(t, "answers")
	const path = "/v1/responses/input_tokens"
	b := gatewaytest.StartBackend(t)
	r := gatewaytest.Start(t, gatewaytest.ChatYAML(gatewaytest.Instance("m", b.URL()), gatewaytest.Instance("vllm", b.URL(), "adapter: vllm"), gatewaytest.Instance("gemini", b.URL(), "adapter: gemini"))+gatewaytest.QuotaOn)
	for model, answer := range map[string]string{"m": "", "vllm": `{"count":42,"max_model_len":4096,"tokens":[1]}`, "gemini": `{"totalTokens":42}`} {
		estimated := answer == ""
		if b.Script(); !estimated {
			b.Script(simulator.Step{Body: answer})
		}
		reply := r.Post(path, `{"model":"`+model+`","instructions":"be brief","input":"`+strings.Repeat("word ", 200)+`"}`).Succeeds(t)
		got := gatewaytest.DecodeObject(t, reply.Body)
		if n := got["input_tokens"].(float64); got["object"] != "response.input_tokens" || n < 10 || n > 2000 || !estimated && n != 42 || (got["estimated"] == true) != estimated || (reply.Header.Get("X-Router-Estimated") != "") != estimated {
			t.Errorf("%s: %v %v", model, got, reply.Header)
		}
	}
	count := func(body string) float64 {
		return gatewaytest.DecodeObject(t, r.Post(path, body).Succeeds(t).Body)["input_tokens"].(float64)
	}
	image := `{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + strings.Repeat("A", 1<<20) + `"}]}]}`
	if n := count(image); n < 1000 || n > 3000 {
		t.Errorf("an image has %v tokens", n)
	}
	id := decodeResponse(t, r.Post(responsesPath, `{"model":"m","input":"`+strings.Repeat("word ", 200)+`"}`).Succeeds(t).Body).ID
	if n := count(`{"model":"m","input":"x","previous_response_id":"` + id + `"}`); n < 200 {
		t.Errorf("with the conversation before it has %v tokens", n)
	}
	r.Post(path, `{"input":"x"}`).FailsWith(t, http.StatusBadRequest, "invalid_request_error", "missing_parameter", "model")
	if requests, _ := gatewaytest.Counted(t, func() gatewaytest.Reply { return r.Do(http.MethodGet, gatewaytest.LongAgo, "") }); requests != 1 {
		t.Errorf("%d requests are counted", requests)
	}
}
