package v1_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
	"github.com/patchbay-ai/patchbay/internal/hosts/providers"
)

// TestBedrockByKey serves clients from Amazon Bedrock with a key in place of signatures. The paths, headers
// and answers have the shapes of the documentation of AWS.
func TestBedrockByKey(t *testing.T) {
	t.Parallel()
	const (
		openAI  = "openai.gpt-oss-20b-1:0"
		hi      = `"messages":[{"role":"user","content":"hi"}]`
		chatted = `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"` + openAI + `","service_tier":"default","system_fingerprint":"","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"<reasoning>A greeting.</reasoning>Hello there"}}],"usage":{"prompt_tokens":68,"completion_tokens":20,"total_tokens":88}}`
		message = `{"id":"msg_bdrk_1","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[{"type":"text","text":"Hello there"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":68,"output_tokens":20,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}`
	)
	for name, c := range map[string]struct {
		provider, model, more string
		path, body            string
		sentTo, credential    string // the path and the header with the key
		status                int    // of the answer of Bedrock
		answer                string
		want                  []string // in the reply
	}{
		"chat": {"bedrock", openAI, "", "/v1/chat/completions", hi,
			"/openai/v1/chat/completions", "Authorization: Bearer the-key", 200, chatted, []string{"Hello there", `"total_tokens":88`}},
		"stream": {"bedrock", openAI, "", "/v1/chat/completions", `"stream":true,` + hi,
			"/openai/v1/chat/completions", "Authorization: Bearer the-key", 200,
			`data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"` + openAI + `","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello there"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
			[]string{"Hello there", "[DONE]"}},
		"responses": {"bedrock", openAI, "responses: true", "/v1/responses", `"store":false,"input":"hi"`,
			"/openai/v1/responses", "Authorization: Bearer the-key", 200,
			`{"id":"resp_1","object":"response","created_at":1,"status":"completed","model":"` + openAI + `","output":[{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Hello there","annotations":[]}]}],"usage":{"input_tokens":68,"output_tokens":20,"total_tokens":88}}`,
			[]string{"Hello there", `"total_tokens":88`}},
		"responses that are translated": {"bedrock", openAI, "", "/v1/responses", `"store":false,"input":"hi"`,
			"/openai/v1/chat/completions", "Authorization: Bearer the-key", 200, chatted, []string{"Hello there", `"total_tokens":88`}},
		"Claude's own API": {"bedrock-claude", "anthropic.claude-sonnet-4-6", "", "/v1/messages", `"max_tokens":50,` + hi,
			"/anthropic/v1/messages", "X-Api-Key: the-key", 200, message, []string{"Hello there", `"output_tokens":20`}},
		"Claude by chat": {"bedrock-claude", "anthropic.claude-sonnet-4-6", "", "/v1/chat/completions", hi,
			"/anthropic/v1/messages", "X-Api-Key: the-key", 200, message, []string{"Hello there", `"total_tokens":88`}},
		"a prompt that is too long": {"bedrock-claude", "anthropic.claude-sonnet-4-6", "", "/v1/chat/completions", hi,
			"/anthropic/v1/messages", "X-Api-Key: the-key", 400,
			`{"type":"error","error":{"type":"invalid_request_error","message":"Input is too long for requested model."}}`,
			[]string{`"code":"context_length_exceeded"`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			type call struct {
				path, body string
				header     http.Header
			}
			calls := make(chan call, 1)
			bedrock := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					http.NotFound(w, r)
					return
				}
				body, _ := io.ReadAll(r.Body)
				calls <- call{r.URL.Path, string(body), r.Header}
				contentType := "application/json"
				if strings.HasPrefix(c.answer, "data:") {
					contentType = "text/event-stream"
				}
				w.Header().Set("Content-Type", contentType)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
			}))
			t.Cleanup(bedrock.Close)
			p, _ := providers.Find(c.provider)
			address, err := url.Parse(p.BaseURL)
			if err != nil || !strings.Contains(address.Host, ".us-east-1.") || p.Variable != "AWS_BEARER_TOKEN_BEDROCK" {
				t.Fatalf("got %+v, want an address with a region and the variable of AWS", p)
			}
			more := c.more
			if more != "" {
				more = ", " + more
			}
			r := gatewaytest.Start(t, gatewaytest.PolicyYAML(gatewaytest.NoBreakerNoChecks,
				fmt.Sprintf("{name: m, upstream-model: %q, adapter: %s, base-url: %q, api-key: the-key%s}", c.model, p.Adapter, bedrock.URL+address.Path, more)))
			reply := r.Do(http.MethodPost, c.path, `{"model":"m",`+c.body+`}`)
			if reply.Status != c.status {
				t.Fatalf("got %d %s, want %d", reply.Status, reply.Body, c.status)
			}
			for _, want := range c.want {
				if !strings.Contains(reply.Body, want) {
					t.Errorf("got %s, want %s", reply.Body, want)
				}
			}
			sent := <-calls
			header, value, _ := strings.Cut(c.credential, ": ")
			if sent.path != c.sentTo || sent.header.Get(header) != value || !strings.Contains(sent.body, `"model":"`+c.model+`"`) {
				t.Errorf("got %+v, want a call of %s with %s for %s", sent, c.sentTo, c.credential, c.model)
			}
			if version := sent.header.Get("Anthropic-Version"); (version == "2023-06-01") != (p.Adapter == "anthropic") {
				t.Errorf("got the version %q, want 2023-06-01 of Claude's API alone", version)
			}
		})
	}
}
