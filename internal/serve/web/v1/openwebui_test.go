package v1_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/patchbay-ai/patchbay/internal/gateway/gatewaytest"
)

// TestRequestsOfOpenWebUI sends what Open WebUI sends to a connection of the type
// OpenAI, and wants of the replies what it reads in them.
func TestRequestsOfOpenWebUI(t *testing.T) {
	t.Parallel()
	b := startBackend(t)
	r := gatewaytest.Start(t, gatewaytest.EveryService(b))
	for _, c := range []struct{ name, method, path, body, want string }{
		{"the check of a connection, and the list of models", http.MethodGet, "/v1/models", "", `"data":[{"id":"m"`},
		{"a chat", http.MethodPost, "/v1/chat/completions", `{"stream":true,"model":"m","messages":[{"role":"user","content":"hi"}],"stream_options":{"include_usage":true}}`, "data: [DONE]"},
		{"a chat with an image", http.MethodPost, "/v1/chat/completions", `{"stream":true,"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"what is it?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]}`, "data: [DONE]"},
		{"a title", http.MethodPost, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"### Task:\nGenerate a title"}],"stream":false,"max_completion_tokens":1000}`, `"choices":[`},
		{"embeddings of documents", http.MethodPost, "/v1/embeddings", `{"input":["a","b"],"model":"m"}`, `"embedding":[`},
		{"rerank of documents", http.MethodPost, "/v1/rerank", `{"model":"m","query":"q","documents":["a","b"],"top_n":2}`, `"relevance_score":`},
		{"an image", http.MethodPost, "/v1/images/generations", `{"model":"m","prompt":"cat","n":1,"size":"512x512","response_format":"b64_json"}`, `"b64_json":"`},
	} {
		reply := r.Do(c.method, c.path, c.body, "Authorization", "Bearer any", "Content-Type", "application/json")
		if reply.Status != http.StatusOK || !strings.Contains(reply.Body, c.want) {
			t.Errorf("%s: %d %.300s", c.name, reply.Status, reply.Body)
		}
	}
	if reply := r.Post("/v1/audio/speech", `{"model":"m","input":"hi","voice":"alloy"}`).Succeeds(t); !strings.HasPrefix(reply.Header.Get("Content-Type"), "audio/") {
		t.Errorf("speech is %s", reply.Header.Get("Content-Type"))
	}
	transcript := r.PostForm("/v1/audio/transcriptions", gatewaytest.Part{Name: "file", Filename: "audio.wav", ContentType: "audio/wav", Value: "RIFF1234"}, gatewaytest.Field("model", "m")).Succeeds(t)
	if !strings.Contains(transcript.Body, `"text":`) {
		t.Errorf("transcript %s", transcript.Body)
	}
	// It falls back to its own lists where these do not exist.
	for _, path := range []string{"/v1/audio/voices", "/v1/audio/models"} {
		if reply := r.Do(http.MethodGet, path, ""); reply.Status != http.StatusNotFound {
			t.Errorf("%s: %d", path, reply.Status)
		}
	}
}
